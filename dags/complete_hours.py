"""Tell DAGs that wait for replicated data that peer clusters have an hour complete.

Every 5 minutes `announce` finds the time up to which each managed peer's cluster has all edits of the source, those of dead
servers among them. For each hour that has become complete, it emits an event for each table that the peer gets: of the
asset `hbase://<peer>.<source's connection>/<namespace>:<table>`, with the hour as its partition. So a DAG with

    schedule=PartitionedAssetTimetable(assets=Asset("hbase://PEER.SOURCE/default:orders"))

runs once for each hour of the table `orders`, as soon as the cluster of that peer has it.

The DAG changes nothing in the clusters. If a run is killed, the next run announces its hours again. docs/complete-hours.md says
what "complete" means.
"""

from __future__ import annotations

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.complete_hours import announce


@dag_of_each_source(
    schedule="*/5 * * * *",
    max_active_runs=1,
    description="Announce hours that peer clusters of an HBase cluster have complete",
    params={},
    minutes=5,
    retries=0,  # the next run is the next try
    doc_md=__doc__,
)
def complete_hours(conn_id: str) -> None:
    announce()
