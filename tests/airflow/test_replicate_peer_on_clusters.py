"""The DAG replicate_peer, run by Airflow, from one real HBase to another, with a real Spark job."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.client import GLOBAL, LOCAL, JavaClient
from embedded.spark_cluster import SparkCluster
from tests.cluster.proxy import proxied_peer_cluster
from walferry.admin.changing import set_values
from walferry.admin.peers import PeerAdmin
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.base.zk.client import connected, read
from walferry.hbase.layout import ZNodes
from walferry.replication.source.connection import from_env
from walferry.replication.source.session import open_session

from .conftest import Run


@pytest.fixture
def source(standalone_pair, java_client, monkeypatch) -> JavaClient:
    address = standalone_pair.source.address
    extra = f'{{"wal_root": "{address.wal_root}", "znode_parent": "{address.znode_parent}"}}'
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", f'{{"conn_type": "generic", "host": "{address.quorum}", "extra": {extra}}}')
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    return java_client(address)


@pytest.fixture
def peer_cluster(standalone_pair, java_client) -> JavaClient:
    return java_client(standalone_pair.peer_cluster.address)


@pytest.fixture
def peer(standalone_pair, managed_peer) -> str:
    return managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)


@pytest.fixture
def table(source, peer_cluster, unique) -> Iterator[str]:
    name = unique("t")
    for client in (source, peer_cluster):
        client.create_table(name, {"f": GLOBAL, "l": LOCAL})
    yield name
    for client in (source, peer_cluster):
        if client.table_exists(name):
            client.drop_table(name)


@pytest.mark.capability("a batch by Airflow and Spark")
def test_what_clients_wrote_arrives_and_an_idle_batch_starts_no_job(
    replicate_peer: Callable[..., Run], source, peer_cluster, peer, table, monkeypatch
):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # spark-submit lies beside the interpreter only
    source.put_many(table, 1000, ["f:a", "l:b"], batch=10)
    first = replicate_peer(peer=peer, deadline=120, sink="direct")
    assert first.state == "success", first.reports
    assert sinks_of(first, peer) == {"direct"}
    assert first.tasks["peer.ship", peer] == "success"
    assert source.compare(table, peer_cluster, families=["f"]).same
    assert peer_cluster.scan_all(table, ["l"]) == []
    totals = first.reports[peer]["totals"]
    assert (totals["shippedOps"], totals["shippedCells"]) == (1000, 1000)
    assert first.reports[peer]["groups"][0]["ageOfLastShippedOp"] > 0

    for _ in range(4):  # with many WALs HBase flushes by itself, and writes markers about that
        idle = replicate_peer(peer=peer, deadline=120)
        assert idle.state == "success"
        if idle.tasks["peer.ship", peer] == "skipped":
            break
        assert idle.reports[peer]["totals"]["shippedOps"] == 0
    assert idle.tasks["peer.ship", peer] == "skipped"
    assert idle.reports[peer]["planned"]["groups"] == 0

    source.put_many(table, 500, ["f:a"], first=1000)
    again = replicate_peer(deadline=120, sink="replicate")
    assert again.state == "success", again.reports
    assert sinks_of(again, peer) == {"replicate"}
    assert again.reports[peer]["totals"]["shippedOps"] == 500
    assert source.compare(table, peer_cluster, families=["f"]).same


def sinks_of(run: Run, peer: str) -> set[str]:
    """Return the sinks by which the run's groups were sent."""
    return {group["sink"] for group in run.reports[peer]["groups"] if group["sink"]}


@pytest.fixture
def spark_cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path, workers=1, cores=2, memory="1g") as started:
        yield started


def test_a_spark_cluster_s_workers_ship_when_the_connection_names_its_master(
    replicate_peer, source, peer_cluster, peer, table, spark_cluster, monkeypatch
):
    connection = f'{{"conn_type": "spark", "host": "spark://127.0.0.1", "port": {spark_cluster.port}}}'
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    source.put_many(table, 100, ["f:a", "l:b"])
    ended = replicate_peer(peer=peer, deadline=120)
    assert ended.state == "success", ended.reports
    assert ended.reports[peer]["totals"]["shippedOps"] == 100
    assert sinks_of(ended, peer) == {"direct"}  # without a parameter
    assert source.compare(table, peer_cluster, families=["f"]).same


def test_a_batch_is_loaded_as_files_and_the_report_says_so_and_what_was_not(
    replicate_peer, source, peer_cluster, peer, table, unique, logged: Callable[[], str]
):
    source.put_many(table, 1000, ["f:a", "l:b"], batch=10)
    loaded = replicate_peer(peer=peer, deadline=120, sink="hfiles")
    assert loaded.state == "success", loaded.reports
    assert source.compare(table, peer_cluster, families=["f"]).same
    assert peer_cluster.scan_all(table, ["l"]) == []
    report = loaded.reports[peer]
    assert ([group["sink"] for group in report["groups"]], report["not_loaded"]) == (["hfiles"], [])
    assert (report["totals"]["shippedOps"], report["totals"]["shippedCells"]) == (1000, 1000)
    assert "Loaded as files, to their ends: 1 of 1 WAL groups" in logged()

    unfit = unique("unfit")
    for client in (source, peer_cluster):
        client.create_table(unfit, {"f": GLOBAL})
    peer_cluster.alter_family(unfit, "f", {"NEW_VERSION_BEHAVIOR": "true"})
    for written in (table, unfit):
        source.put_many(written, 200, ["f:a"], first=1000)
    mixed = replicate_peer(peer=peer, deadline=120, sink="hfiles")
    assert mixed.state == "success", mixed.reports
    for written in (table, unfit):
        assert source.compare(written, peer_cluster, families=["f"]).same
    (why,) = mixed.reports[peer]["not_loaded"]
    assert (
        f"the edits of table {unfit} go by requests: family f has NEW_VERSION_BEHAVIOR" in why
    )  # in addition to other tests' tables
    assert mixed.reports[peer]["totals"]["shippedOps"] == 400
    assert f"Not all was loaded as files: {why}" in logged()


def test_the_files_of_a_second_peer_are_made_by_the_first_one_s_job(
    replicate_peer, source, peer_cluster, peer, managed_peer, standalone_pair, table, monkeypatch
):
    """Both lead to one cluster here, which therefore gets each file twice."""
    second = managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)
    with open_session(from_env()) as session:
        set_values(PeerAdmin(session), second, {"hfiles.with": peer})
    assert replicate_peer(deadline=120).state == "success"  # the first one's queue began earlier
    source.put_many(table, 1000, ["f:a", "l:b"], batch=10)
    jobs, submit = [], WalferrySubmitHook.submit
    monkeypatch.setattr(
        WalferrySubmitHook, "submit", lambda hook, *args, **kwargs: jobs.append(hook) or submit(hook, *args, **kwargs)
    )
    ended = replicate_peer(deadline=120, sink="hfiles")
    assert ended.state == "success", ended.reports
    for each in (peer, second):
        assert (ended.tasks["peer.ship", each], sinks_of(ended, each)) == ("success", {"hfiles"})
        assert ended.reports[each]["totals"]["shippedCells"] == 1000
    assert len(jobs) == 1
    assert [ended.reports[each]["shipped_by"] for each in (peer, second)] == ["", peer]
    assert source.compare(table, peer_cluster, families=["f"]).same


def test_a_serial_peer_gets_the_edits_of_a_region_before_those_of_the_regions_that_it_was_split_into(
    replicate_peer, source, peer_cluster, standalone_pair, table, unique
):
    peer, address = unique("peer"), standalone_pair.source.address
    source.roll_wals()
    source.add_peer(
        peer, standalone_pair.peer_cluster.address.cluster_key, enabled=False, configuration={"walferry.managed": "true"},
        table_families={table: ["f"]}, serial=True,
    )  # fmt: skip
    source.put_many(table, 300, ["f:a", "l:b"])
    (parent,) = source.regions(table)
    source.split_region(parent.encoded_name, b"8")
    daughters = [region.encoded_name for region in source.regions(table)]
    source.put_many(table, 300, ["f:a"], value_bytes=30)
    ended = replicate_peer(peer=peer, deadline=120, sink="auto")
    assert ended.state == "success", ended.reports
    assert source.compare(table, peer_cluster, families=["f"]).same
    assert {group["status"] for group in ended.reports[peer]["groups"]} == {"done"}
    with connected(address.quorum) as zk:
        nodes = ZNodes(address.znode_parent)
        ids = [read(zk, nodes.last_pushed_id(region, peer)) for region in (parent.encoded_name, *daughters)]
    assert len(daughters) == 2
    assert None not in ids
    source.remove_peer(peer)


def test_a_table_that_the_peer_cluster_lacks_fails_the_run_and_the_next_one_ships_it(
    replicate_peer, source, peer_cluster, peer, table
):
    peer_cluster.drop_table(table)
    source.put_many(table, 10, ["f:a"])
    failed = replicate_peer(peer=peer, deadline=60)
    assert failed.state == "failed"
    (reason,) = failed.reports[peer]["failures"]
    assert f"table {table} does not exist" in reason
    assert failed.tries["peer.ship", peer] == 1  # trying again at once would not make the table
    peer_cluster.create_table(table, {"f": GLOBAL, "l": LOCAL})
    assert replicate_peer(peer=peer, deadline=60).state == "success"
    assert source.compare(table, peer_cluster, families=["f"]).same


def test_a_peer_that_is_not_walferry_s_is_left_alone(replicate_peer, source, standalone_pair, unique):
    stranger = unique("stranger")
    source.add_peer(stranger, standalone_pair.peer_cluster.address.cluster_key, enabled=False)
    try:
        ended = replicate_peer(peer=stranger)
        assert ended.state == "failed"
        assert "no walferry.managed=true" in ended.reports[stranger]["failures"][0]
        assert ended.tasks["peer.plan", stranger] == "failed"
        everyone = replicate_peer()
        assert stranger not in everyone.reports
    finally:
        source.remove_peer(stranger)


def test_a_peer_cluster_that_is_away_fails_its_batch_without_a_job_and_the_lag_is_in_the_report(
    replicate_peer, source, peer_cluster, table, standalone_pair, unique
):
    away = unique("away")
    with proxied_peer_cluster(standalone_pair.peer_cluster.address) as proxied:
        source.add_managed_peer(away, proxied.cluster_key)
        try:
            source.put_many(table, 10, ["f:a"])
            proxied.zookeeper.cut()
            proxied.sink.cut()
            began = time.monotonic()
            failed = replicate_peer(peer=away, deadline=600)
            seconds = time.monotonic() - began
        finally:
            source.remove_peer(away)
    assert failed.state == "failed"
    assert (failed.tasks["peer.ship", away], failed.tries["peer.ship", away]) == ("failed", 1)
    (reason,) = failed.reports[away]["failures"]
    assert f"peer {away}: no job is started, as its peer cluster is down: " in reason
    totals = failed.reports[away]["totals"]
    assert (totals["shippedOps"], failed.reports[away]["groups"]) == (0, [])
    assert 0 < totals["replicationLag"] < 300_000
    assert totals["bytesToShip"] > 0
    assert seconds < 120
