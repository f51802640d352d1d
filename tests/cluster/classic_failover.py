"""An HBase 1.7.2 under write load, whose RegionServers die one after the other while they and Walferry claim the queues."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from embedded import wire
from embedded.classic import add_managed_peer, classic_options
from embedded.client import GLOBAL, JavaClient, JavaClientError, even_splits
from embedded.distributed import DistributedCluster, DistributedClusters, RegionServer
from embedded.hbase import ClusterAddress
from tests.cluster.walferry_runs import plan, roll, ship
from tests.sessions import session_of
from walferry.base.zk.client import connected
from walferry.engine.summary import Status
from walferry.hbase.layout import QueueLayout
from walferry.hbase.names import parse_queue_id, parse_wal_name
from walferry.hbase.values import decode_lock, encode_position, strip_client_prefix
from walferry.replication.queues.claims.claim import claim
from walferry.replication.queues.dead_servers import WALFERRY_SERVER
from walferry.replication.queues.errors import ClaimHeld
from walferry.replication.source.cluster import SourceCluster

PEERS = ("1", "2", "3")  # so a server has three queues of its own, and the queues that it claimed
FAILOVER_SLEEP_MS = 300
WAIT_SECONDS = 120
QUEUES = "/hbase/replication/rs"
SHIPPED_AT_ONCE = 6  # groups
REGIONS = 6
PUTS, LOAD_PAUSE_SECONDS = 10, 0.1

BOTH_LAYOUTS = [pytest.param(QueueLayout.CLASSIC, id="without multi"), pytest.param(QueueLayout.HBASE2, id="with multi")]

T = TypeVar("T")


class Load:
    """Puts all along; each is tried again until it is acknowledged.

    Walferry's other load leaves the retries to HBase's client. The client of 2.x gives up at once when a server of HBase 1 is
    dead, because it looks for the table's state in a place that HBase 1 does not have.
    """

    def __init__(self, client: JavaClient, table: str) -> None:
        self._client = client
        self._table = table
        self._acknowledged = [0] * REGIONS  # the number of puts of each thread, from put 0 on
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(REGIONS)]
        for thread in self._threads:
            thread.start()

    @property
    def acknowledged(self) -> int:
        return sum(self._acknowledged)

    def stop(self) -> None:
        """Wait for the puts that are under way."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
        assert not any(thread.is_alive() for thread in self._threads), f"a put was not acknowledged within {WAIT_SECONDS} s"

    def rows(self) -> set[bytes]:
        return {_row(region, number) for region in range(REGIONS) for number in range(self._acknowledged[region])}

    def _run(self, region: int) -> None:
        """Put into one region, so that the other regions go on while its server is dead."""
        while not self._stopped.is_set():
            numbers = range(self._acknowledged[region], self._acknowledged[region] + PUTS)
            puts = [wire.put(_row(region, number), {"f:q": b"value%d" % number}, timestamp=1 + number) for number in numbers]
            tried_again(lambda puts=puts: self._client.write(self._table, puts, one_by_one=True))
            self._acknowledged[region] += PUTS
            time.sleep(LOAD_PAUSE_SECONDS)


class Place(NamedTuple):
    """Where a WAL is queued, and its znode's value without the prefix of HBase's client."""

    server: str
    queue_id: str
    value: bytes


@dataclass(frozen=True)
class Death:
    """The queues under a server's znode when it died."""

    server: str
    queues: tuple[str, ...]
    wals: int


@dataclass
class Outcome:
    """One dead server's queues: how many Walferry moved, and how many RegionServers moved."""

    ours: int
    theirs: int


@dataclass
class Site:
    cluster: DistributedCluster
    source: JavaClient
    peer_cluster: JavaClient
    table: str
    at: SourceCluster
    zk: KazooClient
    load: Load
    folder: Path
    expected: dict[tuple[str, str], bytes] = field(default_factory=dict)  # peer and WAL of all dead servers → position
    dead: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    replacements: list[Future[RegionServer]] = field(default_factory=list)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8))

    # The queued WALs, read without Walferry

    def places(self) -> dict[tuple[str, str], list[Place]]:
        """Return the places by peer and WAL. Reads again while queues move."""
        while True:
            try:
                return self._places()
            except NoNodeError:
                continue

    def _places(self) -> dict[tuple[str, str], list[Place]]:
        found: dict[tuple[str, str], list[Place]] = {}
        for server, queue_id in self.queues():
            for wal in self.zk.get_children(f"{QUEUES}/{server}/{queue_id}"):
                path = f"{QUEUES}/{server}/{queue_id}/{wal}"
                place = Place(server, queue_id, strip_client_prefix(self.zk.get(path)[0], path))
                found.setdefault((parse_queue_id(queue_id).peer_id, wal), []).append(place)
        return found

    def queues(self) -> list[tuple[str, str]]:
        """Return server and id of each queue."""
        return [(server, name) for server in self._children("") for name in self._children(f"/{server}") if name != "lock"]

    def _children(self, path: str) -> list[str]:
        with suppress(NoNodeError):
            return list(self.zk.get_children(f"{QUEUES}{path}"))
        return []

    def queues_of(self, server: str) -> tuple[str, ...]:
        return tuple(queue_id for at, queue_id in self.queues() if at == server)

    def is_live(self, server: str) -> bool:
        return self.zk.exists(f"/hbase/rs/{server}") is not None

    # Before a death

    def fill_queues(self) -> None:
        """Put several WALs with edits into each queue."""
        for _ in range(2):
            time.sleep(0.5)
            self.source.roll_wals()

    def serving(self) -> list[str]:
        return [server.server_name for server in self.cluster.regionservers if server.is_serving]

    def holding_most(self) -> str:
        """Return the server with the most recovered queues: when it dies, these move on under a longer name."""
        recovered = Counter(server for server, queue_id in self.queues() if parse_queue_id(queue_id).recovered)
        return max(self.serving(), key=lambda server: recovered[server])

    def register_positions(self, server: str) -> None:
        """Register the middle of a server's oldest WAL for all peers but the first, which thus ships everything."""
        for peer in PEERS[1:]:
            queue = f"{QUEUES}/{server}/{peer}"
            wal = min(self.zk.get_children(queue), key=lambda name: parse_wal_name(name).timestamp)
            entries = self._read_wal(server, wal)
            if entries:
                self.zk.set(f"{queue}/{wal}", encode_position(entries[len(entries) // 2]))

    def _read_wal(self, server: str, wal: str) -> list[int]:
        """Return the offsets at which the WAL's entries end."""
        try:
            entries = self.source.read_wal(f"{self.at.wal_root}/WALs/{server}/{wal}")
        except JavaClientError:  # it was archived
            entries = self.source.read_wal(f"{self.at.wal_root}/oldWALs/{wal}")
        return [entry.end for entry in entries]

    # A death and what follows

    def kill(self, server: str) -> Death:
        """Kill the server (kill -9), and write down its queued WALs."""
        names = [each.server_name if each.is_serving else "" for each in self.cluster.regionservers]
        self.cluster.kill_regionserver(names.index(server))
        self.dead.append(server)
        return self.note(server)

    def note(self, server: str) -> Death:
        """Write down a dead server's queued WALs: the same WALs must be queued from now on."""
        before = {key: place for key, places in self.places().items() for place in places if place.server == server}
        self.expected |= {key: place.value for key, place in before.items()}
        return Death(server, self.queues_of(server), len(before))

    def replace(self) -> None:
        self.replacements.append(self.pool.submit(self.cluster.start_regionserver))

    def await_replacements(self) -> None:
        for server in self.replacements:
            server.result(WAIT_SECONDS)
        self.replacements.clear()

    def await_end_of_session(self, server: str) -> None:
        self.until(lambda: not self.is_live(server), f"the ephemeral of {server} is gone")

    def claim(self, server: str, run_id: str, before_write: Callable[[KazooClient], None] | None = None) -> int:
        """Claim the queues in our own session. Returns how many it moved; another run of ours may move them at the same time."""
        with connected(self.at.quorum) as zk:
            if before_write is not None:
                _call_before_writes(zk, before_write)
            try:
                return claim(session_of(zk, self.at), server, run_id, "test").moved
            except ClaimHeld:
                return 0

    def kill_lock_holder(self, server: str) -> Death | None:
        """Kill -9 the RegionServer that first locks the dead server's queues. Returns None if no server did."""
        owner = self._lock_owner(server)
        return None if owner is None else self.kill(owner)

    def is_locked(self, server: str) -> bool:
        return self.zk.exists(f"{QUEUES}/{server}/lock") is not None

    def _lock_owner(self, server: str) -> str | None:
        lock = f"{QUEUES}/{server}/lock"
        while self.zk.exists(f"{QUEUES}/{server}"):
            with suppress(NoNodeError):
                return decode_lock(self.zk.get(lock)[0], lock).rpartition("/")[2]
        return None

    def check(self, death: Death, moved: int) -> None:
        """Check that all queues are claimed, no lock is left, and each dead server's WAL is in one queue, at its position."""
        self.until(lambda: not self.zk.exists(f"{QUEUES}/{death.server}"), f"the queues of {death.server} are claimed")
        self.check_queues()
        self.outcomes.append(Outcome(moved, len(death.queues) - moved))

    def check_queues(self) -> None:
        places = self.places()
        assert {key: at for key, at in places.items() if len(at) != 1} == {}
        assert {key: places[key][0].value for key in self.expected if key in places} == self.expected
        ours = {WALFERRY_SERVER} if self.at.queue_layout == QueueLayout.HBASE2 else set[str]()  # where claims move queues
        assert [server for server, _ in self.queues() if server not in ours and not self.is_live(server)] == []
        assert [server for server in self._children("") if self.is_locked(server)] == []
        assert [server.process.name for server in self.cluster.regionservers if not server.process.alive] == []
        assert [log for log in self.folder.rglob("regionserver*.log") if "ABORTING" in log.read_text(errors="replace")] == []

    def report(self) -> str:
        """Return the outcomes so far."""
        ours, theirs = sum(outcome.ours for outcome in self.outcomes), sum(outcome.theirs for outcome in self.outcomes)
        kinds = Counter("both" if o.ours and o.theirs else "ours" if o.ours else "HBase's" for o in self.outcomes)
        return (
            f"{len(self.dead)} dead, of whose {ours + theirs} queues we moved {ours} and RegionServers {theirs} ({dict(kinds)}); "
            f"{len(self.expected)} WALs are queued once each; {self.notes}"
        )

    # The end

    def drain(self) -> int:
        """Stop the load, and ship all queues until their WALs are gone. Returns how many WALs that were."""
        self.load.stop()
        shipped = 0
        for peer in PEERS:
            roll(self.at, peer)
            groups = [group.group for group in plan(self.at, peer).groups]
            for start in range(0, len(groups), SHIPPED_AT_ONCE):
                some = groups[start : start + SHIPPED_AT_ONCE]
                summaries = ship(self.at, peer, groups=some, roll_first=False, run_id=f"drain{start}", deadline=WAIT_SECONDS)
                assert [summary.error for summary in summaries if summary.status is not Status.DONE] == []
                shipped += sum(summary.completedLogs for summary in summaries)
        assert [queue_id for _, queue_id in self.queues() if parse_queue_id(queue_id).recovered] == []
        assert self.places().keys() & self.expected.keys() == set()
        return shipped

    def until(self, done: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + WAIT_SECONDS
        while not done():
            assert time.monotonic() < give_up, f"not within {WAIT_SECONDS} s: {what}"
            time.sleep(0.02)


def tried_again(call: Callable[[], T]) -> T:
    """Make a call of the Java client, again and again while regions are on their way to another server."""
    give_up = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return call()
        except JavaClientError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)


def _row(region: int, number: int) -> bytes:
    return b"%016x" % (region * (1 << 64) // REGIONS + number + 1)


@contextmanager
def classic_site(
    folder: Path, peer_cluster: ClusterAddress, client_of: Callable[[ClusterAddress], JavaClient], table: str, layout: QueueLayout
) -> Iterator[Site]:
    """Yield a cluster of three RegionServers, three managed peers that lead to one peer cluster, and the load at work on a new
    table."""
    options = classic_options(regionservers=3, failover_sleep_ms=FAILOVER_SLEEP_MS, multi=layout is QueueLayout.HBASE2)
    with DistributedClusters(folder, {"source": options}) as clusters:
        cluster = clusters["source"]
        source, there = client_of(cluster.address), client_of(peer_cluster)
        for client in (source, there):
            client.create_table(table, {"f": GLOBAL}, even_splits(REGIONS))
        at = SourceCluster(quorum=cluster.address.quorum, wal_root=cluster.address.wal_root, queue_layout=layout)
        for peer in PEERS:
            add_managed_peer(cluster.address, peer, peer_cluster.cluster_key)
        load = Load(source, table)
        with connected(at.quorum) as zk:
            site = Site(cluster, source, there, table, at, zk, load, folder)
            try:
                servers = [server.server_name for server in cluster.regionservers]
                site.until(lambda: all((s, p) in site.queues() for s in servers for p in PEERS), "the peers are taken up")
                yield site
            finally:
                load.stop()


def _call_before_writes(zk: KazooClient, call: Callable[[KazooClient], None]) -> None:
    """Call `call` before each multi: a claim writes only multis."""
    begin = zk.transaction

    def transaction() -> object:
        call(zk)
        return begin()

    zk.transaction = transaction
