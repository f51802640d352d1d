"""The DAG initial_snapshot, run by Airflow, from one real HBase to another, with a real Spark job."""

from __future__ import annotations

from typing import Any

import pytest

from embedded.client import GLOBAL, LOCAL, even_splits
from walferry.airflow.operators.run_batch import RunBatchOperator
from walferry.load.copy_records import Records
from walferry.load.fence import Claim
from walferry.replication.locks.peer_lock import NO_TURN, holding_peer
from walferry.replication.source.connection import from_env
from walferry.replication.source.peer_state import disabled_guard
from walferry.replication.source.session import open_session

from .test_replicate_peer_on_clusters import peer, peer_cluster, source

__all__ = ["peer", "peer_cluster", "source"]  # fixtures


@pytest.fixture
def shipped(monkeypatch) -> list[dict[str, Any]]:
    """The parameters of started runs of replicate_peer: without a scheduler these runs would never begin."""
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(RunBatchOperator, "execute", lambda self, context: started.append(dict(self.conf)))
    return started


@pytest.mark.capability("an initial snapshot")
def test_the_queue_waits_for_the_copy_and_is_shipped_after_it(
    run_dag, replicate_peer, source, peer_cluster, peer, unique, shipped
):
    table = unique("t")
    source.create_table(table, {"f": GLOBAL, "l": LOCAL}, even_splits(3))
    source.put_many(table, 1000, ["f:a", "l:b"])
    killed = "a run that was killed"
    with open_session(from_env()) as session, holding_peer(from_env(), peer, killed, killed, NO_TURN) as attempt:
        Records(session, peer, Claim(session, peer, attempt, disabled_guard(session, peer).version)).begin(killed)
    waiting = replicate_peer(peer=peer, deadline=60)
    assert waiting.tasks["peer.ship", peer] == "skipped"
    assert "initial snapshot, begun by run a run that was killed, is not complete" in waiting.reports[peer]["left_to"]

    run = run_dag("initial_snapshot", peer=peer, tables=[table])
    assert run.state == "success", run.tasks
    assert shipped == [{"peer": peer, "source_conn_id": "hbase_source"}]
    assert {name: run.report[name] for name in ("complete", "tables", "regions", "by_scan")} == {
        "complete": True, "tables": [table], "regions": 3, "by_scan": [],
    }  # fmt: skip
    assert source.compare(table, peer_cluster, families=["f"]).same
    assert replicate_peer(peer=peer, deadline=120).state == "success"
    assert source.compare(table, peer_cluster, families=["f"]).same

    refused = run_dag("initial_snapshot", peer=peer, tables=[table])
    assert (refused.state, refused.tasks["check", None]) == ("failed", "failed")
    assert len(shipped) == 1


def test_a_run_without_a_peer_is_refused(run_dag, source, shipped):
    assert run_dag("initial_snapshot").state == "failed"
    assert not shipped
