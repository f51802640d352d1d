"""Notices when this machine gets no processor: it stands still, or its host takes much of the time away.

A shared host may do so for many seconds. ZooKeeper's sessions expire then and time limits pass, which says nothing about the
code. So a test that fails in such a moment runs again on new clusters, at most twice. Any other failure stays one, except in CI
(`tests/conftest.py`).
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

TICK_SECONDS = 0.5
STALL_SECONDS = 4.0
STOLEN_SHARE = 0.25  # of the time in which the machine's processors had work


class StallWatch:
    """Ticks in a thread of its own, and remembers when a tick came far too late."""

    def __init__(self) -> None:
        self.seconds = 0.0  # for how long the machine has stood still since `reset`
        self._times = processor_times()
        threading.Thread(target=self._run, name="stall-watch", daemon=True).start()

    def reset(self) -> None:
        self.seconds = 0.0
        self._times = processor_times()

    def saw_a_stall(self) -> bool:
        return self.seconds > 0 or stolen_share(self._times, processor_times()) > STOLEN_SHARE

    def _run(self) -> None:
        before, worked_before = time.monotonic(), time.process_time()
        never = threading.Event()
        while not never.wait(TICK_SECONDS):  # a test may replace time.sleep with one of its own
            now, worked = time.monotonic(), time.process_time()
            self.seconds += stall(now - before, worked - worked_before)
            before, worked_before = now, worked


def stall(gap: float, worked: float) -> float:
    """Return for how many seconds the machine stood still, if a tick came after `gap` seconds, in which this process worked for
    `worked` seconds. That is 0 if the gap is short, or if this process itself held the tick up (by a call that holds the GIL)."""
    return gap if gap > STALL_SECONDS and worked < gap / 2 else 0.0


def processor_times() -> tuple[int, ...]:
    """user, nice, system, idle, iowait, irq, softirq and steal of all processors, in ticks, as in Linux's /proc/stat."""
    return tuple(map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]))


def stolen_share(before: tuple[int, ...], after: tuple[int, ...]) -> float:
    """Return which part of the time in which the processors had work the host gave to others (steal)."""
    user, nice, system, _, _, irq, softirq, steal = (b - a for a, b in zip(before, after, strict=True))
    wanted = user + nice + system + irq + softirq + steal
    return steal / wanted if wanted > 0 else 0.0
