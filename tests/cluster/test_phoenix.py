"""A source with Phoenix: its WALs are read as HBase reads them with Phoenix's jar, and its tables are replicated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.phoenix import write_indexed_wal
from tests.cluster.decoding import compare_with_pretty_printer, compare_with_reader, copies_of_closed_wals, count_index_entries
from tests.cluster.phoenix_pair import (
    COMPRESSION,
    INDEXES,
    UPSERT,
    VIEWS,
    Phoenix,
    compare_sql,
    create_people,
    people,
    phoenix_pair,
)
from tests.cluster.walferry_runs import roll, ship, source_of
from walferry.engine.summary import Status
from walferry.hbase.files.systems import open_wal
from walferry.hbase.wal.header import parse_header
from walferry.replication.peers.settings import CUSTOM_FILTERS, SYSTEM_CATALOG_FILTER


@pytest.fixture(scope="module", params=[{}, COMPRESSION], ids=["plain", "compressed"])
def settings(request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings of the source's WALs."""
    settings: dict[str, str] = request.param
    return settings


@pytest.fixture(scope="module")
def phoenix(settings: dict[str, str], cluster_folder: Path) -> Iterator[Phoenix]:
    with phoenix_pair(cluster_folder / f"phoenix-{bool(settings)}", settings, {}) as pair:
        yield pair


@pytest.mark.timeout(900)
def test_tables_indexes_and_views_of_tenants_are_replicated(
    phoenix: Phoenix, unique: Callable[[str], str], tmp_path: Path
) -> None:
    client, peer_client = phoenix.clients()
    here, there = phoenix.sql()
    for sql in (here, there):
        sql.run(create_people(), *INDEXES)
    client.alter_family("SYSTEM.CATALOG", "0", {"REPLICATION_SCOPE": "1"})
    client.alter_family("SYSTEM.CHILD_LINK", "0", {"REPLICATION_SCOPE": "1"})
    peer = unique("peer")
    filtered = {"walferry.managed": "true", CUSTOM_FILTERS.key: SYSTEM_CATALOG_FILTER}
    client.add_peer(peer, phoenix.peer_cluster.address.cluster_key, enabled=False, configuration=filtered)

    here.upsert(UPSERT, people(0, 500))
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
    compare_sql(here, there)
    for table in ("PEOPLE", "PEOPLE_BY_NAME"):
        assert client.compare(table, peer_client).same
    assert here.select(VIEWS) == [("None", "EVERYBODYS"), ("acme", "MINE")]
    assert there.select(VIEWS) == [("acme", "MINE")]
    _, tenants_there = phoenix.sql("acme")
    assert tenants_there.select("SELECT NICK FROM MINE WHERE ID = 77777") == [("nick",)]


def test_index_entries_are_read_as_hbase_reads_them(phoenix: Phoenix, settings: dict[str, str], tmp_path: Path) -> None:
    """By default this version writes none, but its codec still reads and writes them."""
    path = tmp_path / "indexed.1700000000000"
    parts = [[(kind, b"%s %d" % (kind.encode(), i)) for kind in ("index", "cell", "cell", "index")] for i in range(50)]
    parts += [[("index", b"alone")], [("cell", b"x" * 300), ("index", b"y" * 20_000)]]
    write_indexed_wal(phoenix.jvm, path, settings, parts)
    url = f"file://{path}"
    with open_wal(url) as file:
        header = parse_header(file.read_at(0, file.size), url)
    assert header.phoenix
    assert (header.compression is not None) == bool(settings)
    client, _ = phoenix.clients()
    assert compare_with_reader(client, [url]) == sum(map(len, parts))
    assert count_index_entries(client, [url]) == sum(kind == "index" for entry in parts for kind, _ in entry)
