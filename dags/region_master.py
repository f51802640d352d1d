"""Keep the master's role of a cluster of HBase 1 that has no HMaster.

While an HMaster is active the run waits, without a worker. Once the cluster has had no master for `patience` seconds, the run
acts as its master: when a RegionServer dies, it has the WALs split and opens the regions elsewhere; it brings transitions that
have come to a halt to their end, balances, and lets HBase's clients enable and disable tables. If an HMaster is started, the run
gives it the role at once, and waits again. The run ends only if it is killed or fails, and the next one goes on from ZooKeeper.

This runs by itself only for the sources that the option `region_masters` in section `[walferry]` of Airflow's configuration
names; for others a run may be triggered by hand. RegionServers and clients must reach the worker under `host` and `port`, whose
defaults are in the option `region_master_address`.
"""

from __future__ import annotations

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.region_master import RegionMasterOperator, kept_for, kept_params

TRIES = 10_000  # the run has to outlive workers


@dag_of_each_source(
    schedule=kept_for,
    max_active_runs=1,
    description="Keep the master's role of an HBase 1 cluster that has no HMaster",
    params=kept_params,
    minutes=1,
    retries=TRIES,
    about="regions",
    doc_md=__doc__,
)
def region_master(conn_id: str) -> None:
    RegionMasterOperator(task_id="keep", execution_timeout=None)
