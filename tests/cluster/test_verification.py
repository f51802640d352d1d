"""Compares source and peer cluster, and compares the result with HBase's own VerifyReplication on the same tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from embedded.client import GLOBAL, LOCAL, even_splits
from embedded.wire import delete_column, delete_row, put
from tests.cluster.walferry_runs import BOTH_SINKS, ship
from walferry.replication.locks.peer_lock import PeerLocked, holding_peer, turn_of
from walferry.replication.peers.settings import SinkKind
from walferry.replication.sinks.hbase.direct import DirectShipper
from walferry.replication.sinks.hbase.replicate import Shipper
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.shipping.rows import RowShipment
from walferry.verification.job import Options
from walferry.verification.outcome import DifferenceKind, VerificationOutcome, total_of
from walferry.verification.plan import NothingToCompare, RepairRefused, plan_verification
from walferry.verification.ranges import compare_range
from walferry.verification.verify_run import VerifyRun


def verify(source: SourceCluster, peer: str, *tables: str, **options: object) -> dict[str, VerificationOutcome]:
    """Compare all ranges of the tables, in this process."""
    chosen = Options(**options)  # type: ignore[arg-type]
    with open_session(source) as session:
        plan = plan_verification(session, peer, tables, chosen)
    assert not plan.problems
    run = VerifyRun(source=source, peer_id=peer, run_id="test", options=chosen)
    with run.ranges(plan, print) as ranges, ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(lambda part: compare_range(source, plan.peer, part, chosen), ranges))
    return {name: total_of(name, [part for part in parts if part.table == name], 20) for name in {p.table for p in plan.parts}}


def counters(outcome: VerificationOutcome) -> dict[str, int]:
    """Return the outcome as VerifyReplication counts it: only figures other than 0."""
    figures = {"GOODROWS": outcome.good, "BADROWS": outcome.bad_rows, **{str(k): n for k, n in outcome.bad.items()}}
    return {name: count for name, count in figures.items() if count}


def of_hbase(sides, peer: str, table: str, families: tuple[str, ...] = ("f",)) -> dict[str, int]:
    found = sides.source.verify_replication(table, peer, families)
    return {name: count for name, count in found.items() if count}


def rows(first: int, end: int, value: bytes = b"v", timestamp: int = 1000) -> list:
    return [put(f"row{i:06}", {"f:a": value, "f:b": value * 20}, timestamp=timestamp) for i in range(first, end)]


def test_differences_of_each_kind_are_counted_as_hbase_counts_them(sides, peer, both):
    table = both(splits=[b"row001000", b"row003000"])
    sides.source.write(table, rows(0, 5000))
    sides.peer_cluster.write(table, rows(0, 5000))
    assert counters(verify(sides.at, peer, table)[table]) == of_hbase(sides, peer, table) == {"GOODROWS": 5000}
    sides.peer_cluster.write(table, [delete_row(f"row{i:06}", timestamp=2000) for i in (0, 999, 1000, 2500, 2501, 4999)])
    sides.source.write(table, [delete_row("row004000", timestamp=2000), delete_row("row000500", timestamp=2000)])
    sides.peer_cluster.write(table, [
        put("row000700", {"f:a": b"other"}, timestamp=1000), put("row000701", {"f:c": b"more"}, timestamp=1000),
        delete_column("row000702", "f:b", timestamp=2000), put("row000703", {"f:a": b"v"}, timestamp=1001),
        put("row000704\x00<b>", {"f:a": b"v"}), put("row000710", {"l:a": b"a LOCAL family"}),
    ])  # fmt: skip
    sides.source.write(table, [put("row000711", {"l:a": b"of a LOCAL family"})])
    found = verify(sides.at, peer, table)[table]
    expected = {
        "GOODROWS": 4988, "BADROWS": 13, "ONLY_IN_SOURCE_TABLE_ROWS": 6, "ONLY_IN_PEER_TABLE_ROWS": 3,
        "CONTENT_DIFFERENT_ROWS": 4,
    }  # fmt: skip
    assert counters(found) == of_hbase(sides, peer, table) == expected
    assert found.pruned > 2000
    shown = {sample.row: sample for sample in found.samples}
    assert len(shown) == 13
    assert shown["row002500"].kind is DifferenceKind.MISSING
    assert shown["row000704\\x00\\x3Cb\\x3E"].kind is DifferenceKind.EXTRA
    assert "f:a/1000/Put: v at the source, other at the peer cluster" in shown["row000700"].detail


def test_ranges_times_versions_and_deletes_are_compared_as_asked(sides, peer, both):
    table = both(versions=3)
    sides.source.write(table, [*rows(0, 100, timestamp=1000), *rows(0, 100, b"new", timestamp=2000)])
    sides.peer_cluster.write(table, rows(0, 100, b"new", timestamp=2000))
    assert counters(verify(sides.at, peer, table)[table]) == {"GOODROWS": 100}
    every = verify(sides.at, peer, table, versions=3)[table]
    assert counters(every) == {"BADROWS": 100, "CONTENT_DIFFERENT_ROWS": 100}
    old = verify(sides.at, peer, table, end_time=1500)[table]
    assert counters(old) == {"BADROWS": 100, "ONLY_IN_SOURCE_TABLE_ROWS": 100}
    assert counters(verify(sides.at, peer, table, versions=3, start_time=2000)[table]) == {"GOODROWS": 100}
    part = verify(sides.at, peer, table, versions=3, start_row=b"row000010", stop_row=b"row000015")[table]
    assert counters(part) == {"BADROWS": 5, "CONTENT_DIFFERENT_ROWS": 5}
    sides.source.write(table, [delete_column("row000050", "f:zzz", timestamp=5)])
    assert counters(verify(sides.at, peer, table)[table]) == {"GOODROWS": 100}
    deleted = verify(sides.at, peer, table, start_time=3, end_time=10, deleted=True)[table]
    assert counters(deleted) == {"BADROWS": 1, "ONLY_IN_SOURCE_TABLE_ROWS": 1}


def test_only_what_the_peer_gets_is_compared(sides, unique):
    included, left_out, peer_id = unique("t"), unique("t"), unique("peer")
    for client in (sides.source, sides.peer_cluster):
        for table in (included, left_out):
            client.create_table(table, {"f": GLOBAL, "g": GLOBAL, "l": LOCAL})
    sides.source.add_peer(
        peer_id, sides.peer_hbase.address.cluster_key, enabled=False, table_families={included: ["f"]},
    )  # fmt: skip
    try:
        sides.source.write(included, [put("r", {"f:a": b"1", "g:a": b"1", "l:a": b"1"}, timestamp=1)])
        sides.peer_cluster.write(included, [put("r", {"f:a": b"1"}, timestamp=1)])
        found = verify(sides.at, peer_id)
        assert {name: counters(outcome) for name, outcome in found.items()} == {included: {"GOODROWS": 1}}
        with pytest.raises(NothingToCompare, match=left_out):
            verify(sides.at, peer_id, left_out)
    finally:
        sides.source.remove_peer(peer_id)


def test_rows_in_flight_are_good_once_they_have_arrived(sides, peer, both):
    table = both()
    sides.source.write(table, rows(0, 3))
    sides.peer_cluster.write(table, rows(0, 1))
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(verify, sides.at, peer, table, recompares=3, recompare_seconds=2)
        sides.peer_cluster.write(table, rows(1, 2))
        outcome = found.result()[table]
    assert counters(outcome) == {"GOODROWS": 2, "BADROWS": 1, "ONLY_IN_SOURCE_TABLE_ROWS": 1}
    assert outcome.recompared >= 3


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> set[SinkKind]:
    """Record the ways in which this process has sent anything to a peer cluster."""
    used: set[SinkKind] = set()

    def noted(kind: SinkKind, ship: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            used.add(kind)
            return ship(*args, **options)

        return call

    for kind, shipper in ((SinkKind.DIRECT, DirectShipper), (SinkKind.REPLICATE, Shipper)):
        monkeypatch.setattr(shipper, "ship", noted(kind, shipper.ship))
    return used


@BOTH_SINKS
def test_a_repair_ships_rows_again_and_leaves_those_that_only_the_peer_cluster_has(sides, peer, both, sink, ways):
    table = both(splits=even_splits(2), versions=3)
    sides.source.write(table, [*rows(0, 300), *rows(10, 20, b"newer", timestamp=3000)])
    sides.source.write(table, [delete_row("row000005", timestamp=4000), put("row000005", {"f:a": b"again"}, timestamp=5000)])
    sides.peer_cluster.write(table, [*rows(0, 200), put("extra", {"f:a": b"1"})])
    found = verify(sides.at, peer, table, versions=3, repair=True)[table]
    assert counters(found) == {"GOODROWS": 300, "BADROWS": 1, "ONLY_IN_PEER_TABLE_ROWS": 1}
    assert found.repaired == 111
    assert ways == {sink}
    assert counters(verify(sides.at, peer, table, versions=3)[table]) == counters(found)
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).different == 1


def test_a_repaired_row_has_the_newest_of_overwritten_cells_with_one_timestamp(sides, peer, both):
    """Cells with equal keys stay side by side in store files and the memstore until a compaction."""
    table = both(versions=3)

    def overwrite(row: str, value: bytes) -> None:
        sides.source.write(table, [put(row, {"f:a": value, "f:b": value}, timestamp=1000)])

    for row in ("in files", "in a file and memory"):
        overwrite(row, b"old")
    sides.source.flush(table)
    overwrite("in files", b"new")
    sides.source.flush(table)
    for value in (b"old", b"older", b"new"):
        overwrite("in memory", value)
    overwrite("in a file and memory", b"new")
    sides.peer_cluster.write(table, [put(row, {"f:a": b"old"}, timestamp=1000) for row in ("in files", "in memory")])
    found = verify(sides.at, peer, table, versions=3, repair=True)[table]
    assert (found.repaired, counters(found)) == (3, {"GOODROWS": 3})
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
    assert counters(verify(sides.at, peer, f"default:{table}", versions=3)[table]) == {"GOODROWS": 3}


def test_a_repair_brings_no_older_value_on_top_of_a_batch(sides, peer, both, monkeypatch):
    """A batch that starts between the scan and the request leaves the peer to the repair, and ships the newer value later."""
    table = both()
    sides.source.write(table, [put("r", {"f:q": b"old"}, timestamp=5)])
    ship(sides.at, peer)
    sides.source.write(table, [put("r", {"f:lacking": b"x"}, timestamp=5)])
    scanned, go_on, flush = threading.Event(), threading.Event(), RowShipment.flush

    def held(self: RowShipment, name: str) -> None:
        if self._entries:
            scanned.set()
            assert go_on.wait(60)
        flush(self, name)

    monkeypatch.setattr(RowShipment, "flush", held)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(verify, sides.at, peer, table, repair=True)
        assert scanned.wait(60)
        sides.source.write(table, [put("r", {"f:q": b"new"}, timestamp=5)])
        with open_session(sides.at) as session:
            planned = turn_of(session, peer, "batch").number
        with suppress(PeerLocked), holding_peer(sides.at, peer, "batch", "a batch", planned):
            ship(sides.at, peer)
        go_on.set()
        assert not found.result(60)[table].problem
    ship(sides.at, peer)
    assert [cell.value for cell in sides.peer_cluster.scan_all(table)] == [cell.value for cell in sides.source.scan_all(table)]


def test_a_repair_refuses_tables_with_new_version_behavior(sides, peer, both):
    table = both()
    sides.peer_cluster.alter_family(table, "f", {"NEW_VERSION_BEHAVIOR": "true"})
    with pytest.raises(RepairRefused, match=f"of table {table} at the peer cluster has NEW_VERSION_BEHAVIOR"):
        verify(sides.at, peer, table, repair=True)
    sides.source.alter_family(table, "f", {"NEW_VERSION_BEHAVIOR": "true"})
    with pytest.raises(RepairRefused, match=f"of table {table} has NEW_VERSION_BEHAVIOR"):
        verify(sides.at, peer, table, repair=True)
    assert not verify(sides.at, peer, table)[table].problem
