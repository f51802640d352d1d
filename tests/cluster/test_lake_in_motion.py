"""A lake fed by several RegionServers on HDFS, while regions split and move, and a server dies."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError

from demo.lake import CATALOG, settings
from embedded.client import GLOBAL, JavaClient, even_splits
from embedded.hbase import ClusterAddress
from embedded.wire import put
from tests.cluster.walferry_runs import plan, roll, source_of
from tests.unit.replication.sinks.iceberg.lake import rows_of
from walferry.admin.creating import create, lake_key
from walferry.admin.peers import peer_admin
from walferry.base.zk.client import connected
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.jobs.workers import LocalProcesses
from walferry.shipping.lake.catalog import open_catalog
from walferry.shipping.ship_run import ShipRun, ship_queued

REGIONS, ROWS = 4, 400
WAIT_SECONDS = 240

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings(tmp_path).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def lake(
    distributed_pair: Any, java_client: Callable[[ClusterAddress], JavaClient], unique: Callable[[str], str], catalog: None
) -> Iterator[tuple[JavaClient, str, list[str]]]:
    """The source, a peer into a lake, and its tables."""
    address = distributed_pair.source.address
    source, peer, tables = java_client(address), unique("peer"), [unique("t") for _ in range(3)]
    for table in tables:
        source.create_table(table, {"f": GLOBAL}, even_splits(REGIONS))
    with peer_admin(source_of(address)) as admin:
        create(admin, peer, lake_key(admin, peer), table_cfs=dict.fromkeys(tables, ()), lake=CATALOG)
    yield source, peer, tables
    source.remove_peer(peer)
    for table in tables:
        source.drop_table(table)
    distributed_pair.source.start_all_regionservers()


def changes(table: str) -> list[tuple[bytes, bytes]]:
    """Rows and values of a table of changes, as DuckDB reads them."""
    try:
        found = open_catalog(CATALOG).load_table(("default", f"{table}_changes"))
    except NoSuchTableError:
        return []
    rows = rows_of(found)
    assert len({(row["wal"], row["offset"], row["cell"]) for row in rows}) == len(rows)
    return sorted((row["row"], row["value"]) for row in rows)


def test_each_edit_arrives_once_over_splits_moves_and_a_death(
    distributed_pair: Any, lake: tuple[JavaClient, str, list[str]]
) -> None:
    source, peer, tables = lake
    cluster, at, chance = distributed_pair.source, source_of(distributed_pair.source.address), random.Random(7)
    written: dict[str, list[tuple[bytes, bytes]]] = {table: [] for table in tables}

    def write(begin: int) -> None:
        for table in tables:
            cells = [(b"%08x%d" % (chance.randrange(1 << 32), n), b"%d" % n) for n in range(begin, begin + ROWS)]
            source.write(table, [put(row, {"f:q": value}) for row, value in cells])
            written[table] += cells

    def batch(run: str, *, rolls: bool = True) -> None:
        if rolls:
            roll(at, peer)
        ship_queued(ShipRun(source=at, peer_id=peer, run_id=run, deadline=120), LocalProcesses(2), print)

    write(0)
    batch("first")
    for table in tables[:2]:
        (region, *_) = source.regions(table)
        source.split_region(region.encoded_name, b"1")
    write(ROWS)
    servers = [server.server_name for server in cluster.regionservers]
    for region in source.regions(tables[2]):
        source.move_region(region.encoded_name, chance.choice([name for name in servers if name != region.server]))
    write(2 * ROWS)
    batch("second")
    write(3 * ROWS)

    victim = cluster.regionservers[0].server_name
    cluster.kill_regionserver(0)
    with connected(at.quorum) as zk:
        until(lambda: victim not in map(str, live_servers(zk, ZNodes(at.znode_parent))), "the server is gone")
    cluster.start_regionserver()
    until(lambda: {r.server for t in tables for r in source.regions(t)}.isdisjoint({victim}), "regions are open elsewhere")
    write(4 * ROWS)

    give_up = time.monotonic() + WAIT_SECONDS
    number = 0
    while [table for table in tables if changes(table) != sorted(written[table])] or plan(at, peer).to_ship:
        assert time.monotonic() < give_up, {table: (len(changes(table)), len(written[table])) for table in tables}
        batch(f"last {number}")
        number += 1
        time.sleep(1)
    assert {table: changes(table) for table in tables} == {table: sorted(cells) for table, cells in written.items()}


def until(holds: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < give_up, what
        time.sleep(0.5)
