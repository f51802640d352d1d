"""Copy the source's existing data to the cluster of a new managed peer, then ship the peer's queue.

Create the peer first (`walferry peers create … --allow-missing`): from then on the source's RegionServers queue new edits.
`check` lists the tables to copy, and refuses a table that is not empty at the peer cluster. `copy` is the Spark job. It takes a
snapshot of each table, makes the table at the peer cluster with the same families and region borders, copies the regions' files
to the peer cluster's file system and has its RegionServers load them. It scans regions that cannot be copied as files. `ship` is
a run of replicate_peer; before the copy is complete, no run ships the queue. `clean_up` deletes snapshots that a killed job has
left.

Every task may be cleared, retried or killed at any time: ZooKeeper keeps a note of each copied region, and the next job goes on
with the others. A new run goes on, too. If you give up a table in the middle, trigger a run that names the others.
"""

from __future__ import annotations

from airflow.sdk import Param

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.common import one_peer_param
from walferry.airflow.tasks.initial_snapshot import initial_snapshot_tasks

PARAMS = {
    "peer": one_peer_param(),
    "tables": Param(
        None,
        type=["null", "array"],
        items={"type": "string"},
        title="Tables",
        description="Tables to copy, as [namespace:]table, one a line; empty for all that the peer replicates.",
    ),
    "allow_not_empty": Param(
        False,
        type="boolean",
        title="Copy into tables with rows",
        description="Otherwise a table that has rows at the peer cluster is refused.",
    ),
}


@dag_of_each_source(
    schedule=None,
    max_active_runs=4,
    description="Copy the tables of a new HBase replication peer to its cluster, then ship its queue",
    params=PARAMS,
    minutes=10,
    doc_md=__doc__,
)
def initial_snapshot(conn_id: str) -> None:
    initial_snapshot_tasks(conn_id)
