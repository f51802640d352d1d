"""Measures processes: CPU seconds of running servers, and CPU seconds and peak memory of a job with all its children."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

POLL_SECONDS = 0.1


def cpu_seconds(pids: Iterable[int]) -> float:
    """The user and system time of these processes so far."""
    total = 0.0
    for pid in pids:
        times = psutil.Process(pid).cpu_times()
        total += times.user + times.system
    return total


@dataclass(frozen=True)
class Usage:
    """A process tree's CPU seconds and largest sum of resident memory (polled, so short peaks may be missed)."""

    cpu_seconds: float
    peak_bytes: int
    peak_python_bytes: int  # of its largest Python process


class TreeUsage:
    """Watches a process and its descendants. `stop()` returns what they have used since this was made."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._cpu: dict[int, float] = {}
        self._peak = 0
        self._peak_python = 0
        self._look()
        self._before = sum(self._cpu.values())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> Usage:
        self._ended.set()
        self._thread.join()
        self._look()
        return Usage(sum(self._cpu.values()) - self._before, self._peak, self._peak_python)

    def _watch(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            self._look()

    def _look(self) -> None:
        resident = 0
        for process in self._tree():
            try:
                times, memory = process.cpu_times(), process.memory_info().rss
                self._cpu[process.pid] = times.user + times.system
                resident += memory
                if "python" in process.name():
                    self._peak_python = max(self._peak_python, memory)
            except psutil.Error:
                continue
        self._peak = max(self._peak, resident)

    def _tree(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return []
