"""Walferry's master as its own process, which can kill itself (SIGKILL) before or after its n-th action.

    python -m tests.cluster.acting_master --quorum localhost:2181 --root file:///hbase --flow balance --die before --at 3

An action is a write under the role, a rename or deletion of files, or a call that asks servers to open or close regions. Each
action is printed. A process that is to die after a write dies when ZooKeeper has answered, while other writes may still be under
way. The process ends by itself once its flow has ended.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from kazoo.handlers.utils import AsyncResult

from tests.cluster.region_site import RUN, TABLE
from walferry.base.zk.client import connected
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.master import role_loop as loop
from walferry.master import tables, wal_splitting
from walferry.master.calls import CalledServers
from walferry.master.reconcile import PassOutcome
from walferry.master.role import Candidate, acting_as_master
from walferry.master.role_loop import Cluster, Master, Pass
from walferry.master.wal_splitting import WalSplitting

ACTIONS = [
    (FencedLock, "_send"),  # a multi: the writes of regions are sent side by side
    (WalSplitting, "wake_workers"),
    (CalledServers, "open"),
    (CalledServers, "close"),
    *((wal_splitting, name) for name in ("rename", "touch", "make_folder", "delete_folder", "delete_empty_folder")),
]
QUIET_PASSES = 3  # after these the flow has ended


class Counter:
    """Counts actions, and ends the process at one of them."""

    def __init__(self, die: str, at: int) -> None:
        self._die, self._at = die, at
        self._count = 0
        self._lock = threading.Lock()

    def wrap(self, owner: Any, name: str) -> None:
        action = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self._count += 1
                count = self._count
            print(f"action {count}: {name}", flush=True)
            self._die_at("before", count)
            answer = None
            try:
                answer = action(*args, **kwargs)
                return answer
            finally:
                self._die_at("after", count, answer)

        setattr(owner, name, counted)

    def _die_at(self, when: str, count: int, answer: object = None) -> None:
        if when == self._die and count == self._at:
            if isinstance(answer, AsyncResult):
                answer.wait()
            os.kill(os.getpid(), signal.SIGKILL)


class EndingMaster(Master):
    """Sets `stop` after some passes without work."""

    stop: threading.Event
    quiet = 0

    def one_pass(self, only: frozenset[str] | None = None) -> Pass:
        done = super().one_pass(only)
        self.quiet = 0 if done.busy else self.quiet + 1
        if self.quiet >= QUIET_PASSES:
            self.stop.set()
        return done

    def balance(self) -> list[PassOutcome]:
        begun = super().balance()
        if begun:
            self.quiet = 0
            self.stop.clear()
        return begun


def act(quorum: str, root: str, flow: str, counter: Counter) -> None:
    for owner, name in ACTIONS:
        counter.wrap(owner, name)
    nodes = ZNodes("/hbase")
    own = OwnZNodes("/walferry", nodes)
    tell: Callable[[str], None] = lambda line: print(line, flush=True)  # noqa: E731
    with connected(quorum) as zk, acting_as_master(zk, nodes, own, Candidate("acting_master", root, RUN)) as role:
        master = EndingMaster(Cluster(zk, nodes, own, CalledServers(), root), role, tell=tell)
        master.stop = threading.Event()
        if flow == "start":
            master.start(2)
        elif flow in ("enable", "disable"):
            getattr(tables, flow)(zk, nodes, role.lock, TABLE)
        master.run(master.stop, 1.0 if flow == "balance" else None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quorum", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--flow", choices=["start", "balance", "enable", "disable", "failure"], required=True)
    parser.add_argument("--die", choices=["before", "after", ""], default="")
    parser.add_argument("--at", type=int, default=0)
    options = parser.parse_args()
    loop.IDLE_SECONDS = loop.BUSY_SECONDS
    act(options.quorum, options.root, options.flow, Counter(options.die, options.at))


if __name__ == "__main__":
    main()
