"""The DAG verify_peer, run by Airflow, over two real HBase clusters, with a real Spark job."""

from __future__ import annotations

import pytest

from embedded.client import GLOBAL, LOCAL
from embedded.wire import delete_row, put
from walferry.airflow.operators.approval import NO, YES
from walferry.airflow.tasks import verification

from .people import person


@pytest.fixture
def clients(standalone_pair, java_client, monkeypatch) -> tuple:
    address = standalone_pair.source.address
    extra = f'{{"wal_root": "{address.wal_root}", "znode_parent": "{address.znode_parent}"}}'
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", f'{{"conn_type": "generic", "host": "{address.quorum}", "extra": {extra}}}')
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    return java_client(address), java_client(standalone_pair.peer_cluster.address)


@pytest.mark.capability("a verification with repair")
def test_differences_are_reported_and_then_repaired(run_dag, clients, standalone_pair, managed_peer, unique, logged):
    source, peer_cluster = clients
    peer = managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)
    table, equal = unique("t"), unique("t")
    for client in clients:
        client.create_table(equal, {"f": GLOBAL})
        client.create_table(table, {"f": GLOBAL, "l": LOCAL}, [b"row050"])
        client.write(table, [put(f"row{i:03}", {"f:a": b"v"}, timestamp=1) for i in range(100)])
    peer_cluster.write(table, [delete_row("row010", timestamp=1), put("row<{{ 1 }}>", {"f:a": b"v"}, timestamp=1)])

    differing = run_dag("verify_peer", peer=peer, tables=[table])
    report = differing.reports[peer]
    assert differing.state == "failed"
    assert differing.tasks["peer.compare", peer] == "success"
    assert report["failures"] == [f"table {table}: 2 rows differ"]
    assert (report["totals"]["GOODROWS"], report["totals"]["BADROWS"]) == (99, 2)
    assert {(s["kind"], s["row"]) for s in report["samples"]} == {
        ("ONLY_IN_SOURCE_TABLE_ROWS", "row010"), ("ONLY_IN_PEER_TABLE_ROWS", "row\\x3C{{ 1 }}\\x3E"),
    }  # fmt: skip
    assert {side: len(found) for side, found in report["clocks"].items()} == {"source": 1, "peer_cluster": 1}
    assert abs(report["peer_cluster_ahead_ms"]) < 1000

    peer_cluster.write(table, [delete_row("row<{{ 1 }}>")])
    with person(YES) as asked:
        repaired = run_dag("verify_peer", peer=peer, tables=[table], repair=True, start_row="row0", stop_row="row\\x31")
    (question,) = asked
    assert question.subject == f"Ship rows of 1 table again to the cluster of peer {peer}?"
    cluster, first, sample = question.body.splitlines()
    assert cluster == f"    peer cluster: {standalone_pair.peer_cluster.address.cluster_key}"
    assert first == f"    table {table}: 1 row missing and 0 rows different at the peer cluster, shipped again"
    assert sample.startswith(f"    ONLY_IN_SOURCE_TABLE_ROWS {table} row010: ")
    # The peer cluster's own delete marker hides the cells that are shipped again.
    assert repaired.state == "failed"
    assert repaired.reports[peer]["totals"]["repaired"] == 0
    source.write(table, [put("row010", {"f:a": b"newer"})])
    with person(NO):
        rejected = run_dag("verify_peer", peer=peer, tables=[table], repair=True)
    assert rejected.tasks["peer.repair", peer] == "skipped"
    assert "Nothing is repaired: ola has rejected it." in logged()
    assert rejected.reports[peer]["totals"]["BADROWS"] == 1
    with person(YES):
        repaired = run_dag("verify_peer", peer=peer, tables=[table, equal], repair=True)
    assert repaired.state == "success", repaired.reports
    assert repaired.reports[peer]["totals"]["repaired"] == 1
    assert {each["table"] for each in repaired.reports[peer]["tables"]} == {table, equal}


def test_a_yes_counts_for_the_newest_comparison_and_for_the_cluster_that_was_shown(
    run_dag, clear, clients, standalone_pair, managed_peer, unique, logged, monkeypatch
):
    source, peer_cluster = clients
    peer = managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)
    table = unique("t")
    for client in clients:
        client.create_table(table, {"f": GLOBAL})
    source.write(table, [put("r", {"f:a": b"v"}, timestamp=1)])
    with monkeypatch.context() as patch, person(YES):
        patch.setattr(verification, "_tables_of", lambda *_: 1 / 0)
        first = run_dag("verify_peer", peer=peer, tables=[table], repair=True)
    assert first.tasks["peer.repair", peer] == "failed"
    assert "repair is failed" in first.reports[peer]["failures"][0]

    with monkeypatch.context() as patch:
        patch.setattr(verification, "identity_of", lambda source: "another source")
        assert clear("verify_peer", first, "peer.repair").tasks["peer.repair", peer] == "failed"
    assert "leads to another cluster than was approved" in logged()

    newer = run_dag("verify_peer", peer=peer, tables=[table])
    assert newer.reports[peer]["totals"]["BADROWS"] == 1
    assert clear("verify_peer", first, "peer.repair").tasks["peer.repair", peer] == "failed"
    assert f"another run has compared peer {peer} since this one did" in logged()
    assert peer_cluster.count_rows(table) == 0


def test_a_table_that_the_peer_cluster_lacks_is_named_and_others_are_compared(
    run_dag, clients, standalone_pair, managed_peer, unique
):
    source, peer_cluster = clients
    peer, there, lacking = (
        managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address),
        unique("t"),
        unique("t"),
    )
    for client, tables in ((source, (there, lacking)), (peer_cluster, (there,))):
        for table in tables:
            client.create_table(table, {"f": GLOBAL})
    source.write(there, [put("r", {"f:a": b"v"}, timestamp=1)])
    peer_cluster.write(there, [put("r", {"f:a": b"v"}, timestamp=1)])
    failed = run_dag("verify_peer", peer=peer, tables=[there, lacking])
    assert failed.state == "failed"
    (reason,) = failed.reports[peer]["failures"]
    assert lacking in reason
    assert "does not exist on" in reason
    assert failed.reports[peer]["totals"]["GOODROWS"] == 1
