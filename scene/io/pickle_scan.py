"""What a pickle would do, read from its opcodes without doing any of it."""

from __future__ import annotations

import math
import pickletools
from collections import Counter

_NAMES = ("GLOBAL", "STACK_GLOBAL", "BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINSTRING",
          "SHORT_BINSTRING")  # fmt: skip
_PUTS = ("BINPUT", "LONG_BINPUT", "PUT")
_GETS = ("BINGET", "LONG_BINGET", "GET")


def sharing_bits(content: bytes) -> float:
    """How far a pickle's values can unroll beyond their own length: log2 of the factor.

    Values that are stored once and used again inside one another double with every level, and
    comparing or hashing them takes all of that time. Names and texts cannot nest and do not count.
    Raises ValueError for what is no pickle.
    """
    uses: Counter[object] = Counter()
    plain: set[object] = set()
    before = ""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in _PUTS:
            plain.discard(argument)
            if before in _NAMES:
                plain.add(argument)
        elif opcode.name in _GETS and argument not in plain:
            uses[argument] += 1
        before = opcode.name
    # a value is also used where it was made
    return sum(math.log2(count + 1) for count in uses.values())
