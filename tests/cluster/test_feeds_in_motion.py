"""A lake and Kafka fed by several RegionServers on HDFS, while regions split and move, and a server dies."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError

from demo.lake import CATALOG, settings
from embedded.client import GLOBAL, JavaClient, even_splits
from embedded.hbase import ClusterAddress
from embedded.kafka import Kafka
from embedded.wire import put
from tests.cluster.streams import broker, events, make_topics
from tests.cluster.walferry_runs import plan, roll, source_of
from tests.unit.replication.sinks.iceberg.lake import rows_of
from walferry.admin.creating import create, to_kafka, to_lake
from walferry.admin.peers import peer_admin
from walferry.base.zk.client import connected
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.jobs.workers import LocalProcesses
from walferry.replication.peers.settings import Records
from walferry.shipping.lake.catalog import open_catalog
from walferry.shipping.ship_run import ShipRun, ship_queued

__all__ = ["broker"]  # fixtures

REGIONS, ROWS = 4, 400
WAIT_SECONDS = 240

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Feed:
    """A peer of a source, its tables, and what has arrived of a table: rows and values."""

    source: JavaClient
    peer: str
    tables: Sequence[str]
    arrived: Callable[[str], list[tuple[bytes, bytes]]]


@pytest.fixture(params=["lake", "kafka"])
def feed(
    request: pytest.FixtureRequest, distributed_pair: Any, java_client: Callable[[ClusterAddress], JavaClient],
    unique: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Feed]:  # fmt: skip
    address = distributed_pair.source.address
    source, peer, tables = java_client(address), unique("peer"), [unique("t") for _ in range(3)]
    for table in tables:
        source.create_table(table, {"f": GLOBAL}, even_splits(REGIONS))
    goes_to, arrived = _to_kafka(request, tables) if request.param == "kafka" else _to_lake(tmp_path, monkeypatch)
    with peer_admin(source_of(address)) as admin:
        create(admin, peer, None, table_cfs=dict.fromkeys(tables, ()), goes_to=goes_to)
    yield Feed(source, peer, tables, arrived)
    source.remove_peer(peer)
    for table in tables:
        source.drop_table(table)
    distributed_pair.source.start_all_regionservers()


def _to_lake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Mapping[str, str], Any]:
    for name, value in settings(folder).items():
        monkeypatch.setenv(name, value)

    def arrived(table: str) -> list[tuple[bytes, bytes]]:
        """As DuckDB reads the table of changes."""
        try:
            found = open_catalog(CATALOG).load_table(("default", f"{table}_changes"))
        except NoSuchTableError:
            return []
        rows = rows_of(found)
        assert len({(row["wal"], row["offset"], row["cell"]) for row in rows}) == len(rows)
        return sorted((row["row"], row["value"]) for row in rows)

    return to_lake(CATALOG), arrived


def _to_kafka(request: pytest.FixtureRequest, tables: Sequence[str]) -> tuple[Mapping[str, str], Any]:
    broker: Kafka = request.getfixturevalue("broker")
    make_topics(broker, [f"default.{table}" for table in tables])

    def arrived(table: str) -> list[tuple[bytes, bytes]]:
        """As who reads committed records."""
        found = events(broker, f"default.{table}")
        assert len({event.place for event in found}) == len(found)
        return sorted((event.key, event.cell[-1]) for event in found)

    return to_kafka(broker.servers, Records.DEBEZIUM), arrived


def test_each_edit_arrives_once_over_splits_moves_and_a_death(distributed_pair: Any, feed: Feed) -> None:
    source, peer, tables, changes = feed.source, feed.peer, feed.tables, feed.arrived
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
