"""Notices when this machine stands still.

A shared host may give a machine no processor for many seconds. ZooKeeper's sessions expire then and time limits pass, which says
nothing about the code. So a test that fails while the machine stands still is run once more. Any other failure stays one.
"""

from __future__ import annotations

import threading
import time

TICK_SECONDS = 0.5
STALL_SECONDS = 4.0


class StallWatch:
    """Ticks in a thread of its own, and remembers when a tick came far too late."""

    def __init__(self) -> None:
        self.seconds = 0.0  # for how long the machine has stood still since `reset`
        threading.Thread(target=self._run, name="stall-watch", daemon=True).start()

    def reset(self) -> None:
        self.seconds = 0.0

    def saw_a_stall(self) -> bool:
        return self.seconds > 0

    def _run(self) -> None:
        before, worked_before = time.monotonic(), time.process_time()
        while True:
            time.sleep(TICK_SECONDS)
            now, worked = time.monotonic(), time.process_time()
            self.seconds += stall(now - before, worked - worked_before)
            before, worked_before = now, worked


def stall(gap: float, worked: float) -> float:
    """Return for how many seconds the machine stood still, if a tick came after `gap` seconds, in which this process worked for
    `worked` seconds. That is 0 if the gap is short, or if this process itself held the tick up (by a call that holds the GIL)."""
    return gap if gap > STALL_SECONDS and worked < gap / 2 else 0.0
