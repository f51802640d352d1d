"""Peers that replicate in a ring, and peers for part of the tables, as in HBase's own suites.

Mirrors TestMasterReplication (cyclic, looped), TestPerTableCFReplication, TestNamespaceReplication and TestReplicationWithTags.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest

from embedded.client import GLOBAL, LOCAL
from embedded.wire import CellType, delete_column, delete_row, put
from tests.cluster.decoding import compare_with_reader, decode
from tests.cluster.walferry_runs import BOTH_SINKS, plan, roll, ship_one, source_of
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import connected
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.cluster import cluster_id
from walferry.hbase.cluster import master as active_master
from walferry.hbase.layout import ZNodes
from walferry.hbase.rpc import master


def batch(at, peer: str, run_id: str) -> GroupSummary:
    summary = ship_one(at, peer, run_id=run_id)
    assert summary.status is Status.DONE, summary.error
    return summary


@pytest.fixture
def peer_like(sides, unique) -> Iterator[Callable[[pb.ReplicationPeer], str]]:
    """`peer_like(config)` → id of a managed peer to the peer cluster, configured through the master's own call."""
    added = []

    def add(config: pb.ReplicationPeer) -> str:
        peer = unique("peer")
        config.clusterkey = sides.peer_cluster.address.cluster_key
        config.configuration.add(name="walferry.managed", value="true")
        sides.source.roll_wals()
        with connected(sides.at.quorum) as zk, master.connect(active_master(zk, ZNodes())) as connection:
            master.add_peer(connection, peer, config, enabled=False)
        added.append(peer)
        return peer

    yield add
    for peer in added:
        sides.source.remove_peer(peer)


def table_of(name: str, *families: str) -> pb.TableCF:
    namespace, _, qualifier = name.rpartition(":")
    families_ = [family.encode() for family in families]
    return pb.TableCF(
        table_name=pb.TableName(namespace=(namespace or "default").encode(), qualifier=qualifier.encode()), families=families_
    )


def columns_at(client, table: str) -> set[str]:
    return {f"{cell.family.decode()}:{cell.qualifier.decode()}" for cell in client.scan_all(table)}


@BOTH_SINKS
def test_two_clusters_that_replicate_to_each_other_get_each_edit_once(sides, both, peer, managed_peer, sink):
    there = source_of(sides.peer_cluster.address, sink)
    back = managed_peer(sides.peer_cluster.address, sides.source.address)
    table = both({"f": GLOBAL})
    with connected(sides.at.quorum) as zk:
        source_id = cluster_id(zk, ZNodes())

    sides.source.write(table, [put(f"here{i}", {"f:q": b"1"}) for i in range(20)], one_by_one=True)
    sides.peer_cluster.write(table, [put(f"there{i}", {"f:q": b"2"}) for i in range(30)], one_by_one=True)
    sides.source.write(table, [delete_row("here3"), put("both", {"f:q": b"3"}, timestamp=5)], one_by_one=True)
    sides.peer_cluster.write(table, [delete_row("there7"), put("both", {"f:r": b"4"}, timestamp=5)], one_by_one=True)

    out = batch(sides.at, peer, "out")
    assert (out.shippedOps, out.logEditsFiltered.get("from_peer_cluster", 0)) == (22, 0)
    roll(there, back)
    assert cluster_ids_by_row(sides.peer_cluster, there, back, table) == {
        b"here": {(source_id,)},
        b"there": {()},
        b"both": {(), (source_id,)},
    }
    home = batch(there, back, "home")
    assert home.shippedOps == 32
    assert home.logEditsFiltered["from_peer_cluster"] > 0  # the edits that came from here are not sent back
    again = batch(sides.at, peer, "again")
    assert again.shippedOps == 0
    assert again.logEditsFiltered["from_peer_cluster"] > 0
    assert batch(there, back, "and again").shippedOps == 0
    assert sides.source.compare(table, sides.peer_cluster).same
    assert sides.source.count_rows(table) == 20 + 30 - 2 + 1


def cluster_ids_by_row(client, at, peer: str, table: str) -> dict[bytes, set[tuple[UUID, ...]]]:
    """Return the clusters that a table's entries have passed, as HBase's own reader finds them in the WALs queued for a peer."""
    found: dict[bytes, set[tuple[UUID, ...]]] = {}
    for wal in [wal for group in plan(at, peer).groups for wal in group.wals]:
        for entry in client.read_wal(wal.url):
            if entry.table == table and entry.scopes:
                for row in {cell.row.rstrip(b"0123456789") for cell in entry.cells}:
                    found.setdefault(row, set()).add(entry.cluster_ids)
    return found


@BOTH_SINKS
def test_a_delete_goes_back_to_where_its_put_came_from_and_no_further(sides, both, peer, managed_peer, sink):
    there = source_of(sides.peer_cluster.address, sink)
    back = managed_peer(sides.peer_cluster.address, sides.source.address)
    table = both({"f": GLOBAL})
    sides.source.write(table, [put("row", {"f:q": b"1"}, timestamp=1)])
    assert batch(sides.at, peer, "1").shippedOps == 1
    sides.peer_cluster.write(table, [delete_column("row", "f:q", timestamp=1)])
    assert batch(there, back, "2").shippedOps == 1
    assert sides.source.scan_all(table) == []
    assert batch(sides.at, peer, "3").shippedOps == 0
    assert sides.peer_cluster.scan_all(table) == []


def test_a_peer_of_tables_and_families_takes_these_alone(sides, both, peer_like):
    whole, part, none = (both({"f": GLOBAL, "g": GLOBAL, "l": LOCAL}) for _ in range(3))
    config = pb.ReplicationPeer(replicate_all=False)
    config.table_cfs.append(table_of(whole))
    config.table_cfs.append(table_of(part, "f", "l"))
    peer = peer_like(config)
    for table in (whole, part, none):
        sides.source.write(table, [put("row", {"f:q": b"1", "g:q": b"2", "l:q": b"3"}), put("g only", {"g:q": b"4"})])
    summary = batch(sides.at, peer, "run")
    assert columns_at(sides.peer_cluster, whole) == {"f:q", "g:q"}
    assert columns_at(sides.peer_cluster, part) == {"f:q"}
    assert columns_at(sides.peer_cluster, none) == set()
    assert summary.logEditsFiltered["not_in_peer"] >= 1
    assert not plan(sides.at, peer).to_ship


def test_a_peer_that_leaves_out_tables_and_families_takes_the_rest(sides, both, peer_like):
    whole, part, none = (both({"f": GLOBAL, "g": GLOBAL, "l": LOCAL}) for _ in range(3))
    config = pb.ReplicationPeer(replicate_all=True)
    config.exclude_table_cfs.append(table_of(none))
    config.exclude_table_cfs.append(table_of(part, "g"))
    peer = peer_like(config)
    for table in (whole, part, none):
        sides.source.write(table, [put("row", {"f:q": b"1", "g:q": b"2", "l:q": b"3"})])
    batch(sides.at, peer, "run")
    assert columns_at(sides.peer_cluster, whole) == {"f:q", "g:q"}
    assert columns_at(sides.peer_cluster, part) == {"f:q"}
    assert columns_at(sides.peer_cluster, none) == set()


@pytest.mark.parametrize("choice", ["takes", "leaves out"])
def test_a_peer_of_namespaces(sides, unique, peer_like, choice):
    ours, other = unique("ns"), unique("ns")
    tables = {name: f"{name}:t" for name in (ours, other)} | {"default": unique("t")}
    for client in (sides.source, sides.peer_cluster):
        for namespace in (ours, other):
            client.create_namespace(namespace)
        for table in tables.values():
            client.create_table(table, {"f": GLOBAL})
    names = [ours.encode()]
    peer = peer_like(
        pb.ReplicationPeer(replicate_all=False, namespaces=names)
        if choice == "takes"
        else pb.ReplicationPeer(replicate_all=True, exclude_namespaces=names)
    )
    for table in tables.values():
        sides.source.write(table, [put("row", {"f:q": b"1"})])
    batch(sides.at, peer, "run")
    arrived = {name for name, table in tables.items() if sides.peer_cluster.count_rows(table)}
    assert arrived == ({ours} if choice == "takes" else {other, "default"})


@BOTH_SINKS
def test_tags_and_times_to_live_arrive_with_their_cells(sides, both, peer):
    table = both({"f": GLOBAL})
    sides.source.write(
        table,
        [
            put("tagged", {"f:a": b"v"}, tags=[(100, b"one"), (101, b"")]),
            put("lives", {"f:a": b"v"}, ttl_ms=86_400_000),
            put("both", {"f:a": b"", "f:b": b"w"}, ttl_ms=86_400_000, tags=[(100, b"x" * 1000)]),
        ],
    )
    batch(sides.at, peer, "run")
    compared = sides.source.compare(table, sides.peer_cluster)
    assert (compared.same, compared.left) == (True, 4), compared.examples
    assert {cell.row: len(cell.tags) for cell in sides.peer_cluster.scan_all(table)} == {
        b"tagged": 2 + 1 + 3 + 2 + 1,
        b"lives": 2 + 1 + 8,
        b"both": 2 + 1 + 8 + 2 + 1 + 1000,
    }


@BOTH_SINKS
def test_cells_of_the_types_that_hbase_searches_with_arrive_as_by_hbase_s_own_replication(sides, both, peer, unique):
    """A client may put cells of type Maximum and Minimum; HBase's servers take, log and replicate them as they are."""
    by_us, by_hbase, hbases_peer = both({"f": GLOBAL}), both({"f": GLOBAL}), unique("hbase")
    edits = [
        put("a", {"f:p": b"1"}, timestamp=5),
        put("a", {"f:p": b"2", "f:q": b""}, timestamp=5, cell_type=CellType.MAXIMUM),
        put("a", {"f:r": b"3"}, timestamp=6, cell_type=CellType.MINIMUM, tags=[(100, b"tag")]),
        put("a", {"f:r": b"4"}, timestamp=7),
        put("b", {"f:q": b"5"}, cell_type=CellType.MAXIMUM, timestamp=5),
    ]
    sides.source.add_peer(hbases_peer, sides.peer_cluster.address.cluster_key, table_families={by_hbase: []})
    try:
        for edit in edits:  # one call per edit, of the calls that carry cells unchanged
            sides.source.write(by_hbase, [edit])
        written = sides.source.scan_all(by_hbase, raw=True)
        assert {cell.type for cell in written} == {CellType.PUT, CellType.MINIMUM, CellType.MAXIMUM}
        give_up = time.monotonic() + 60
        while sides.peer_cluster.scan_all(by_hbase, raw=True) != written:
            assert time.monotonic() < give_up, sides.peer_cluster.scan_all(by_hbase, raw=True)
            time.sleep(0.1)
    finally:
        sides.source.remove_peer(hbases_peer)

    for edit in edits:
        sides.source.write(by_us, [edit])
    sides.source.write(by_us, edits)  # in one entry
    roll(sides.at, peer)
    urls = [wal.url for group in plan(sides.at, peer).groups for wal in group.wals]
    assert compare_with_reader(sides.source, urls) >= 3 * 6
    decoded = [row["type"] for url in urls for row in decode(url)]
    read = [cell.type for url in urls for entry in sides.source.read_wal(url) for cell in entry.cells]
    assert decoded == [kind.name.title() for kind in read]  # HBase's WALPrettyPrinter does not print such cells
    assert set(decoded) == {"Put", "Minimum", "Maximum"}
    batch(sides.at, peer, "run")
    assert sides.peer_cluster.scan_all(by_us, raw=True) == sides.source.scan_all(by_us, raw=True) == written


def test_families_of_the_old_scope_serial_are_local_to_a_peer_that_is_not_as_in_hbase(sides, both, peer):
    """ScopeWALEntryFilter: only REPLICATION_SCOPE_GLOBAL goes to peers."""
    table = both({"f": GLOBAL, "s": pb.REPLICATION_SCOPE_SERIAL})
    sides.source.write(table, [put("row", {"f:q": b"1", "s:q": b"2"}), put("other", {"s:q": b"3"})])
    assert batch(sides.at, peer, "run").cellsFiltered == 2  # from the one entry
    assert columns_at(sides.peer_cluster, table) == {"f:q"}
