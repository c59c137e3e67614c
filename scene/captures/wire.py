"""Protocol-buffer messages without a schema compiler: fields by number, bounded."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cached_property

from scene.errors import InputError

# A frame has some thousands.
_MAX_FIELDS = 200_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass
class _Budget:
    """Fields that may still be read from one buffer, whatever its nesting."""

    left: int = _MAX_FIELDS


@dataclass(frozen=True)
class Message:
    """A message in a buffer, at [start, end); fields that nobody asks for cost only their skip.

    Accessors give every value of a repeated field, an empty list for none, and raise InputError
    for a value of another wire type.
    """

    data: bytes
    start: int
    end: int
    source: str
    budget: _Budget = field(default_factory=_Budget)

    @classmethod
    def whole(cls, data: bytes, source: str) -> Message:
        """The message that fills `data`; `source` names it in errors."""
        return cls(data, 0, len(data), source)

    @property
    def content(self) -> bytes:
        """The bytes of the message, for a field that holds plain bytes."""
        return self.data[self.start : self.end]

    def ints(self, number: int) -> list[int]:
        """Signed 64-bit varints (int32, int64, enum, bool)."""
        return [v - (1 << 64) if v >> 63 else v for v in self._values(number, _VARINT)]

    def doubles(self, number: int) -> list[float]:
        """Doubles, one by one or packed."""
        return self._floats(number, _FIXED64, "d", 8)

    def floats(self, number: int) -> list[float]:
        """Single-precision numbers, one by one or packed."""
        return self._floats(number, _FIXED32, "f", 4)

    def messages(self, number: int) -> list[Message]:
        """Nested messages; also how text and bytes are reached."""
        return [
            Message(self.data, start, end, f"{self.source}.{number}", self.budget)
            for start, end in self._values(number, _BYTES)
        ]

    def message(self, number: int) -> Message | None:
        """The last nested message of a field that is not repeated, or None."""
        found = self.messages(number)
        return found[-1] if found else None

    def text(self, number: int) -> str:
        """The text of a field, "" for none."""
        found = self.message(number)
        return found.content.decode("utf-8", errors="replace") if found else ""

    def number(self, number: int, default: int = 0) -> int:
        """The last varint of a field that is not repeated."""
        found = self.ints(number)
        return found[-1] if found else default

    def double(self, number: int, default: float = 0.0) -> float:
        """The last double of a field that is not repeated."""
        found = self.doubles(number)
        return found[-1] if found else default

    def _values(self, number: int, kind: int) -> list:
        found = self._fields.get(number, [])
        if any(wire != kind for wire, _ in found):
            raise InputError(f"{self.source}.{number}: holds another kind of value than wanted")
        return [value for _, value in found]

    def _floats(self, number: int, kind: int, code: str, size: int) -> list[float]:
        values: list[float] = []
        for wire, value in self._fields.get(number, []):
            if wire == kind:
                values.append(struct.unpack_from(f"<{code}", self.data, value)[0])
            elif wire == _BYTES and (value[1] - value[0]) % size == 0:
                count = (value[1] - value[0]) // size
                self._spend(count)
                values.extend(struct.unpack_from(f"<{count}{code}", self.data, value[0]))
            else:
                raise InputError(f"{self.source}.{number}: wanted numbers, found another kind")
        return values

    def _spend(self, count: int) -> None:
        self.budget.left -= count
        if self.budget.left < 0:
            raise InputError(f"{self.source}: holds more than {_MAX_FIELDS} values")

    @cached_property
    def _fields(self) -> dict[int, list]:
        """(wire type, value) pairs by number: an int, an offset, or (start, end)."""
        found: dict[int, list] = {}
        position = self.start
        while position < self.end:
            self._spend(1)
            key, position = self._varint(position)
            number, wire = key >> 3, key & 7
            value: int | tuple[int, int]
            if wire == _VARINT:
                value, position = self._varint(position)
            elif wire in (_FIXED64, _FIXED32):
                value, position = position, position + (8 if wire == _FIXED64 else 4)
            elif wire == _BYTES:
                length, position = self._varint(position)
                value, position = (position, position + length), position + length
            else:
                raise InputError(f"{self.source}: is damaged at byte {position} (wire type {wire})")
            if number == 0 or position > self.end:
                raise InputError(f"{self.source}: is cut off or damaged at byte {position}")
            found.setdefault(number, []).append((wire, value))
        return found

    def _varint(self, position: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if position >= self.end:
                break
            byte = self.data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & 0xFFFFFFFFFFFFFFFF, position
        raise InputError(f"{self.source}: is cut off or damaged at byte {position}")
