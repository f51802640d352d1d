"""Drain recovered queues by hand: claimed by HBase, unclaimed, or of a peer that is gone.

If a queue is unclaimed, the run first claims it together with all other queues that its dead server has left of managed peers.
Otherwise HBase might claim it in the middle of the drain. A queue whose peer is gone cannot be shipped: the run reports it, and
deletes it only if you ask for that and a person approves it. A dry run says for each WAL what would be shipped. It claims, ships
and deletes nothing.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from walferry.airflow.forms.choices import peers_of, proposed
from walferry.airflow.operators.ship_wals import SHIP_PARAMS
from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.recovery import DEADLINE, approve_deletion, gone_peers, recover, select


def params(conn_id: str) -> dict[str, Any]:
    """Return the form's parameters, with what is to be proposed for the source."""
    queues = proposed(conn_id)
    return {
        "peer": Param(
            None,
            type=["null", "string"],
            maxLength=200,
            examples=peers_of(queues),
            title="Peer",
            description="Id of the peer whose recovered queues are drained; empty: the peer of the queue below, or all peers.",
        ),
        "queue": Param(
            None,
            type=["null", "string"],
            maxLength=2000,
            examples=queues,
            title="Queue",
            description="One recovered queue, as server/queue id, as under replication/rs; empty for all queues of the peer. The "
            "proposals are the queues that the last run saw.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only say what would be claimed, shipped and deleted, WAL by WAL, in the log of the task select.",
        ),
        "delete_orphan": Param(
            False,
            type="boolean",
            title="Delete queues of peers that are gone",
            description="Their unshipped edits will never be replicated. Name a peer or a queue, too. The run shows the "
            "queues as a required action, and deletes them once a person has approved that.",
        ),
        "deadline": DEADLINE,
        **SHIP_PARAMS,
    }


@dag_of_each_source(
    schedule=None,
    max_active_runs=4,
    max_active_tasks=128,  # of a run: the peers share no places
    description="Drain recovered replication queues by hand",
    params=params,
    minutes=30,
    doc_md=__doc__,
)
def drain_recovered_queue(conn_id: str) -> None:
    servers = select()
    gone = gone_peers(approve_deletion(servers))  # type: ignore[arg-type]
    recover("select", servers=servers, also=gone)
