"""Ship the queued WALs of a source cluster's managed peers, in micro-batches.

A run begins when the asset's watcher sees something to do: closed WALs are queued for a managed peer, or RegionServers are to
begin new WALs, as some may have written edits for a peer. They do that at most once in half the smallest `max_lag` of the peers.
Such a run ships the peers that were announced. Another run begins in each period of `replicate_schedule`, for all peers, and
ships what no event has announced.

`roll` makes the RegionServers that may have written edits for a peer begin new WALs, once for all peers. Then, for each peer,
`plan` lists the closed WALs, `ship` is the Spark job, and `report` says what was shipped and fails if anything was not. A managed
peer is DISABLED and has `walferry.managed=true` in its configuration; no other peer is touched.

Runs overlap, so a peer cluster that is down, or a peer with a large backlog, does not delay other peers. If another run holds a
peer, a run skips its own `ship` and leaves the peer to the other run. If a peer cluster is down, its peer's `ship` fails at once,
and later runs try again.

Every task may be cleared, retried or killed at any time: the only state is in ZooKeeper, where a position never passes an edit
that the peer cluster has not acknowledged.

The DAG cannot be backfilled: a WAL is shipped once, from its position on, whatever the date of the run. To ship the queued WALs
now, trigger a run. To ship the edits of a past interval again, backfill the DAG `replay_interval`.
"""

from __future__ import annotations

from airflow.sdk import Asset, AssetOrTimeSchedule, AssetWatcher, CronTriggerTimetable, Param, task_group

from walferry.airflow.operators.ship_wals import SHIP_PARAMS
from walferry.airflow.options import option
from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.sources import of_source, own_name
from walferry.airflow.tasks.batch import GROUP, batch_of, peers, roll
from walferry.airflow.tasks.common import peer_param
from walferry.airflow.triggers.closed_wals import ClosedWalsEventTrigger

PARAMS = {
    "peer": peer_param("Id of one peer; empty for all peers that are managed by Walferry."),
    "roll": Param(
        True,
        type="boolean",
        title="Roll WALs first",
        description="Have the RegionServers that may have written something for a peer begin new WALs, so that all edits written "
        "until now are shipped. Without it only closed WALs are. A run that closed WALs have begun does not roll.",
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


def when_due(conn_id: str) -> AssetOrTimeSchedule:
    """Return the schedule of a source's DAG: its watcher's events, and a period."""
    watcher = AssetWatcher(name=conn_id, trigger=ClosedWalsEventTrigger(conn_id))
    return AssetOrTimeSchedule(
        assets=[Asset(own_name("hbase-closed-wals", conn_id), watchers=[watcher])],
        timetable=CronTriggerTimetable(of_source(option("replicate_schedule"), conn_id), timezone="UTC"),
    )


@dag_of_each_source(
    schedule=when_due,
    max_active_runs=32,  # each run but the newest holds at least one peer lock
    max_active_tasks=128,  # of a run: the peers share no places
    description="Ship the queued WALs of a cluster's managed HBase replication peers",
    params=PARAMS,
    minutes=10,
    doc_md=__doc__,
)
def replicate_peer(conn_id: str) -> None:
    chosen = peers()
    chosen >> roll() >> task_group(group_id=GROUP)(batch_of).expand(peer=chosen)
