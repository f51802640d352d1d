"""Keeps the processors of a virtual machine from halting while tests run and the host makes them wait.

On a host with little to spare, a virtual processor that halts waits some milliseconds for its turn each time it has work again.
Servers that mostly wait for each other lose most of their time so: tests of ours took four times as long. Linux's own remedy
is its haltpoll driver, which not each virtual machine has. This does the same from outside of the kernel: a process a
processor that runs only while nothing else wants to (SCHED_IDLE), and only for as long as the host takes time away. One test run
does it for all that run on the machine: several such processes a processor take time from those of a low priority.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from tests.running.stalls import processor_times, stolen_share

LOOK_SECONDS = 5.0
STAY_SECONDS = 120.0  # after the last look that saw the host take time away
STOLEN_SHARE = 0.1
LOCK = Path(tempfile.gettempdir()) / f"walferry-awake-{os.getuid()}.lock"

# Ends by itself soon after the process that started it, however that one ended.
SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() == int(sys.argv[2]):
    for _ in range(1_000_000):
        pass
"""


class Waker:
    """Looks every few seconds whether the host takes time away, and lets the processors spin while it does.

    `stolen` tells which share of its time the host took since it was last asked.
    """

    def __init__(
        self,
        stolen: Callable[[], float] | None = None,
        *,
        look_seconds: float = LOOK_SECONDS,
        stay_seconds: float = STAY_SECONDS,
        lock: Path = LOCK,
    ) -> None:
        self._stolen = stolen or stolen_since_last()
        self._look_seconds = look_seconds
        self._stay_seconds = stay_seconds
        self._lock = lock
        self._spinning: list[subprocess.Popen[bytes]] = []
        self._turn: BinaryIO | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waker", daemon=True)

    @property
    def spinning(self) -> list[subprocess.Popen[bytes]]:
        """The processes that spin now."""
        return self._spinning

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        spin_until = 0.0
        while not self._ended.wait(self._look_seconds):
            if self._stolen() > STOLEN_SHARE:
                spin_until = time.monotonic() + self._stay_seconds
                self._turn = self._turn or turn(self._lock)
                self._spinning = self._spinning or (spinning() if self._turn else [])
            elif time.monotonic() > spin_until:
                self._rest()
        self._rest()

    def _rest(self) -> None:
        for process in self._spinning:
            process.kill()
            process.wait()
        self._spinning = []
        if self._turn is not None:
            self._turn.close()
            self._turn = None


def stolen_since_last() -> Callable[[], float]:
    """Return a function that returns the share of its time that the host has taken since the last call."""
    times = processor_times()

    def stolen() -> float:
        nonlocal times
        before, times = times, processor_times()
        return stolen_share(before, times)

    return stolen


def turn(lock: Path) -> BinaryIO | None:
    """Take the machine's lock, which closing the file or the process's end gives back. Returns None if another run has it."""
    file = lock.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def spinning() -> list[subprocess.Popen[bytes]]:
    """Start a process on each processor of this one that runs while nothing else does."""
    processors = sorted(os.sched_getaffinity(0))
    return [subprocess.Popen([sys.executable, "-S", "-c", SPIN, str(n), str(os.getpid())]) for n in processors]
