"""How a call's work grows with its data: a statement that holds on any machine, where a bound in seconds does not."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMES = 8
LINEAR = 3 * TIMES  # work in proportion to the data grows 8 times, by the square of it 64 times
ATTEMPTS = 3  # the best counts: the processor's caches and other processes make single calls slower


def growth(prepare: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return how many times as much of a core a call on `size` takes as one on an eighth of it.

    `prepare` makes the data of a size, which does not count, and returns the call on it. The larger call has to take some tens of
    milliseconds, or the smaller one is too short to be measured.
    """
    return _seconds(prepare, size) / _seconds(prepare, size // TIMES)


def _seconds(prepare: Callable[[int], Callable[[], object]], size: int) -> float:
    taken = []
    for _ in range(ATTEMPTS):
        call = prepare(size)
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return min(taken)
