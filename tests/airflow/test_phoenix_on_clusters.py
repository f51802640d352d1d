"""The DAG replicate_peer from one cluster with Phoenix to another one: JDBC finds the same rows on both, whatever the sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.phoenix import PhoenixSql
from embedded.processes import free_port
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
from walferry.replication.peers.settings import CUSTOM_FILTERS, SYSTEM_CATALOG_FILTER

from .conftest import Run

HOOK = "org.apache.phoenix.coprocessor.ReplicationSinkEndpoint"
OWN = "CREATE INDEX PEOPLE_OF_THIS_CLUSTER ON PEOPLE (ID)"  # no other query can use it
WAIT_SECONDS = 60


@pytest.fixture
def phoenix(cluster_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phoenix]:
    """Two clusters. The source's WALs are compressed, and their keys have Phoenix's attributes, which a hook of the peer
    cluster gives to the mutations there.

    HBase's own reader stops at an attribute without bytes in a compressed WAL: the schema's name of a table without one."""
    source = {**COMPRESSION, "phoenix.append.metadata.to.wal": "true"}
    peer_cluster = {
        "hbase.coprocessor.regionserver.classes": HOOK,
        "hbase.coprocessor.user.region.classes": "walferry.embedded.PrintedAttributes",
        "hbase.regionserver.info.port": str(free_port()),
        "hbase.regionserver.info.bindAddress": "127.0.0.1",
    }
    with phoenix_pair(cluster_folder / "phoenix-airflow", source, peer_cluster) as pair:
        at = pair.source.address
        extra = f'{{"wal_root": "{at.wal_root}", "znode_parent": "{at.znode_parent}"}}'
        monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", f'{{"conn_type": "generic", "host": "{at.quorum}", "extra": {extra}}}')
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
        yield pair


def attributes(phoenix: Phoenix, table: str) -> list[str]:
    """Return the attributes of a table's mutations that the peer cluster has got, one line each."""
    lines = phoenix.peer_cluster.process.log_text().splitlines()
    return [line for line in lines if line.startswith(f"attributes of {table}: ")]


def replicate_by_hbase(phoenix: Phoenix, here: PhoenixSql) -> set[str]:
    """Replicate a row of HR.STAFF by a peer that HBase itself ships to. Returns the attributes with which it arrives."""
    client, _ = phoenix.clients()
    client.roll_wals()
    client.add_peer("hbase", phoenix.peer_cluster.address.cluster_key, table_families={"HR.STAFF": []})
    here.run("UPSERT INTO HR.STAFF VALUES (1, 'by HBase')")
    give_up = time.monotonic() + WAIT_SECONDS
    while not attributes(phoenix, "HR.STAFF"):
        assert time.monotonic() < give_up
        time.sleep(0.2)
    client.remove_peer("hbase")
    return set(attributes(phoenix, "HR.STAFF"))


def check(phoenix: Phoenix, run: Run, peer: str, sink: str) -> None:
    """Check that a run has sent edits by a sink, and that both clusters have the same rows."""
    assert run.state == "success", run.reports
    assert {group["sink"] for group in run.reports[peer]["groups"] if group["sink"]} == {sink}
    client, peer_client = phoenix.clients()
    for table in ("PEOPLE", "PEOPLE_BY_NAME", "_IDX_PEOPLE"):
        compared = client.compare(table, peer_client, raw=True)
        assert compared.same, compared.examples
        assert compared.left
    compare_sql(*phoenix.sql())


@pytest.mark.timeout(900)
def test_tables_indexes_and_views_of_tenants_arrive_by_each_sink(
    phoenix: Phoenix, replicate_peer: Callable[..., Run], unique: Callable[[str], str], logged: Callable[[], str]
) -> None:
    client, _ = phoenix.clients()
    here, there = phoenix.sql()
    for sql in (here, there):
        sql.run(create_people(more=", COLUMN_ENCODED_BYTES=0"), *INDEXES, OWN)
        sql.run("CREATE TABLE HR.STAFF (ID BIGINT NOT NULL PRIMARY KEY, NAME VARCHAR) REPLICATION_SCOPE=1")
    by_hbase = replicate_by_hbase(phoenix, here)
    assert all("SCHEMA_NAME=HR" in line for line in by_hbase)
    client.alter_family("PEOPLE_OF_THIS_CLUSTER", "0", {"REPLICATION_SCOPE": "0"})
    for table in ("SYSTEM.CATALOG", "SYSTEM.CHILD_LINK"):
        client.alter_family(table, "0", {"REPLICATION_SCOPE": "1"})
    peer = unique("peer")
    filtered = {"walferry.managed": "true", CUSTOM_FILTERS.key: SYSTEM_CATALOG_FILTER}
    client.add_peer(peer, phoenix.peer_cluster.address.cluster_key, enabled=False, configuration=filtered)

    here.run("UPSERT INTO HR.STAFF VALUES (2, 'by Walferry')")
    here.upsert(UPSERT, people(0, 300))
    here.run("DELETE FROM PEOPLE WHERE ID < 10", "UPSERT INTO PEOPLE (ORG, ID, NAME) VALUES ('acme', 11, 'renamed')")
    acme, _ = phoenix.sql("acme")
    other, _ = phoenix.sql("other")
    acme.run("CREATE VIEW MINE (NICK VARCHAR) AS SELECT * FROM PEOPLE", "CREATE INDEX MINE_BY_NICK ON MINE (NICK)")
    acme.run("UPSERT INTO MINE (ID, NICK) VALUES (77777, 'nick')", "UPSERT INTO MINE (ID, NICK) VALUES (77778, 'nack')")
    other.run("CREATE VIEW THEIRS AS SELECT * FROM PEOPLE")
    here.run("CREATE VIEW EVERYBODYS AS SELECT * FROM PEOPLE")
    check(phoenix, replicate_peer(peer=peer, deadline=600, sink="auto"), peer, "replicate")
    assert "logEditsFiltered not_of_tenant: " in logged()
    assert here.select(VIEWS) == [("None", "EVERYBODYS"), ("acme", "MINE"), ("other", "THEIRS")]
    assert there.select(VIEWS) == [("acme", "MINE"), ("other", "THEIRS")]
    assert len(attributes(phoenix, "HR.STAFF")) > 1
    assert set(attributes(phoenix, "HR.STAFF")) == by_hbase
    of_people = attributes(phoenix, "PEOPLE")
    assert any("TENANT_ID=acme" in line and "LOGICAL_TABLE_NAME=MINE" in line for line in of_people)
    assert there.select("SELECT COUNT(*) FROM PEOPLE_OF_THIS_CLUSTER") == [("0",)]  # replicated edits change no index

    for sql in (here, there):
        sql.run("ALTER TABLE PEOPLE ADD EXTRA VARCHAR")
    here.run("UPSERT INTO PEOPLE (ORG, ID, NAME, EXTRA) VALUES ('acme', 13, 'renamed too', 'more')")
    here.run("DELETE FROM PEOPLE WHERE NAME = 'name 25'")
    acme.run("UPSERT INTO MINE (ID, NICK) VALUES (77777, 'other')", "DELETE FROM MINE WHERE ID = 77778")
    other.run("DROP VIEW THEIRS")
    check(phoenix, replicate_peer(peer=peer, deadline=600, sink="direct"), peer, "direct")
    assert attributes(phoenix, "PEOPLE") == of_people  # no more of them
    assert there.select(VIEWS) == [("acme", "MINE")]
    _, acme_there = phoenix.sql("acme")
    nicks = "SELECT ID, NICK FROM MINE WHERE NICK > 'a'"
    assert "OVER _IDX_PEOPLE" in acme_there.select(f"EXPLAIN {nicks}")[0][0]
    assert acme_there.select(nicks) == [("77777", "other")]

    here.upsert(UPSERT, people(500, 100))
    here.run("DELETE FROM PEOPLE WHERE ID < 20")
    loaded = replicate_peer(peer=peer, deadline=600, sink="hfiles")
    check(phoenix, loaded, peer, "direct")
    (why,) = loaded.reports[peer]["not_loaded"]
    assert "the peer cluster has no table that is fit for it" in why
    assert "it has the coprocessor org.apache.phoenix." in why
