"""An HBase 1 source with several WAL groups per server, whose tables are replayed, copied and compared with an HBase 2 peer
cluster.

These tables have unusual traits: a namespace, rows of any bytes, regions that move between two servers, several versions, delete
markers of each kind, and other splits at the peer cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from demo.lake import CATALOG, settings
from embedded.classic import add_managed_peer, classic_options
from embedded.client import GLOBAL, JavaClient
from embedded.distributed import ClusterOptions, DistributedClusters
from embedded.hbase import ClusterAddress
from embedded.wire import CellType, delete_column, delete_family, delete_family_version, delete_row, delete_version, put
from tests.cluster.classic_failover import BOTH_LAYOUTS
from tests.cluster.replaying import now, ship_again
from tests.cluster.test_verification import verify
from tests.cluster.walferry_runs import roll, source_of
from tests.unit.replication.sinks.iceberg.lake import rows_of
from walferry.admin import creating
from walferry.admin.creating import own_key
from walferry.admin.peers import peer_admin
from walferry.engine.summary import Status
from walferry.hbase.layout import QueueLayout
from walferry.initial_snapshot.job import CopyRun, initial_snapshot
from walferry.initial_snapshot.region_copy import RegionOutcome, RegionTask, copy_regions
from walferry.jobs.workers import LocalProcesses
from walferry.replay.files import OPEN_SLACK_MS
from walferry.replay.interval import Interval
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.shipping.lake.catalog import open_catalog
from walferry.shipping.ship_run import ShipRun, ship_queued

PEER = "1"
SPLITS = (b"\x00\x01", b"k,1.x", b"\xff\x00")
ROWS = (b"\x00", b"\x00\x01", b"\x00\x01\x00", b"j" * 300, b"k,1.x", "größe".encode(), b"\xff", b"\xff\x00", b"\xff\xff\xff")
VERSIONS = 4  # of each cell: a flush drops more than a family keeps, and the two sides flush at different times
MULTIWAL = {"hbase.wal.provider": "multiwal", "hbase.wal.regiongrouping.numgroups": "2"}

pytestmark = [pytest.mark.timeout(1200), pytest.mark.soak]


@dataclass(frozen=True)
class Site:
    source: JavaClient
    peer_cluster: JavaClient
    at: SourceCluster

    def spread(self, tasks: Sequence[RegionTask]) -> list[RegionOutcome]:
        return list(copy_regions(self.at, PEER, tasks))

    def move_regions(self, table: str) -> None:
        """Move each region to the other server."""
        servers = self.source.region_servers()
        for region in self.source.regions(table):
            self.source.move_region(region.encoded_name, next(each for each in servers if each != region.server))


@pytest.fixture(scope="module", params=BOTH_LAYOUTS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, java_client: Callable[[ClusterAddress], JavaClient]
) -> Iterator[Site]:
    layout: QueueLayout = request.param
    source = classic_options(MULTIWAL, regionservers=2, multi=layout is QueueLayout.HBASE2)
    with DistributedClusters(Path(tmp_path_factory.mktemp("classic")), {
        "source": source, "peer_cluster": ClusterOptions(regionservers=1),
    }) as clusters:  # fmt: skip
        address, peer_cluster = clusters["source"].address, clusters["peer_cluster"].address
        add_managed_peer(address, PEER, peer_cluster.cluster_key)
        at = replace(source_of(address), queue_layout=layout)
        for client in (java_client(address), java_client(peer_cluster)):
            client.create_namespace("ns")
        yield Site(java_client(address), java_client(peer_cluster), at)


def write(site: Site, table: str) -> list[int]:
    """Write all kinds of cells, before and after the regions move. Returns a time before, between and after."""
    times = [now()]
    for version in range(1, VERSIONS + 1):
        values = {b"f:": b"%d" % version, b"f:\xff\x00": b"v" * version}
        site.source.write(table, [put(row, values, timestamp=version) for row in ROWS])
    times.append(now())
    site.move_regions(table)
    site.source.write(table, [
        delete_row(ROWS[0], timestamp=2), delete_family(ROWS[1], "f", timestamp=3), delete_family_version(ROWS[2], "f", 4),
        delete_column(ROWS[3], b"f:", timestamp=3), delete_version(ROWS[4], b"f:", timestamp=4),
        *(put(row, {b"f:moved": b"v", b"f:": b"over"}, timestamp=4) for row in ROWS[5:]),
    ])  # fmt: skip
    return [*times, now()]


def test_intervals_are_shipped_again_to_a_peer_cluster_with_other_splits(site: Site) -> None:
    table = "ns:again"
    site.source.create_table(table, {"f": GLOBAL}, SPLITS, versions=VERSIONS)
    site.peer_cluster.create_table(table, {"f": GLOBAL}, [b"m"], versions=VERSIONS)
    first, second, end = write(site, table)
    time.sleep(max(0.0, (end + OPEN_SLACK_MS) / 1000 - time.time()))  # otherwise the WALs that begin now would count too
    site.source.roll_wals()
    site.source.roll_wals()  # also groups whose first WAL had no entry
    for interval in (Interval(first, second), Interval(second, end)):
        done = ship_again(site.at, PEER, interval, run_id=str(interval.start), tables=frozenset({table}))
        assert {summary.status for summary in done} == {Status.DONE}, done
        assert len({summary.group.partition(",")[0] for summary in done}) > 2  # several groups a server
    assert site.source.compare(table, site.peer_cluster, raw=True).same


def test_a_table_is_copied_and_its_queue_shipped(site: Site) -> None:
    table = "ns:copied.table_1-x"
    site.source.create_table(table, {"f": GLOBAL}, SPLITS, versions=VERSIONS)
    write(site, table)
    request = CopyRun(source=site.at, peer_id=PEER, run_id="run", tables=(table,))
    copied = initial_snapshot(request, site.spread)
    assert (copied.errors, copied.state.complete, copied.state.regions) == ((), True, 4)
    assert site.source.compare(table, site.peer_cluster, raw=True).same


def test_both_sides_are_compared_and_repaired(site: Site) -> None:
    table = "ns:compared"
    site.source.create_table(table, {"f": GLOBAL}, SPLITS, versions=VERSIONS)
    site.peer_cluster.create_table(table, {"f": GLOBAL}, [b"\x00\x01\x00", b"\xff\xff"], versions=VERSIONS)
    write(site, table)
    found = verify(site.at, PEER, table, versions=VERSIONS, repair=True)[table]
    assert (found.good, found.repaired) == (len(ROWS), len(ROWS))
    assert verify(site.at, PEER, table, versions=VERSIONS, deleted=True)[table].bad_rows == 0


def until(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.2)


def test_a_table_is_copied_into_a_lake_and_fed(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    table = "ns:lake"
    site.source.create_table(table, {"f": GLOBAL}, SPLITS, versions=100)
    write(site, table)
    with peer_admin(site.at) as admin:
        key = own_key(admin, "lake")
        creating._put_id(admin, "lake")
    add_managed_peer(site.source.address, "lake", key, {"walferry.lake": CATALOG})
    with open_session(site.at) as session:
        until(lambda: all(session.zk.exists(session.nodes.queue(server, "lake")) for server in site.source.region_servers()))
    outcome = CopyRun(source=site.at, peer_id="lake", run_id="copy", tables=(table,)).run(LocalProcesses(2), print)
    assert (outcome.failed, outcome.errors) == (False, ())
    site.move_regions(table)
    site.source.write(table, [put(row, {"f:later": b"%d" % n}, timestamp=100 + n) for n, row in enumerate(ROWS)])
    roll(site.at, "lake")
    run = ShipRun(source=site.at, peer_id="lake", run_id="run", deadline=120)
    assert {summary.status for summary in ship_queued(run, LocalProcesses(2), print)} == {Status.DONE}
    changes = rows_of(open_catalog(CATALOG).load_table(("ns", "lake_changes")))
    found = sorted((row["row"], row["qualifier"], row["timestamp"], row["type"], row["value"]) for row in changes)
    raw = site.source.scan_all(table, raw=True)
    expected = {(c.row, c.qualifier, c.timestamp, CellType(c.type).name.title().replace("_", ""), c.value) for c in raw}
    assert set(found) >= expected
    fed = [row for row in changes if row["wal"]]
    assert sorted(row["value"] for row in fed) == sorted(b"%d" % n for n in range(len(ROWS)))
