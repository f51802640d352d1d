"""The DAGs of peers whose edits go into a lake or to Kafka, through spark-submit and through Spark Connect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from demo.lake import CATALOG, settings
from embedded.client import GLOBAL, JavaClient
from embedded.hbase import ClusterAddress
from embedded.kafka import Kafka
from embedded.spark_connect import ConnectServer
from embedded.wire import delete_row, put
from tests.cluster.streams import avro_events, make_topics
from tests.unit.replication.sinks.iceberg.lake import rows_of
from walferry.admin.creating import create, to_kafka, to_lake
from walferry.admin.peers import peer_admin
from walferry.airflow.operators.run_batch import RunBatchOperator
from walferry.replication.source.connection import from_env
from walferry.shipping.lake.catalog import open_catalog

from .conftest import Run


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    for name, value in settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    return open_catalog(CATALOG)


@pytest.fixture
def source(
    standalone_pair: Any, java_client: Callable[[ClusterAddress], JavaClient], monkeypatch: pytest.MonkeyPatch
) -> JavaClient:
    address = standalone_pair.source.address
    extra = {"wal_root": address.wal_root, "znode_parent": address.znode_parent}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps({"conn_type": "generic", "host": address.quorum, "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    return java_client(address)


@pytest.fixture
def table(source: JavaClient, unique: Callable[[str], str]) -> Iterator[str]:
    name = unique("t")
    source.create_table(name, {"f": GLOBAL})
    yield name
    source.drop_table(name)


@pytest.fixture
def peer(source: JavaClient, table: str, catalog: Catalog, unique: Callable[[str], str]) -> Iterator[str]:
    peer = unique("peer")
    with peer_admin(from_env("hbase_source")) as admin:
        create(admin, peer, None, table_cfs={table: ()}, goes_to=to_lake(CATALOG))
    yield peer
    source.remove_peer(peer)


def rows(catalog: Catalog, table: str) -> list[bytes]:
    found = catalog.load_table(("default", f"{table}_changes")).scan(selected_fields=("row",)).to_arrow()
    return sorted(found.column("row").to_pylist())


@pytest.mark.capability("a batch into a lake")
def test_a_batch_brings_edits_into_the_lake_by_spark_submit_and_by_connect(
    replicate_peer: Callable[..., Run], source: JavaClient, peer: str, table: str, catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    source.write(table, [put(f"r{n}", {"f:q": b"v"}) for n in range(5)])
    run = replicate_peer(peer=peer, deadline=120)
    assert run.state == "success", run.reports
    totals = run.reports[peer]["totals"]
    assert (totals["shippedOps"], totals["shippedCells"]) == (5, 5)
    assert [group["sink"] for group in run.reports[peer]["groups"]] == ["iceberg"]
    assert rows(catalog, table) == [b"r%d" % n for n in range(5)]

    source.write(table, [put("r5", {"f:q": b"v"})])
    with ConnectServer(tmp_path / "connect") as connect:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", connect.connection)
        run = replicate_peer(peer=peer, deadline=120)
    assert run.state == "success", run.reports
    assert not run.reports[peer]["by_spark_submit"]
    assert rows(catalog, table) == [b"r%d" % n for n in range(6)]


@pytest.mark.capability("a first copy into a lake, and a table of state", cases=("Spark Connect",))
@pytest.mark.parametrize("through", ["spark-submit", "Spark Connect"])
def test_a_first_copy_and_the_batch_after_it_bring_each_cell_once_and_a_merge_the_state(
    run_dag: Callable[..., Run], replicate_peer: Callable[..., Run], source: JavaClient, table: str, catalog: Catalog,
    unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, through: str,
) -> None:  # fmt: skip
    started: list[Any] = []
    monkeypatch.setattr(RunBatchOperator, "execute", lambda self, context: started.append(self.conf["peer"]))
    source.write(table, [put(f"r{n}", {"f:q": b"v"}) for n in range(5)])
    source.roll_wals()
    peer = unique("peer")
    with peer_admin(from_env("hbase_source")) as admin:
        create(admin, peer, None, table_cfs={table: ()}, goes_to=to_lake(CATALOG))
    try:
        source.write(table, [put("r5", {"f:q": b"v"})])
        with ConnectServer(tmp_path / "connect") if through == "Spark Connect" else nullcontext() as connect:
            if connect is not None:
                monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", connect.connection)
            run = run_dag("initial_snapshot", peer=peer)
            assert run.state == "success", run.tasks
            source.write(table, [put("r6", {"f:q": b"v"}), put("r1", {"f:q": b"new"}), delete_row("r2")])
            assert replicate_peer(peer=peer, deadline=120).state == "success"
            merged = run_dag("merge_changes", peer=peer)
            assert merged.state == "success", merged.tasks
        assert started == [peer]
        assert {name: run.report[name] for name in ("complete", "tables", "regions", "cells")} == {
            "complete": True, "tables": [table], "regions": 1, "cells": 6,
        }  # fmt: skip
        assert rows(catalog, table) == [b"r0", b"r1", b"r1", b"r2", b"r2", b"r3", b"r4", b"r5", b"r6"]
        state = rows_of(catalog.load_table(("default", table)))
        assert sorted((each["row"], each["value"]) for each in state) == [(c.row, c.value) for c in source.scan_all(table)]
        refused = run_dag("initial_snapshot", peer=peer)
        assert refused.tasks["check", None] == "failed"
    finally:
        source.remove_peer(peer)


@pytest.mark.capability("a batch to Kafka")
def test_a_batch_brings_edits_to_kafka_by_spark_submit_and_by_connect(
    replicate_peer: Callable[..., Run], source: JavaClient, table: str, unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    peer, topic = unique("peer"), f"default.{table}"
    with Kafka(tmp_path / "kafka") as broker:
        make_topics(broker, [topic])
        with peer_admin(from_env("hbase_source")) as admin:
            create(admin, peer, None, table_cfs={table: ()}, goes_to=to_kafka(broker.servers))
        try:
            source.write(table, [put(f"r{n}", {"f:q": b"v"}) for n in range(5)])
            run = replicate_peer(peer=peer, deadline=120)
            assert run.state == "success", run.reports
            totals = run.reports[peer]["totals"]
            assert (totals["shippedOps"], totals["shippedCells"]) == (5, 5)
            assert [group["sink"] for group in run.reports[peer]["groups"]] == ["kafka"]
            source.write(table, [put("r5", {"f:q": b"v"})])
            with ConnectServer(tmp_path / "connect") as connect:
                monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", connect.connection)
                run = replicate_peer(peer=peer, deadline=120)
            assert run.state == "success", run.reports
            assert not run.reports[peer]["by_spark_submit"]
            assert sorted(event["key"] for event in avro_events(broker, topic)) == [b"r%d" % n for n in range(6)]
        finally:
            source.remove_peer(peer)
