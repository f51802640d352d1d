"""Runs code that talks to ZooKeeper in a thread that stops before each write until it may go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient

from tests.zk.claim_cluster import WRITES, Killed

STEP_TIMEOUT_SECONDS = 60


class Stepped:
    """`work(zk)` at work. `error` is the error that ended it, if any."""

    def __init__(self, zk: KazooClient, work: Callable[[KazooClient], object]) -> None:
        self.error: BaseException | None = None
        self.killed = False
        self._zk = zk
        self._changed = threading.Condition()
        self._waiting = False  # before a write
        self.before: Any = None  # the write before which it stands
        self._go = False
        self._done = False
        self._call = zk._call
        zk._call = self._gated
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        self._await_stop()

    @property
    def running(self) -> bool:
        return not self._done

    def step(self) -> None:
        """Let the work do one write, and wait until it stands before the next one, or has ended."""
        with self._changed:
            if self._done:
                return
            self._go, self._waiting = True, False
            self._changed.notify_all()
        self._await_stop()

    def finish(self) -> None:
        while self.running:
            self.step()

    def kill(self) -> None:
        """Drop the write that the work is about to make, and all later ones."""
        self.killed = True
        self.finish()

    def _run(self, work: Callable[[KazooClient], object]) -> None:
        try:
            work(self._zk)
        except BaseException as error:
            self.error = error
        finally:
            self._zk._call = self._call
            with self._changed:
                self._done = True
                self._changed.notify_all()

    def _await_stop(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._done or self._waiting, STEP_TIMEOUT_SECONDS), "it neither ends nor writes"

    def pause(self) -> None:
        """Stop here too until the work may go on. The work itself calls this. Raises Killed if it was killed meanwhile."""
        self._stop()
        if self.killed:
            raise Killed

    def _stop(self) -> None:
        if not self.killed:
            with self._changed:
                self._waiting = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._go, STEP_TIMEOUT_SECONDS)
                self._go = False

    def _gated(self, request: Any, result: Any) -> Any:
        if isinstance(request, WRITES):
            self.before = request
            self._stop()
            self.before = None
        if self.killed:
            result.set_exception(Killed())
            return None
        return self._call(request, result)
