"""Hand a managed peer back to HBase, which then ships by a new peer with the same peer cluster and the same tables.

A managed peer must never be enabled again, as its RegionServers remember WALs that are gone from its queues. `preview` says what
the run would do, and a person approves it. `begin` adds the new peer, DISABLED: it collects edits from then on. `ship` is a run
of replicate_peer, which ships what is queued for the managed peer alone. `finish` removes the managed peer, and enables the new
one: HBase ships. The two peers never ship at the same time.

A killed or failed run goes on if its failed task is cleared with the tasks after it. If `finish` was killed after it had removed
the peer, clear `finish` alone. It waits for an hour for other runs that ship the peer, and for batches that ship what is left. To
give a hand-back up before `finish`, remove the new peer in HBase's shell.
"""

from __future__ import annotations

from airflow.sdk import Param

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.common import one_peer_param
from walferry.airflow.tasks.handing_back import hand_back_tasks

PARAMS = {
    "peer": one_peer_param(),
    "new_peer": Param(
        None,
        type=["null", "string"],
        pattern=r"^[^-/\s]+$",
        maxLength=200,
        title="New peer",
        description="Id of the peer by which HBase is to ship. It must not exist yet.",
    ),
}


@dag_of_each_source(
    schedule=None,
    max_active_runs=4,
    description="Hand a managed peer back to HBase's own replication",
    params=PARAMS,
    minutes=10,
    doc_md=__doc__,
)
def hand_back_peer(conn_id: str) -> None:
    hand_back_tasks(conn_id)
