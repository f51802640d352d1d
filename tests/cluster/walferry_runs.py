"""Runs batches of the library on real clusters, in this process (roll, plan, ship each group), and looks into the queues."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from embedded.client import GLOBAL, JavaClient, JavaClientError
from embedded.hbase import ClusterAddress
from embedded.wire import Cell, WalEntry
from tests.cluster.local_spread import LocalSpread
from tests.sessions import session_of
from walferry.base.jobs import Backend
from walferry.base.zk.client import children, connected
from walferry.engine.summary import GroupSummary
from walferry.hbase.files.closedness import await_closed
from walferry.hbase.files.quarantine import BrokenWals
from walferry.hbase.files.store import WalStore
from walferry.hbase.layout import OwnZNodes
from walferry.hbase.names import WalName, parse_wal_name
from walferry.load.records import forget_finished
from walferry.replication.peers.settings import REQUEST_SINKS, PeerSettings, SinkKind
from walferry.replication.queues import rolling
from walferry.replication.queues.queue import Queue
from walferry.replication.queues.reading import read_queues
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.shipping.bulkload.driver import load_backlog
from walferry.shipping.group import ship_group
from walferry.shipping.group_job import GroupJob, Left
from walferry.shipping.plan import PeerPlan, plan_peer

# Marks tests that run for each way to send edits. They get the fixture `sink`, through `sides` or `members`.
BOTH_SINKS = pytest.mark.parametrize("sink", REQUEST_SINKS, indirect=True)
ALL_SINKS = pytest.mark.parametrize("sink", [*REQUEST_SINKS, SinkKind.HFILES], indirect=True)
# Marks tests of a peer cluster behind proxies, as other processes see it: only its own list of servers leads to the proxies.
BY_REPLICATE = pytest.mark.parametrize("sink", [SinkKind.REPLICATE], indirect=True)
# The same as BOTH_SINKS for long tests: `make test` runs them with the default.
BOTH_SINKS_IN_SOAK = pytest.mark.parametrize(
    "sink",
    [kind if kind is PeerSettings.sink else pytest.param(kind, marks=pytest.mark.soak) for kind in REQUEST_SINKS],
    indirect=True,
)


CALL_SECONDS = 10.0


def source_of(address: ClusterAddress, sink: SinkKind = PeerSettings.sink) -> SourceCluster:
    """Return the cluster as a source whose peers are shipped to as `sink` says.

    A run after a killed one waits until the killed run's requests can no longer take effect, so requests have little time here.
    """
    settings = {"sink": sink, "replication.source.shipedits.timeout": f"{CALL_SECONDS * 1000:.0f}"}
    return SourceCluster(
        quorum=address.quorum, wal_root=address.wal_root, znode_parent=address.znode_parent, replication=settings
    )


def sink_of(source: SourceCluster) -> SinkKind:
    return SinkKind(source.replication.get("sink", PeerSettings.sink))


def plan(source: SourceCluster, peer_id: str) -> PeerPlan:
    with connected(source.quorum, login=source.login) as zk:
        return plan_peer(session_of(zk, source), peer_id)


def roll(source: SourceCluster, peer_id: str) -> None:
    with open_session(source) as session:
        rolled = rolling.roll(session, [peer_id])
    assert not rolled.failures


def ship(
    source: SourceCluster, peer_id: str, *, deadline: float = 120.0, run_id: str = "test", settings: PeerSettings | None = None,
    senders: int = 2, groups: list[str] | None = None, roll_first: bool = True, broken_wals: BrokenWals = BrokenWals.STOP,
    refused: bool = False, spread: Callable[[], Backend] = LocalSpread, also: Sequence[str] = (),
) -> list[GroupSummary]:  # fmt: skip
    """Run one batch of a peer. Returns the summaries of its groups, or of the groups in `groups`.

    The files of the peers in `also` are made together with this one's, as far as that is possible. Edits are sent in the way
    that the source says, unless the peer cluster is expected to have `refused` that.
    """
    if roll_first:
        roll(source, peer_id)
    names = [g.group for g in plan(source, peer_id).groups] if groups is None else groups
    settings = replace(settings or PeerSettings(), hfiles_from=0)
    settings = replace(settings, sink=sink_of(source), call_timeout_seconds=min(CALL_SECONDS, settings.call_timeout_seconds))

    def jobs_of(peer: str, groups: Sequence[str]) -> list[GroupJob]:
        return [
            GroupJob(
                source=source, peer_id=peer, group=name, run_id=run_id, holder=f"run {run_id}",
                deadline=time.time() + deadline, senders=senders, settings=settings, broken_wals=broken_wals,
            )
            for name in groups
        ]  # fmt: skip

    jobs = jobs_of(peer_id, names)
    left = Left((), jobs)
    if jobs and sink_of(source).makes_files:
        others = [jobs_of(peer, [group.group for group in plan(source, peer).groups]) for peer in also]
        left = load_backlog(jobs, spread(), also=[each for each in others if each])
    with ThreadPoolExecutor(max(1, len(left.jobs))) as pool:
        summaries = [*left.done, *pool.map(ship_group, left.jobs)]
    with open_session(source) as session:
        forget_finished(session, peer_id)
    sinks = {"", sink_of(source), *(job.settings.requests for job in left.jobs)}
    assert refused or all(s.sink in sinks and not s.directRefused for s in summaries), summaries
    return summaries


def ship_one(source: SourceCluster, peer_id: str, **options: object) -> GroupSummary:
    """Run one batch of a peer that has one group."""
    (summary,) = ship(source, peer_id, **options)  # type: ignore[arg-type]
    return summary


class Shipping:
    """Runs `ship_one` while the test does something else. A context manager that waits for its end."""

    def __init__(self, source: SourceCluster, peer_id: str, **options: object) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._summary: Future[GroupSummary] = self._pool.submit(ship_one, source, peer_id, **options)

    @property
    def running(self) -> bool:
        return not self._summary.done()

    def summary(self, timeout: float = 300) -> GroupSummary:
        return self._summary.result(timeout)

    def __enter__(self) -> Shipping:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


def queues(source: SourceCluster, peer_id: str) -> list[Queue]:
    with connected(source.quorum, login=source.login) as zk:
        return read_queues(session_of(zk, source), peer_id)


def positions(source: SourceCluster, peer_id: str) -> dict[str, int]:
    """Return WAL name → registered position, for all WALs queued for the peer that have a readable position."""
    wals = [wal for queue in queues(source, peer_id) for wal in queue.wals]
    return {wal.name.text: wal.position for wal in wals if isinstance(wal.position_or_problem, int)}


def is_untouched(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Return whether every WAL is still queued at its position. A RegionServer may have begun new WALs, which no run has read."""
    return {wal: now.get(wal) for wal in before} == before and not any(now[wal] for wal in now.keys() - before.keys())


def leases(source: SourceCluster, peer: str) -> list[str]:
    """The peer's WAL groups whose leases are held now."""
    parent = OwnZNodes(source.root, source.nodes).lease(peer, "g").removesuffix("/g")
    with connected(source.quorum, login=source.login) as zk:
        return [group for group in children(zk, parent) or () if children(zk, f"{parent}/{group}")]


def await_progress(source: SourceCluster, peer_id: str, before: Mapping[str, int], timeout: float = 120) -> None:
    """Wait until a position has moved on or a WAL has left the queue since `before`."""
    give_up = time.monotonic() + timeout
    with connected(source.quorum, login=source.login) as zk:
        while True:
            found = read_queues(session_of(zk, source), peer_id)
            now = {wal.name.text: wal.position for queue in found for wal in queue.wals}
            if any(now.get(name, -1) != position for name, position in before.items()):
                return
            assert time.monotonic() < give_up, f"nothing of {before} has moved within {timeout} s"
            time.sleep(0.02)


@dataclass(frozen=True)
class _ReadWal:
    """The GLOBAL cells of one WAL, entry by entry with the offset after it, as HBase's own reader found them."""

    entries: tuple[tuple[int, str, tuple[Cell, ...]], ...]

    def between(self, first: int, last: float) -> list[tuple[str, Cell]]:
        """Tables and cells of the entries after offset `first` and up to `last`."""
        return [(table, cell) for end, table, cells in self.entries if first < end <= last for cell in cells]


class WalTruth:
    """Compares the entries that HBase's own reader finds in a peer's WALs with the peer cluster, for tables that only get puts.

    Tables in `changing` get deletes too, so a single entry does not show what the peer cluster should have.
    """

    def __init__(self, source: SourceCluster, peer_id: str, source_client: JavaClient, peer_cluster_client: JavaClient) -> None:
        self._source = source
        self._peer_id = peer_id
        self._client = source_client
        self._peer_cluster = peer_cluster_client
        self._wals: dict[str, _ReadWal] = {}
        self.changing: set[str] = set()
        self._proven: dict[str, float] = {}  # each WAL's registered position at the last check

    def read_closed(self) -> int:
        """Read the closed WALs that were queued since the last call, and return how many. Call it before they are shipped."""
        store = WalStore(self._source.wal_root)
        new = [wal for group in plan(self._source, self._peer_id).groups for wal in group.wals if wal.name not in self._wals]
        for wal in new:
            entries = self._read(store, parse_wal_name(wal.name))
            self._wals[wal.name] = _ReadWal(tuple((e.end, e.table, _global_cells(e.scopes, e.cells)) for e in entries))
        return len(new)

    def _read(self, store: WalStore, name: WalName) -> list[WalEntry]:
        """The WAL's entries. A server may write the end of a WAL some time after it has queued the next one."""
        location = store.locate(name)
        assert location, name
        try:
            return self._client.read_wal(location.url)
        except JavaClientError:
            return self._client.read_wal(await_closed(store, name).url)

    def check(self) -> int:
        """Check that no position is beyond what the peer cluster has. Returns how many cells newly lie before the positions."""
        now = positions(self._source, self._peer_id)
        required: list[tuple[str, Cell]] = []
        for name, wal in self._wals.items():
            position = now.get(name, math.inf)  # a WAL that left the queue is registered as a whole
            required += wal.between(int(self._proven.get(name, 0)), position) if self._proven.get(name) != math.inf else []
            self._proven[name] = position
        for table in {table for table, _ in required} - self.changing:
            there = set(self._peer_cluster.scan_all(table))
            missing = [cell for at, cell in required if at == table and cell not in there]
            assert not missing, (
                f"{len(missing)} cells of {table} lie before a registered position, but the peer cluster lacks them"
            )
        return len(required)

    @property
    def unfinished(self) -> bool:
        """Whether the last check found a closed WAL that was not shipped to its end."""
        return any(position != math.inf for position in self._proven.values())


def _global_cells(scopes: Mapping[bytes, int], cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    return tuple(cell for cell in cells if scopes.get(cell.family) == GLOBAL)
