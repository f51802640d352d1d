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
from pathlib import Path
from typing import BinaryIO

from tests.stalls import processor_times, stolen_share

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
    """Looks every few seconds whether the host takes time away, and lets the processors spin while it does."""

    def __init__(self) -> None:
        self._spinning: list[subprocess.Popen[bytes]] = []
        self._turn: BinaryIO | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        times, spin_until = processor_times(), 0.0
        while not self._ended.wait(LOOK_SECONDS):
            before, times = times, processor_times()
            if stolen_share(before, times) > STOLEN_SHARE:
                spin_until = time.monotonic() + STAY_SECONDS
                self._turn = self._turn or turn()
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


def turn() -> BinaryIO | None:
    """Take the machine's lock, which closing the file or the process's end gives back. Returns None if another run has it."""
    file = LOCK.open("ab")
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
