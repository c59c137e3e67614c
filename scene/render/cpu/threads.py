"""A few threads of our own that work kernels in parallel.

Numba's parallel loops are not used: one of its thread layers aborts when two Python threads render
at once, another changes the number of threads that torch computes with.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

Result = TypeVar("Result")


def default_threads() -> int:
    """As many threads as this process has cores, at most eight."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS, Windows
        cores = os.cpu_count() or 1
    return max(1, min(8, cores))


def run_shares(threads: int, work: Callable[[int], Result]) -> list[Result]:
    """`work(0)` to `work(threads - 1)` at once; share 0 runs on the calling thread."""
    if threads == 1:
        return [work(0)]
    others = [_pool().submit(work, share) for share in range(1, threads)]
    first = work(0)
    return [first, *(other.result() for other in others)]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(
        max_workers=max(2, 2 * default_threads()), thread_name_prefix="advscene-render"
    )
