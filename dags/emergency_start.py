"""Start a cluster of HBase 1 whose HMaster does not start.

The run acts as the cluster's master. It opens no region until each live RegionServer has said which regions it serves, and until
the WALs of all dead RegionServers are split; it begins the splitting. Then it clears the regions in transition, opens hbase:meta,
and after that all other regions of enabled tables. At the end it gives the role back, so that an HMaster can take over.

It refuses to run next to an active HMaster. Before it does anything, it shows what it finds and would do, as a required action,
and waits until a person approves that. RegionServers must reach the worker under `host` and `port`.
"""

from __future__ import annotations

from airflow.sdk import Param

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.regions import ROLE_PARAMS, approve_start, check, preview, report, start


@dag_of_each_source(
    schedule=None,
    max_active_runs=4,
    description="Start an HBase 1 cluster whose HMaster does not start",
    params={
        "min_servers": Param(
            1,
            type="integer",
            minimum=1,
            maximum=100_000,
            title="RegionServers to wait for",
            description="No region is assigned before so many RegionServers are there.",
        ),
        **ROLE_PARAMS,
    },
    minutes=660,
    about="regions",
    doc_md=__doc__,
)
def emergency_start(conn_id: str) -> None:
    after = report()
    start(approve_start(preview())) >> after  # type: ignore[arg-type]
    check(after)  # type: ignore[arg-type]
