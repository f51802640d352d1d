"""Example: a pipeline of your own that goes on whenever a peer cluster has got new edits.

Copy this file to your own DAGs, and change `PEER` and the last task. The sensor waits in Airflow's triggerer, on ZooKeeper's
watches, until closed WALs are queued for the peer that it has not announced before. ZooKeeper keeps what it has announced, so it
misses no WAL that is closed between two runs. Then `ship` has the DAG replicate_peer ship them, and waits for its run. That DAG
must not be paused. If another run ships the peer meanwhile, the run leaves the peer to it.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import dag, task

from walferry.airflow.sensors.new_wals import NewWalsSensor

PEER = "2"


@dag(schedule="@continuous", max_active_runs=1, tags=["hbase", "example"], doc_md=__doc__)
def follow_peer() -> None:
    new = NewWalsSensor(task_id="wait_for_new_wals", peer=PEER, timeout=3600, soft_fail=True)
    ship = TriggerDagRunOperator(
        task_id="ship",
        trigger_dag_id="replicate_peer",
        conf={"peer": PEER, "roll": False},
        wait_for_completion=True,
        poke_interval=5,
        deferrable=True,
    )

    @task
    def go_on(found: dict[str, Any]) -> int:
        """Do here what depends on the peer cluster's new edits."""
        print(f"peer {found['peer']} has got the edits of {found['wals']} more WALs")
        return int(found["wals"])

    new >> ship >> go_on(new.output)  # type: ignore[arg-type]


follow_peer()
