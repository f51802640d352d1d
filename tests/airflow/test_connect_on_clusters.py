"""The DAG replicate_peer, run by Airflow from one real HBase to another, through a Spark Connect server that comes and goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.client import GLOBAL, JavaClient
from embedded.spark_connect import ConnectServer
from walferry.airflow.hooks.spark import WalferrySubmitHook

from .conftest import Run


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path) as started:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", started.connection)
        yield started


@pytest.fixture
def source(standalone_pair, java_client, monkeypatch) -> JavaClient:
    address = standalone_pair.source.address
    extra = {"wal_root": address.wal_root, "znode_parent": address.znode_parent}
    connection = {"conn_type": "generic", "host": address.quorum, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    return java_client(address)


@pytest.fixture
def submits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that went through spark-submit."""
    submitted: list[str] = []
    submit = WalferrySubmitHook.submit

    def noted(hook: WalferrySubmitHook, application: str = "", **kwargs: object) -> str | None:
        submitted.append(application)
        return submit(hook, application, **kwargs)

    monkeypatch.setattr(WalferrySubmitHook, "submit", noted)
    return submitted


def test_batches_go_through_the_server_and_through_spark_submit_while_it_is_gone(
    replicate_peer: Callable[..., Run], server, source, submits, standalone_pair, java_client, managed_peer, unique
):
    peer_cluster = java_client(standalone_pair.peer_cluster.address)
    peer = managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)
    table = unique("t")
    for client in (source, peer_cluster):
        client.create_table(table, {"f": GLOBAL})

    def batch(number: int) -> Run:
        source.put_many(table, 500, ["f:a"], first=500 * number)
        ended = replicate_peer(peer=peer, deadline=120)
        assert ended.state == "success", ended.reports
        assert ended.reports[peer]["totals"]["shippedOps"] == 500
        assert source.compare(table, peer_cluster, families=["f"]).same
        return ended

    assert [batch(number).reports[peer]["by_spark_submit"] for number in range(2)] == ["", ""]
    assert submits == []
    server.stop()
    without = batch(2)
    assert len(submits) == 1
    assert str(server.address) in without.reports[peer]["by_spark_submit"]
    assert without.tries["peer.ship", peer] == 1
    server.start()
    assert batch(3).reports[peer]["by_spark_submit"] == ""
    assert len(submits) == 1
