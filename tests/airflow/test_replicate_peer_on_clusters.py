"""The DAG replicate_peer, run by Airflow, from one real HBase to another, with a real Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from embedded.client import GLOBAL, LOCAL, JavaClient

from .conftest import Run


@pytest.fixture
def source(standalone_pair, java_client, monkeypatch) -> JavaClient:
    address = standalone_pair.source.address
    extra = f'{{"wal_root": "{address.wal_root}", "znode_parent": "{address.znode_parent}"}}'
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", f'{{"conn_type": "generic", "host": "{address.quorum}", "extra": {extra}}}')
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    return java_client(address)


@pytest.fixture
def slave(standalone_pair, java_client) -> JavaClient:
    return java_client(standalone_pair.slave.address)


@pytest.fixture
def peer(standalone_pair, managed_peer) -> str:
    return managed_peer(standalone_pair.source.address, standalone_pair.slave.address)


@pytest.fixture
def table(source, slave, unique) -> Iterator[str]:
    name = unique("t")
    for client in (source, slave):
        client.create_table(name, {"f": GLOBAL, "l": LOCAL})
    yield name
    for client in (source, slave):
        if client.table_exists(name):
            client.drop_table(name)


def test_what_clients_wrote_arrives_and_an_idle_batch_starts_no_job(
    replicate_peer: Callable[..., Run], source, slave, peer, table, monkeypatch
):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # spark-submit lies beside the interpreter only
    source.put_many(table, 1000, ["f:a", "l:b"], batch=10)
    first = replicate_peer(peer=peer, deadline=120)
    assert first.state == "success", first.reports
    assert first.tasks["peer.ship", peer] == "success"
    assert source.compare(table, slave, families=["f"]).same
    assert slave.scan_all(table, ["l"]) == []
    totals = first.reports[peer]["totals"]
    assert (totals["shippedOps"], totals["shippedCells"]) == (1000, 1000)
    assert first.reports[peer]["groups"][0]["ageOfLastShippedOp"] > 0

    idle = replicate_peer(peer=peer, deadline=120)
    assert idle.state == "success"
    assert idle.tasks["peer.ship", peer] == "skipped"
    assert idle.reports[peer]["planned"]["groups"] == 0

    source.put_many(table, 500, ["f:a"], first=1000)
    again = replicate_peer(deadline=120)
    assert again.state == "success", again.reports
    assert again.reports[peer]["totals"]["shippedOps"] == 500
    assert source.compare(table, slave, families=["f"]).same


def test_a_table_that_the_slave_lacks_fails_the_run_and_the_next_one_ships_it(replicate_peer, source, slave, peer, table):
    slave.drop_table(table)
    source.put_many(table, 10, ["f:a"])
    failed = replicate_peer(peer=peer, deadline=60)
    assert failed.state == "failed"
    assert any(f"table {table} does not exist" in reason for reason in failed.reports[peer]["failures"])
    slave.create_table(table, {"f": GLOBAL, "l": LOCAL})
    assert replicate_peer(peer=peer, deadline=60).state == "success"
    assert source.compare(table, slave, families=["f"]).same


def test_a_peer_that_is_not_walferry_s_is_left_alone(replicate_peer, source, standalone_pair, unique):
    stranger = unique("stranger")
    source.add_peer(stranger, standalone_pair.slave.address.cluster_key, enabled=False)
    try:
        ended = replicate_peer(peer=stranger)
        assert ended.state == "failed"
        assert "no walferry.managed=true" in ended.reports[stranger]["failures"][0]
        assert ended.tasks["peer.roll", stranger] == "failed"
        everyone = replicate_peer()
        assert stranger not in everyone.reports
    finally:
        source.remove_peer(stranger)
