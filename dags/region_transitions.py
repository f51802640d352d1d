"""List regions of a cluster of HBase 1 that are in transition or not served, and bring them to the end of their transitions.

`report` lists each region that is in transition, that no server serves, or that two servers serve. For each region it shows the
state and since when, the server, who must act next, and the next step. `act` takes that step if `dry_run` is off. Without an
active HMaster the run acts as the cluster's master, and an HMaster that starts then waits until the run ends. Next to an active
HMaster the run only gives up opens that the HMaster waits for in vain. `check` fails if a region needs an operator.

A region that two servers serve is only reported: `walferry regions close-copy` closes one copy.
"""

from __future__ import annotations

from airflow.sdk import Param

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.regions import ROLE_PARAMS, act, check, report


@dag_of_each_source(
    schedule="*/15 * * * *",
    max_active_runs=1,
    description="List regions in transition of an HBase 1 cluster, and bring them to their end",
    params={"dry_run": Param(True, type="boolean", title="Dry run", description="Only say what would be done."), **ROLE_PARAMS},
    minutes=660,
    about="regions",
    doc_md=__doc__,
)
def region_transitions(conn_id: str) -> None:
    check(act(report()))  # type: ignore[arg-type]
