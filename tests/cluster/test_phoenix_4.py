"""Phoenix 4 on HBase 1, whose WALs contain index entries: they are read as HBase reads them, and its tables are replicated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.classic import add_managed_peer, classic_conf
from embedded.client import ClientJvm
from embedded.jars import HBASE_1
from embedded.phoenix import CONF, WITH_INDEX_ENTRIES, phoenix_4_classpath, phoenix_classpath, run_phoenix_4
from embedded.standalone import StandaloneCluster
from tests.cluster.decoding import compare_with_reader, copies_of_closed_wals, count_index_entries
from tests.cluster.walferry_runs import roll, ship, source_of
from tests.conftest import side_by_side
from walferry.engine.summary import Status
from walferry.hbase.files.systems import open_wal
from walferry.hbase.layout import QueueLayout
from walferry.hbase.wal.header import Header, parse_header
from walferry.replication.peers.settings import CUSTOM_FILTERS, REQUEST_SINKS, SYSTEM_CATALOG_FILTER

COMPRESSION = {"hbase.regionserver.wal.enablecompression": "true"}
TABLES = (
    "CREATE TABLE PEOPLE (ORG VARCHAR NOT NULL, ID BIGINT NOT NULL, NAME VARCHAR, CITY VARCHAR"
    " CONSTRAINT PK PRIMARY KEY (ORG, ID)) MULTI_TENANT=true, REPLICATION_SCOPE=1",
    "CREATE INDEX PEOPLE_BY_NAME ON PEOPLE (NAME) INCLUDE (CITY)",
    "CREATE LOCAL INDEX PEOPLE_BY_CITY ON PEOPLE (CITY)",
)
QUERIES = (
    "SELECT /*+ NO_INDEX */ ORG, ID, NAME, CITY FROM PEOPLE ORDER BY ORG, ID",
    "SELECT NAME, CITY FROM PEOPLE WHERE NAME > 'name 3' ORDER BY NAME",
    "SELECT CITY FROM PEOPLE WHERE CITY = 'city 2'",
)


@pytest.fixture(scope="module")
def clusters(cluster_folder: Path) -> Iterator[tuple[StandaloneCluster, StandaloneCluster]]:
    """Two clusters of HBase 1 with Phoenix 4 and the same tables. The second one's WALs are compressed."""
    settings = {**classic_conf(), **CONF, **WITH_INDEX_ENTRIES}
    plain, compressed = (
        StandaloneCluster(
            cluster_folder / f"phoenix-4-{name}", conf, heap="1g", name=name, classpath=phoenix_4_classpath(), jars=HBASE_1
        )
        for name, conf in {"plain": settings, "compressed": {**settings, **COMPRESSION}}.items()
    )
    with side_by_side((plain, compressed)):
        for cluster in (plain, compressed):
            run_phoenix_4(cluster.address, *TABLES)
        yield plain, compressed


@pytest.fixture(scope="module")
def jvm(cluster_folder: Path) -> Iterator[ClientJvm]:
    """HBase 2's client and readers, with Phoenix 5: its codec is that of Phoenix 4."""
    with ClientJvm(cluster_folder / "phoenix-4-client", classpath=phoenix_classpath()) as jvm:
        yield jvm


@pytest.mark.timeout(900)
def test_tables_indexes_and_views_of_tenants_are_replicated(
    clusters: tuple[StandaloneCluster, StandaloneCluster], jvm: ClientJvm, tmp_path: Path
) -> None:
    """First from the cluster with plain WALs to the one with compressed WALs, then back."""
    for number, sink in enumerate(REQUEST_SINKS):
        source, peer_cluster = (each.address for each in (clusters if number == 0 else clusters[::-1]))
        client, peer, view = jvm.client(source), str(number), f"MINE{number}"
        client.alter_family("SYSTEM.CATALOG", "0", {"REPLICATION_SCOPE": "1"})
        add_managed_peer(source, peer, peer_cluster.cluster_key, {CUSTOM_FILTERS.key: SYSTEM_CATALOG_FILTER})
        at = replace(source_of(source, sink), queue_layout=QueueLayout.CLASSIC)
        roll(at, peer)

        ids = range(1000 * number, 1000 * number + 40)
        rows = [f"('{'acme' if i % 2 else 'other'}', {i}, 'name {i}', 'city {i % 5}')" for i in ids]
        changes = (
            f"DELETE FROM PEOPLE WHERE ID < {ids[10]}",
            f"UPSERT INTO PEOPLE (ORG, ID, NAME) VALUES ('acme', {ids[11]}, 'x')",
        )
        run_phoenix_4(source, *(f"UPSERT INTO PEOPLE VALUES {row}" for row in rows), *changes)
        of_tenant = (
            f"CREATE VIEW {view} (NICK VARCHAR) AS SELECT * FROM PEOPLE",
            f"UPSERT INTO {view} (ID, NICK) VALUES (7777{number}, 'nick')",
        )
        run_phoenix_4(source, *of_tenant, tenant="acme")
        roll(at, peer)

        wals = copies_of_closed_wals(Path(source.wal_root.removeprefix("file://")), tmp_path / f"wals{number}")
        headers = [header_of(url) for url in wals]
        assert all(header.phoenix for header in headers)
        assert {header.compression is not None for header in headers} == {number == 1}
        assert compare_with_reader(client, wals) > 1_000
        assert count_index_entries(client, wals) >= len(rows)

        summaries = ship(at, peer)
        assert {summary.status for summary in summaries} == {Status.DONE}, [summary.error for summary in summaries]
        for table in ("PEOPLE", "PEOPLE_BY_NAME"):
            assert client.compare(table, jvm.client(peer_cluster)).same
        assert len(found := run_phoenix_4(source, *QUERIES)) > 30
        assert run_phoenix_4(peer_cluster, *QUERIES) == found
        nick = f"SELECT NICK FROM {view} WHERE ID = 7777{number}"
        assert run_phoenix_4(peer_cluster, nick, tenant="acme") == [("nick",)]


def header_of(url: str) -> Header:
    with open_wal(url) as file:
        return parse_header(file.read_at(0, file.size), url)
