"""Edits of tables and families that the peer cluster lacks: they stop the queue, or are dropped, as HBase's settings say.

Mirrors TestReplicationEditsDroppedWithDroppedTable and TestReplicationEditsDroppedWithDeletedTableCFs.
"""

from __future__ import annotations

import pytest

from embedded.client import GLOBAL
from embedded.wire import put
from tests.cluster.walferry_runs import ALL_SINKS, positions, ship_one
from tests.sessions import session_of
from walferry.base.zk.client import connected
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.source.peers import read_peer

pytestmark = ALL_SINKS
DROP_TABLES = {"hbase.replication.drop.on.deleted.table": "true"}
DROP_FAMILIES = {"hbase.replication.drop.on.deleted.columnfamily": "true"}


@pytest.fixture
def batch(sides, peer):
    """`batch()` → the summary of a batch of the peer, with the settings that the peer then has."""
    number = iter(range(100))

    def run() -> GroupSummary:
        with connected(sides.at.quorum) as zk:
            settings = PeerSettings.of({}, read_peer(session_of(zk, sides.at), peer))
        return ship_one(sides.at, peer, run_id=f"run{next(number)}", settings=settings)

    return run


def rows_at(client, table: str) -> set[bytes]:
    return {cell.row for cell in client.scan_all(table)}


@pytest.mark.parametrize("namespace", [False, True], ids=["default namespace", "namespace"])
def test_edits_of_a_table_that_is_deleted_at_both_clusters_are_dropped_and_counted(sides, both, batch, peer, unique, namespace):
    normal, dropped = both({"f": GLOBAL}), unique("t")
    if namespace:
        name = unique("ns")
        dropped = f"{name}:{dropped}"
    for client in (sides.source, sides.peer_cluster):
        if namespace:
            client.create_namespace(name)
        client.create_table(dropped, {"f": GLOBAL})
    sides.source.put_peer_configuration(peer, DROP_TABLES)
    for row in ("before", "after"):
        sides.source.write(normal, [put(row, {"f:q": b"1"})])
        sides.source.write(dropped, [put(row, {"f:q": b"2"})])
    for client in (sides.source, sides.peer_cluster):
        client.drop_table(dropped)
    summary = batch()
    assert summary.status is Status.DONE, summary.error
    assert summary.logEditsFiltered["deleted"] == 2
    assert summary.deletedAtBoth == (dropped,)
    assert rows_at(sides.peer_cluster, normal) == {b"before", b"after"}


def test_edits_behind_a_table_that_the_source_still_has_wait_until_it_is_deleted_there(sides, both, batch, peer):
    normal, dropped = both({"f": GLOBAL}), both({"f": GLOBAL})
    sides.source.put_peer_configuration(peer, DROP_TABLES)
    sides.source.write(dropped, [put("row", {"f:q": b"1"})])
    sides.peer_cluster.drop_table(dropped)
    sides.source.write(normal, [put("row", {"f:q": b"1"})])

    for _ in range(2):
        summary = batch()
        assert summary.status is Status.FAILED
        assert f"table {dropped} does not exist there. Create it there as it is in the source" in summary.error
        assert "hbase.replication.drop.on.deleted.table" in summary.error
        assert (summary.completedLogs, summary.deletedAtBoth) == (0, ())
    before = positions(sides.at, peer)

    sides.source.drop_table(dropped)
    summary = batch()
    assert summary.status is Status.DONE, summary.error
    assert summary.deletedAtBoth == (dropped,)
    assert rows_at(sides.peer_cluster, normal) == {b"row"}
    assert positions(sides.at, peer) != before


def test_without_the_setting_a_table_that_is_deleted_everywhere_stops_the_queue(sides, both, batch, peer):
    dropped = both({"f": GLOBAL})
    sides.source.write(dropped, [put("row", {"f:q": b"1"})])
    for client in (sides.source, sides.peer_cluster):
        client.drop_table(dropped)
    summary = batch()
    assert summary.status is Status.FAILED
    assert f"table {dropped} does not exist there" in summary.error
    for client in (sides.source, sides.peer_cluster):
        client.create_table(dropped, {"f": GLOBAL})
    assert batch().status is Status.DONE
    assert rows_at(sides.peer_cluster, dropped) == {b"row"}


def test_a_table_that_only_the_source_has_deleted_gets_its_last_edits_at_the_peer_cluster(sides, both, batch, peer):
    """HBase would drop these edits too if they are in one batch with edits of a table that the peer cluster lacks."""
    here, gone = both({"f": GLOBAL}), both({"f": GLOBAL})
    sides.source.put_peer_configuration(peer, DROP_TABLES)
    for table in (here, gone):
        sides.source.write(table, [put("row", {"f:q": b"1"})])
        sides.source.drop_table(table)
    sides.peer_cluster.drop_table(gone)
    summary = batch()
    assert summary.status is Status.DONE, summary.error
    assert summary.deletedAtBoth == (gone,)
    assert rows_at(sides.peer_cluster, here) == {b"row"}


def test_edits_of_a_family_that_is_deleted_at_both_clusters_are_dropped(sides, both, batch, peer):
    table = both({"f": GLOBAL, "g": GLOBAL})
    sides.source.put_peer_configuration(peer, DROP_FAMILIES)
    sides.source.write(table, [put("first", {"g:q": b"1"})])
    sides.source.write(table, [put("second", {"f:q": b"1", "g:q": b"2"})])
    for client in (sides.source, sides.peer_cluster):
        client.drop_family(table, "g")
    sides.source.write(table, [put("third", {"f:q": b"1"})])
    summary = batch()
    assert summary.status is Status.DONE, summary.error
    assert summary.logEditsFiltered["deleted"] == 1
    assert summary.deletedAtBoth == (f"{table}:g",)
    assert rows_at(sides.peer_cluster, table) == {b"second", b"third"}


def test_edits_behind_a_family_that_the_source_still_has_wait_until_it_is_deleted_there(sides, both, batch, peer):
    table = both({"f": GLOBAL, "g": GLOBAL})
    sides.source.put_peer_configuration(peer, DROP_FAMILIES)
    sides.source.write(table, [put("row", {"g:q": b"1"})])
    sides.peer_cluster.drop_family(table, "g")
    sides.source.write(table, [put("row", {"f:q": b"1"})])

    summary = batch()
    assert summary.status is Status.FAILED
    assert f"column family g of table {table} does not exist there" in summary.error
    assert "hbase.replication.drop.on.deleted.columnfamily" in summary.error

    sides.source.drop_family(table, "g")
    summary = batch()
    assert summary.status is Status.DONE, summary.error
    assert summary.deletedAtBoth == (f"{table}:g",)
    assert rows_at(sides.peer_cluster, table) == {b"row"}
