"""A source and a slave in realms of their own: edits arrive by each sink, at each protection, with TLS, and with both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from embedded.client import GLOBAL, JavaClient
from embedded.secured_site import SecuredSite
from embedded.wire import delete_column, put
from tests.cluster.walferry_runs import queues, roll, ship, source_of
from tests.secured.conftest import login
from tests.secured.peers import MANAGED, lead_to, peer_with_nobody
from walferry.shipping.summary import Status
from walferry.source.cluster import SourceCluster, for_slave
from walferry.source.knobs import SinkKind

CONN_ID = "west"
ROWS = 2000


@dataclass(frozen=True)
class Pair:
    """Both sides through HBase's own client, and a managed peer that names the slave's connection."""

    source: JavaClient
    slave: JavaClient
    peer: str
    slave_site: SecuredSite
    source_site: SecuredSite

    def at(self, sink: SinkKind, **more: object) -> SourceCluster:
        """The source as Walferry sees it; `more` changes the fields of the slave's connection."""
        key = self.slave_site.cluster.address.cluster_key
        at = source_of(self.source_site.cluster.address, sink)
        slaves = {for_slave(CONN_ID, key): login(self.slave_site, **more)}
        return SourceCluster(
            quorum=at.quorum, wal_root=at.wal_root, replication=at.replication, login=login(self.source_site), slaves=slaves
        )


@pytest.fixture
def pair(
    source_site: SecuredSite,
    slave_site: SecuredSite,
    secured_java: Callable[[SecuredSite], JavaClient],
) -> Iterator[Pair]:
    source = secured_java(source_site)
    with peer_with_nobody(source_site, source, {**MANAGED, "walferry.slave_conn_id": CONN_ID}) as peer:
        lead_to(source_site, peer, slave_site.cluster.address.cluster_key)
        yield Pair(source, secured_java(slave_site), peer, slave_site, source_site)


@pytest.fixture
def table(pair: Pair, unique: Callable[[str], str]) -> str:
    """A table on both sides, with edits at the source whose values are larger than a wrap takes."""
    name = unique("t")
    for client in (pair.source, pair.slave):
        client.create_table(name, {"f": GLOBAL}, [b"row5"], versions=3)
    pair.source.write(name, [put(f"row{n % 10}-{n}", {"f:a": b"v" * (n % 500)}) for n in range(ROWS)])
    pair.source.write(name, [put("row-big", {"f:a": bytes(range(256)) * 20_000})])
    pair.source.write(name, [delete_column(f"row{n % 10}-{n}", "f:a") for n in range(0, ROWS, 7)])
    return name


@pytest.mark.parametrize("sink", [SinkKind.DIRECT, SinkKind.REPLICATE, SinkKind.HFILES])
def test_edits_arrive_as_they_were_written(pair: Pair, table: str, sink: SinkKind) -> None:
    summaries = ship(pair.at(sink), pair.peer)
    assert [summary.status for summary in summaries] == [Status.DONE] * len(summaries)
    assert pair.slave.scan_all(table, raw=True) == pair.source.scan_all(table, raw=True)
    assert pair.slave.count_rows(table) > ROWS // 2


def queued(pair: Pair) -> list[str]:
    """The WALs that wait, and those that RegionServers write now."""
    return [wal.name.text for queue in queues(pair.at(SinkKind.DIRECT), pair.peer) for wal in queue.wals]


def test_a_slave_that_does_not_let_us_in_loses_nothing(pair: Pair, table: str) -> None:
    wrong = {"tls_ca": "/no/such.pem"} if pair.slave_site.realm is None else {"keytab": "/no/such.keytab"}
    roll(pair.at(SinkKind.DIRECT), pair.peer)
    before = queued(pair)
    summaries = ship(pair.at(SinkKind.DIRECT, **wrong), pair.peer, roll_first=False)
    assert {summary.status for summary in summaries} == {Status.FAILED}, "waiting does not help"
    assert all("/no/such" in (summary.error or "") for summary in summaries)
    assert queued(pair) == before
    assert pair.slave.scan_all(table) == []
    ship(pair.at(SinkKind.DIRECT), pair.peer)
    assert pair.slave.scan_all(table, raw=True) == pair.source.scan_all(table, raw=True)
