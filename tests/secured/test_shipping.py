"""A source and a peer cluster in their own realms: edits arrive by each sink, at each protection, with TLS, and with both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded.client import GLOBAL
from embedded.wire import delete_column, put
from tests.cluster.walferry_runs import queues, roll, ship
from tests.secured.peers import Pair
from walferry.engine.summary import Status
from walferry.replication.peers.settings import SinkKind

ROWS = 2000


@pytest.fixture
def table(pair: Pair, unique: Callable[[str], str]) -> str:
    """A table on both sides, with edits at the source whose values are larger than a wrap takes."""
    name = unique("t")
    for client in (pair.source, pair.peer_cluster):
        client.create_table(name, {"f": GLOBAL}, [b"row5"], versions=3)
    pair.source.write(name, [put(f"row{n % 10}-{n}", {"f:a": b"v" * (n % 500)}) for n in range(ROWS)])
    pair.source.write(name, [put("row-big", {"f:a": bytes(range(256)) * 20_000})])
    pair.source.write(name, [delete_column(f"row{n % 10}-{n}", "f:a") for n in range(0, ROWS, 7)])
    return name


@pytest.mark.capability("a secured shipment", cases=["privacy-tls-direct"])
@pytest.mark.usefixtures("files_of_all")
@pytest.mark.parametrize("sink", [SinkKind.DIRECT, SinkKind.REPLICATE, SinkKind.HFILES])
def test_edits_arrive_as_they_were_written(pair: Pair, table: str, sink: SinkKind) -> None:
    summaries = ship(pair.at(sink), pair.peer)
    assert [summary.status for summary in summaries] == [Status.DONE] * len(summaries)
    assert {(summary.sink, summary.notLoaded) for summary in summaries if summary.shippedCells} == {(sink, None)}
    assert pair.peer_cluster.scan_all(table, raw=True) == pair.source.scan_all(table, raw=True)
    assert pair.peer_cluster.count_rows(table) > ROWS // 2


def queued(pair: Pair) -> list[str]:
    """Return the WALs that wait, and the WALs that RegionServers write now."""
    return [wal.name.text for queue in queues(pair.at(SinkKind.DIRECT), pair.peer) for wal in queue.wals]


def test_a_peer_cluster_that_does_not_let_us_in_loses_nothing(pair: Pair, table: str) -> None:
    wrong = {"tls_ca": "/no/such.pem"} if pair.peer_site.realm is None else {"keytab": "/no/such.keytab"}
    roll(pair.at(SinkKind.DIRECT), pair.peer)
    before = queued(pair)
    summaries = ship(pair.at(SinkKind.DIRECT, **wrong), pair.peer, roll_first=False)
    assert {summary.status for summary in summaries} == {Status.FAILED}, "waiting does not help"
    assert all("/no/such" in (summary.error or "") for summary in summaries)
    assert queued(pair) == before
    assert pair.peer_cluster.scan_all(table) == []
    ship(pair.at(SinkKind.DIRECT), pair.peer)
    assert pair.peer_cluster.scan_all(table, raw=True) == pair.source.scan_all(table, raw=True)
