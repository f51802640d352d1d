"""Runs tasks in processes of this machine, a few at a time.

When the command is interrupted or gone, each process unwinds: it gives up the locks that it holds in ZooKeeper, such as the lease
on a queue, once no request is under way. Threads would not do, because only a signal to its process can end a task from outside.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection as pipes
from types import FrameType
from typing import Any, Generic, TypeVar

from walferry.base.jobs import BackendFailed, Progress, reporting
from walferry.base.records import Record

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound=Record)

# For a process to end after SIGTERM: it waits for requests under way (engine/run.py).
LEAVE_SECONDS = 45.0
JOIN_SECONDS = 5.0
ENDED_BY_SIGNAL = 128


def run_all(function: Callable[[T], R], things: Sequence[T], workers: int) -> Iterator[tuple[T, R | BackendFailed]]:
    """Call `function` for each thing, `workers` at a time, and yield the results as they come: BackendFailed if its process ends.

    When the iterator is closed, or the command interrupted, all processes are ended and waited for.
    """
    waiting = list(reversed(things))
    started: list[_Worker[T, R]] = []
    before = signal.signal(signal.SIGTERM, _interrupted)  # so that `kill` waits for the processes, as Ctrl-C does
    try:
        for _ in range(min(workers, len(things))):
            started.append(_Worker(function))
        for worker in started:
            worker.give(waiting.pop())
        while busy := [worker for worker in started if worker.busy]:
            ready = pipes.wait([worker.pipe for worker in busy])
            for worker in busy:
                if worker.pipe not in ready:
                    continue
                yield worker.take()
                if waiting:
                    if not worker.alive:
                        started.append(worker := _Worker(function))
                    worker.give(waiting.pop())
    finally:
        try:
            _end(started)
        finally:
            signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True)
class LocalProcesses:
    """A backend for jobs: `cores` processes of this machine at a time."""

    cores: int
    least_bytes: int = 0

    @property
    def most_tasks(self) -> int:
        """The number of tasks that run at a time."""
        return self.cores

    def run(
        self, function: Callable[[T], S], items: Sequence[T], result: type[S], lost: Callable[[T, str], S] | None = None,
        progress: Progress | None = None,
    ) -> list[S]:  # fmt: skip
        """Call `function` for each item. If a process dies in the middle of an item, call `lost`, or raise BackendFailed."""
        found: dict[int, S] = {}
        with reporting(progress, lambda: (len(found), len(items))):
            for (number, item), done in run_all(partial(_numbered, function), list(enumerate(items)), self.cores):
                if not isinstance(done, BackendFailed):
                    found[number] = done
                elif lost is not None:
                    found[number] = lost(item, str(done))
                else:
                    raise done
        return [found[number] for number in range(len(items))]


def _numbered(function: Callable[[Any], R], item: tuple[int, Any]) -> R:
    return function(item[1])


class _Worker(Generic[T, R]):
    """A process, and the pipe through which it gets tasks and gives results."""

    def __init__(self, function: Callable[[T], R]) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share the connections of this process
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, function), daemon=True)
        self.process.start()
        theirs.close()
        self.busy = self.alive = True
        self._thing: T | None = None

    def give(self, thing: T) -> None:
        self._thing, self.busy = thing, True
        self.pipe.send(thing)

    def take(self) -> tuple[T, R | BackendFailed]:
        """Return the task with its result."""
        thing: Any = self._thing
        self.busy = False
        try:
            result: R = self.pipe.recv()
        except EOFError:
            self.alive = False
            self.process.join(JOIN_SECONDS)
            return thing, BackendFailed(f"its process has ended with code {self.process.exitcode}")
        return thing, result


def _end(workers: Sequence[_Worker[Any, Any]]) -> None:
    """Have the processes end, and wait for them. A second Ctrl-C kills them: their leases end with their sessions."""
    for worker in workers:
        worker.pipe.close()
        if worker.busy:
            worker.process.terminate()
    try:
        for worker in workers:
            worker.process.join(LEAVE_SECONDS)
    finally:
        for worker in workers:
            if worker.process.is_alive():
                worker.process.kill()


def _serve(pipe: pipes.Connection, function: Callable[[Any], Any]) -> None:
    """Run task after task in a worker process, until there are no more tasks or a signal ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends SIGINT to all processes; the command decides
    signal.signal(signal.SIGTERM, _unwind)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            thing = pipe.recv()
        except EOFError:
            return
        pipe.send(function(thing))


def _interrupted(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _unwind(number: int, _: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough, and nothing must interrupt the unwinding
    raise SystemExit(ENDED_BY_SIGNAL + number)


def _end_with_parent() -> None:
    """Wait until the command is gone, and end this process: its work is no longer needed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        pipes.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
