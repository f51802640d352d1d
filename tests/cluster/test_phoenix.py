"""A source with Phoenix: its WALs are read as HBase reads them with Phoenix's jar, and its tables are replicated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.client import ClientJvm, JavaClient
from embedded.phoenix import CONF, PhoenixSql, phoenix_classpath, write_indexed_wal
from embedded.standalone import StandaloneCluster
from tests.cluster.decoding import compare_with_pretty_printer, compare_with_reader, copies_of_closed_wals
from tests.cluster.walferry_runs import roll, ship, source_of
from walferry.engine.summary import Status
from walferry.hbase.files.systems import open_wal
from walferry.hbase.wal.arrow import read_batches
from walferry.hbase.wal.cells import META_FAMILY
from walferry.hbase.wal.header import parse_header
from walferry.replication.peers.settings import CUSTOM_FILTERS, SYSTEM_CATALOG_FILTER

COMPRESSION = {"hbase.regionserver.wal.enablecompression": "true"}
TABLES = (
    "CREATE TABLE PEOPLE (ORG VARCHAR NOT NULL, ID BIGINT NOT NULL, NAME VARCHAR, CITY VARCHAR"
    " CONSTRAINT PK PRIMARY KEY (ORG, ID)) MULTI_TENANT=true, REPLICATION_SCOPE=1",
    "CREATE INDEX PEOPLE_BY_NAME ON PEOPLE (NAME) INCLUDE (CITY)",
    "CREATE LOCAL INDEX PEOPLE_BY_CITY ON PEOPLE (CITY)",
)
UPSERT = "UPSERT INTO PEOPLE VALUES (?, ?, ?, ?)"
QUERIES = {
    "the table": "SELECT /*+ NO_INDEX */ * FROM PEOPLE ORDER BY ORG, ID",
    "the global index": "SELECT NAME, CITY FROM PEOPLE WHERE NAME > 'name 3' ORDER BY NAME",
    "the local index": "SELECT CITY FROM PEOPLE WHERE CITY = 'city 2'",
}


@dataclass(frozen=True)
class Phoenix:
    """A source and a peer cluster with Phoenix, and a JVM with its jars."""

    source: StandaloneCluster
    peer_cluster: StandaloneCluster
    jvm: ClientJvm
    compressed: bool  # the source's WALs

    def clients(self) -> tuple[JavaClient, JavaClient]:
        return self.jvm.client(self.source.address), self.jvm.client(self.peer_cluster.address)

    def sql(self, tenant: str | None = None) -> tuple[PhoenixSql, PhoenixSql]:
        source, peer_cluster = (PhoenixSql(self.jvm, each.address, tenant) for each in (self.source, self.peer_cluster))
        return source, peer_cluster


@pytest.fixture(scope="module", params=[{}, COMPRESSION], ids=["plain", "compressed"])
def phoenix(request: pytest.FixtureRequest, cluster_folder: Path) -> Iterator[Phoenix]:
    folder, jars = cluster_folder / f"phoenix-{bool(request.param)}", phoenix_classpath()
    sides = {"source": {**CONF, **request.param}, "peer": CONF}
    clusters = [StandaloneCluster(folder / name, conf, heap="1g", name=name, classpath=jars) for name, conf in sides.items()]
    with ExitStack() as running:
        for cluster in clusters:
            cluster.launch()
            running.callback(cluster.kill)
        for cluster in clusters:
            cluster.await_ready()
        classpath = [*jars, clusters[0].address.hbase_site.parent]
        jvm = running.enter_context(ClientJvm(folder / "client", classpath=classpath))
        yield Phoenix(*clusters, jvm, bool(request.param))


@pytest.mark.capability("Phoenix", cases=("plain",))
@pytest.mark.timeout(900)
def test_tables_indexes_and_views_of_tenants_are_replicated(
    phoenix: Phoenix, unique: Callable[[str], str], tmp_path: Path
) -> None:
    client, peer_client = phoenix.clients()
    here, there = phoenix.sql()
    for sql in (here, there):
        sql.run(*TABLES)
    client.alter_family("SYSTEM.CATALOG", "0", {"REPLICATION_SCOPE": "1"})
    client.alter_family("SYSTEM.CHILD_LINK", "0", {"REPLICATION_SCOPE": "1"})
    peer = unique("peer")
    filtered = {"walferry.managed": "true", CUSTOM_FILTERS.key: SYSTEM_CATALOG_FILTER}
    client.add_peer(peer, phoenix.peer_cluster.address.cluster_key, enabled=False, configuration=filtered)

    here.upsert(UPSERT, [("acme" if i % 2 else "other", i, f"name {i}", f"city {i % 5}") for i in range(500)])
    here.run("DELETE FROM PEOPLE WHERE ID < 10", "UPSERT INTO PEOPLE (ORG, ID, NAME) VALUES ('acme', 11, 'renamed')")
    tenants, _ = phoenix.sql("acme")
    tenants.run("CREATE VIEW MINE (NICK VARCHAR) AS SELECT * FROM PEOPLE", "UPSERT INTO MINE (ID, NICK) VALUES (77777, 'nick')")
    here.run("CREATE VIEW EVERYBODYS AS SELECT * FROM PEOPLE")
    at = source_of(phoenix.source.address)
    roll(at, peer)

    wals = copies_of_closed_wals(Path(phoenix.source.address.wal_root.removeprefix("file://")), tmp_path / "wals")
    compare_with_pretty_printer(client, wals)
    assert compare_with_reader(client, wals) > 3_000

    summaries = ship(at, peer)
    assert {summary.status for summary in summaries} == {Status.DONE}, [summary.error for summary in summaries]
    assert sum(summary.logEditsFiltered.get("not_of_tenant", 0) for summary in summaries) > 0
    for what, query in QUERIES.items():
        rows = here.select(query)
        assert rows, what
        assert there.select(query) == rows, what
    for table in ("PEOPLE", "PEOPLE_BY_NAME"):
        assert client.compare(table, peer_client).same
    views = "SELECT TABLE_NAME FROM SYSTEM.CATALOG WHERE TABLE_TYPE = 'v' ORDER BY TABLE_NAME"
    assert here.select(views) == [("EVERYBODYS",), ("MINE",)]
    assert there.select(views) == [("MINE",)]
    _, tenants_there = phoenix.sql("acme")
    assert tenants_there.select("SELECT NICK FROM MINE WHERE ID = 77777") == [("nick",)]


def test_index_entries_of_phoenix_4_are_read_as_hbase_reads_them(phoenix: Phoenix, tmp_path: Path) -> None:
    """Later versions write none, but their codec still reads and writes them."""
    path = tmp_path / "indexed.1700000000000"
    parts = [[(kind, b"%s %d" % (kind.encode(), i)) for kind in ("index", "cell", "cell", "index")] for i in range(50)]
    parts += [[("index", b"alone")], [("cell", b"x" * 300), ("index", b"y" * 20_000)]]
    write_indexed_wal(phoenix.jvm, path, COMPRESSION if phoenix.compressed else {}, parts)
    url = f"file://{path}"
    with open_wal(url) as file:
        header = parse_header(file.read_at(0, file.size), url)
        rows = [row for batch in read_batches(file, url, 0) for row in batch.to_pylist()]
    assert header.phoenix
    assert (header.compression is not None) == phoenix.compressed
    client, _ = phoenix.clients()
    expected = [(entry.end, cell.family, cell.row) for entry in client.read_wal(url) for cell in entry.cells]
    assert len(expected) == len(rows) == sum(map(len, parts))
    for row, (end, family, key) in zip(rows, expected, strict=True):
        assert (row["next_offset"], row["family"]) == (end, family)
        assert row["row"] == (b"" if family == META_FAMILY else key)
