"""The DAG hand_back_peer, run by Airflow, on two real clusters: HBase ships what is written afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded.client import JavaClient
from tests.cluster.walferry_runs import ship, source_of
from walferry.admin.peers import peer_admin
from walferry.airflow.operators.approval import YES
from walferry.airflow.operators.run_batch import RunBatchOperator

from .conftest import Run
from .people import person
from .test_replicate_peer_on_clusters import peer, peer_cluster, source, table
from .znodes_cluster import until

__all__ = ["peer", "peer_cluster", "source", "table"]  # fixtures


@pytest.mark.capability("a hand-back to HBase by Airflow")
def test_hbase_ships_what_is_written_after_the_hand_back(
    run_dag: Callable[..., Run], source: JavaClient, peer_cluster: JavaClient, peer: str, table: str, standalone_pair,
    unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Without a scheduler no run of replicate_peer would begin, so a batch is run without Airflow."""
    at, new = source_of(standalone_pair.source.address), unique("n")
    monkeypatch.setattr(RunBatchOperator, "execute", lambda self, context: ship(at, self.conf["peer"]) and None)
    source.put_many(table, 100, ["f:a"])
    with person(YES):
        ended = run_dag("hand_back_peer", peer=peer, new_peer=new)
    assert ended.state == "success", ended.tasks
    try:
        assert source.compare(table, peer_cluster, families=["f"]).same
        source.put_many(table, 100, ["f:a"], first=100)
        until(lambda: peer_cluster.count_rows(table) == 200, "HBase ships")
    finally:
        with peer_admin(at) as admin:
            assert admin.find(peer) is None
            admin.delete(new)
