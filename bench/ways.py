"""The ways in which a backlog gets to the peer cluster, each of them a row of the table.

 hbase            HBase's own replication: the plain peer is enabled until it has nothing left
 direct           Walferry writes to the peer cluster's regions (ClientService.Multi)
 replicate        Walferry sends the edits as HBase's own sources do (ReplicateWALEntry)
 hfiles           Walferry writes HFiles, which the peer cluster loads
 …, submitted     the same by a Spark job of its own, through spark-submit; the others go through a Spark Connect server
 WALPlayer, HFiles   HBase's WALPlayer with wal.bulk.output, and BulkLoadHFilesTool behind it, on the same WALs
 WALPlayer, puts     HBase's WALPlayer, which puts into the peer cluster's table

Walferry's are whole tasks of Airflow, see bench.task. WALPlayer's seconds count from the start of its JVM, in which it runs under
MapReduce's local runner with a map or a reduce a core at a time, to the end of the load.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from bench.clusters import PLAIN_PEER, TABLE, TIMEOUT_SECONDS, Bench, region_servers_cpu, wait
from bench.processes import TreeUsage
from bench.task import Place, Shipping, ship
from embedded.wal_player import start_wal_player
from walferry.hbase.files.listing import locate_all
from walferry.hbase.names import parse_wal_name
from walferry.hbase.wal.header import EMPTY_TRAILER
from walferry.replication.queues.reading import read_queues
from walferry.replication.source.session import Session, open_session

T = TypeVar("T")

HBASE = "hbase"
SINKS = ("direct", "replicate", "hfiles")
SUBMITTED = ("direct", "hfiles")
DRAINED_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Backlog:
    """What is queued for all peers. `wals` are the closed WALs that hold it, with their sizes."""

    rows: int
    wals: Mapping[str, int]
    groups: tuple[str, ...] = ()  # the WAL groups that hold it, if these are to be drained to their ends; empty means all

    @property
    def wal_bytes(self) -> int:
        return sum(self.wals.values())

    def left(self, session: Session, peer_id: str) -> bool:
        """Whether a peer still has any of it queued: a WAL with an unshipped entry or, of groups, any WAL at all."""
        queued = {wal.name.text: wal for queue in read_queues(session, peer_id) for wal in queue.wals}
        ends = {name: math.inf if self.groups else size - len(EMPTY_TRAILER) for name, size in self.wals.items()}
        return any(queued[name].position < ends[name] for name in self.wals.keys() & queued.keys())


@dataclass(frozen=True)
class Took:
    """What a way took. Times are in seconds."""

    seconds: float  # while it shipped
    whole: float  # from the start of a task, or of a process, to its end
    own_cpu: float  # of the processes that shipped, meanwhile
    job_cpu: float = 0.0  # of everything that runs for this alone, from start to end
    peak: int = 0  # resident memory of these processes
    peak_python: int = 0  # and of the largest Python process among them


@dataclass(frozen=True)
class Way:
    """A way by its name and, if Walferry is to keep a queue for it, its managed peer."""

    name: str
    run: Callable[[Bench, Backlog, str], Took] = field(repr=False)
    peer: str | None = None


def by_hbase(on: Bench, backlog: Backlog, run_id: str) -> Took:
    """Enable the plain peer until it has nothing left."""
    with open_session(on.source) as session:
        before, began = region_servers_cpu(on.source_cluster), time.monotonic()
        on.client.enable_peer(PLAIN_PEER)
        wait(lambda: not backlog.left(session, PLAIN_PEER), "HBase's replication drains its queues", pause=DRAINED_POLL_SECONDS)
        seconds = time.monotonic() - began
    took = Took(seconds, seconds, region_servers_cpu(on.source_cluster) - before)
    on.client.disable_peer(PLAIN_PEER)
    return took


def walferry(
    name: str, sink: str, *, connect: bool = True, cores: Sequence[int] | None = None, slots: int = 2, along: Sequence[str] = ()
) -> Way:
    """A task that ships, through the Spark Connect server or spark-submit. `cores` and `slots`: see bench.task.Place; `along`
    are peers that it takes along."""
    peer = "".join(char for char in name if char.isalnum())

    def run(on: Bench, backlog: Backlog, run_id: str) -> Took:
        place = Place(on.connect() if connect else None, cores, slots)
        done = ship(Shipping(on.source, peer, run_id, sink, backlog.groups, place, along), on.log)
        with open_session(on.source) as session:
            if backlog.left(session, peer):
                raise RuntimeError(f"{name} has left something queued:\n{on.log.read_text()[-4000:]}")
        used, cpu = (done.used, done.server), done.cpu_seconds
        peak, peak_python = sum(u.peak_bytes for u in used), max(u.peak_python_bytes for u in used)
        return Took(done.shipping, done.seconds, done.own_cpu or cpu, cpu, peak, peak_python)

    return Way(name, run, peer)


def wal_player(name: str, *, hfiles: bool) -> Way:
    """WALPlayer, which writes HFiles or puts."""

    def run(on: Bench, backlog: Backlog, run_id: str) -> Took:
        output = f"{on.hdfs.url}/{run_id}" if hfiles else None
        urls = located(on, backlog)
        began = time.monotonic()
        job = start_wal_player(
            on.source_cluster.address, on.peer_hbase.address, urls, TABLE, on.folder / run_id,
            hfiles=output, tasks=len(os.sched_getaffinity(0)), classpath=on.setup.codecs,
        )  # fmt: skip
        usage = TreeUsage(job.pid)
        code = job.popen.wait(TIMEOUT_SECONDS)
        seconds, used = time.monotonic() - began, usage.stop()
        if code:
            raise RuntimeError(f"{name} ended with code {code}; {job.tail()}")
        return Took(seconds, seconds, used.cpu_seconds, used.cpu_seconds, used.peak_bytes)

    return Way(name, run)


def located(on: Bench, backlog: Backlog) -> list[str]:
    """The URLs of a backlog's WALs, wherever they are now."""
    with open_session(on.source) as session:
        found = locate_all(session.store, [(parse_wal_name(name), ()) for name in backlog.wals])
    if missing := backlog.wals.keys() - found.keys():
        raise RuntimeError(f"WALs are gone: {sorted(missing)}")
    return sorted(location.url for location in found.values())


def ways() -> dict[str, Way]:
    """All ways, by their names. The first one is HBase's."""
    every = [
        Way(HBASE, by_hbase),
        *(walferry(sink, sink) for sink in SINKS),
        *(walferry(f"{sink}, submitted", sink, connect=False) for sink in SUBMITTED),
        wal_player("WALPlayer, HFiles", hfiles=True),
        wal_player("WALPlayer, puts", hfiles=False),
    ]
    return {way.name: way for way in every}


def chosen(names: str, every: Mapping[str, T]) -> list[T]:
    """Those of `every` whose names are given, with `;` between them; all without names. Raises SystemExit for another name."""
    asked = [name.strip() for name in names.split(";") if name.strip()]
    if unknown := [name for name in asked if name not in every]:
        raise SystemExit(f"unknown ways: {'; '.join(unknown)}. There are: {'; '.join(every)}")
    return [way for name, way in every.items() if not asked or name in asked]
