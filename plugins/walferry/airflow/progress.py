"""How far a Spark job is, in the log of the task that waits for it: read from the summaries that it keeps in ZooKeeper."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from walferry.source import SourceCluster

if TYPE_CHECKING:  # a DAG file imports this by way of the operator, and is parsed without kazoo
    from walferry.summary import GroupSummary

EVERY_S = 10.0
JOIN_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """WALs and bytes done, of those that were planned; by all attempts of the run together."""

    wals_done: int
    wals: int
    bytes_done: int
    bytes: int

    def __str__(self) -> str:
        percent = f" ({100 * self.bytes_done // self.bytes} %)" if self.bytes else ""
        left = f"left: {count(self.wals - self.wals_done, 'WAL')}, {size(self.bytes - self.bytes_done)}"
        return f"{self.wals_done:,} of {count(self.wals, 'WAL')}, {size(self.bytes_done)} of {size(self.bytes)}{percent}; {left}"


def progress(plan: Mapping[str, Any], summaries: Sequence[GroupSummary]) -> Progress:
    """How far the job of `plan` is. Files may have grown since it was made: HBase closed them, or HDFS recovered their length."""
    wals_done = sum(s.completedLogs for s in summaries)
    wals = max(plan["wals"], wals_done)
    to_ship, done = (sum(getattr(s, field) for s in summaries) for field in ("bytesToShip", "bytesDone"))
    total = max(plan["bytes"], to_ship)
    begun = sum(bool(s.queue_id or s.status == "done") for s in summaries)
    if begun >= plan["groups"]:  # what is in no group's figures was done by earlier attempts
        done += total - to_ship
    return Progress(wals_done, wals, min(done, total), total)


class ProgressLog:
    """Tells the progress of a run whenever it has changed, until the block that this surrounds is left, and at its end."""

    def __init__(
        self,
        source: SourceCluster,
        peer: str,
        plan: Mapping[str, Any],
        groups: Collection[str] | None,  # None: all of the peer
        tell: Callable[[str], object],
    ) -> None:
        self._source = source
        self._peer = peer
        self._plan = plan
        self._groups = groups
        self._tell = tell
        self._told: Progress | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"progress of peer {peer}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(JOIN_S)

    def _run(self) -> None:
        from walferry.zk.client import connected
        from walferry.zk.errors import ZkError

        while not self._ended.wait(EVERY_S):
            try:
                with connected(self._source.quorum) as zk:
                    self._look(zk)
                    while not self._ended.wait(EVERY_S):
                        self._look(zk)
                    self._look(zk)
            except ZkError as error:
                log.debug("progress of peer %s: %s", self._peer, error)

    def _look(self, zk: Any) -> None:
        from walferry.summary import read_run

        found = read_run(zk, self._source, self._peer, self._plan["run_id"])
        mine = [s for s in found if self._groups is None or s.group in self._groups]
        now = progress(self._plan, mine)
        if mine and now != self._told:
            self._told = now
            self._tell(f"peer {self._peer}: {now}")


def count(number: int, noun: str) -> str:
    """A number of things, in English."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: int) -> str:
    """A number of bytes for people."""
    if number < 1000:
        return f"{number} B"
    value, units = number / 1000, ["kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:,.1f} {units[0]}"
