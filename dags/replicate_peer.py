"""Ship the queued WALs of a source cluster's managed peers, in micro-batches.

`roll` makes the RegionServers that may have written edits for a peer begin new WALs, once for all peers. Then, for each peer,
`plan` lists the closed WALs, `ship` is the Spark job, and `report` says what was shipped and fails if anything was not. A managed
peer is DISABLED and has `walferry.managed=true` in its configuration; no other peer is touched.

Runs overlap, so a peer cluster that is down, or a peer with a large backlog, does not delay other peers. If another run holds a
peer, a run skips its own `ship` and leaves the peer to the other run. If a peer cluster is down, its peer's `ship` fails at once,
and the next run tries again.

Every task may be cleared, retried or killed at any time: the only state is in ZooKeeper, where a position never passes an edit
that the peer cluster has not acknowledged.

The DAG cannot be backfilled: a WAL is shipped once, from its position on, whatever the date of the run. To ship the queued WALs
now, trigger a run. To ship the edits of a past interval again, backfill the DAG `replay_interval`.
"""

from __future__ import annotations

from airflow.sdk import Param, task_group

from walferry.airflow.operators.ship_wals import SHIP_PARAMS
from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.batch import GROUP, batch_of, peers, roll
from walferry.airflow.tasks.common import peer_param

PARAMS = {
    "peer": peer_param("Id of one peer; empty for all peers that are managed by Walferry."),
    "roll": Param(
        True,
        type="boolean",
        title="Roll WALs first",
        description="Have the RegionServers that may have written something for a peer begin new WALs, so that all edits written "
        "until now are shipped. Without it only WALs that HBase has rolled itself are.",
    ),
    "deadline": Param(
        1800,
        type="integer",
        minimum=10,
        maximum=86400,
        title="Deadline",
        description="Seconds from the Spark job's start after which it stops reading and retrying; a call that the peer cluster "
        "is at work on may still end. The rest stays queued for the next batch.",
    ),
    **SHIP_PARAMS,
}


@dag_of_each_source(
    schedule="*/5 * * * *",
    max_active_runs=32,  # each run but the newest holds at least one peer lock
    max_active_tasks=128,  # of a run: the peers share no places
    description="Ship the queued WALs of a cluster's managed HBase replication peers",
    params=PARAMS,
    minutes=10,
    doc_md=__doc__,
)
def replicate_peer(conn_id: str) -> None:
    chosen = peers()
    roll(chosen) >> task_group(group_id=GROUP)(batch_of).expand(peer=chosen)
