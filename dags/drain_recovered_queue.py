"""Drain recovered queues by hand: those that HBase claimed, those that nobody did, and what is left of peers that are gone.

A queue of a dead server that nobody has claimed is claimed first, with all that this server has left of managed peers: else HBase
may claim it in the middle of the drain. A queue whose peer is gone can be shipped nowhere: it is reported, and deleted only if
that is asked for. A dry run says of each WAL what would be shipped, and claims, ships and deletes nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Param, dag, get_current_context

from walferry.airflow.forms.choices import proposed, proposed_peers
from walferry.airflow.forms.run_checks import RUN_TYPES, check_run
from walferry.airflow.literal import task
from walferry.airflow.operators.ship_wals import BROKEN_WALS
from walferry.airflow.tasks.common import SOURCE, default_args, source, telling
from walferry.airflow.tasks.recovery import DEADLINE, recover

MAX_NOTES = 200  # lines of select that the report tells too


@dag(
    schedule=None,
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=4,
    allowed_run_types=RUN_TYPES,
    description="Drain recovered replication queues by hand",
    params={
        "source_conn_id": SOURCE,
        "peer": Param(
            None,
            type=["null", "string"],
            maxLength=200,
            examples=proposed_peers(),
            title="Peer",
            description="Id of the peer whose recovered queues are drained; empty: the peer of the queue below, or all peers.",
        ),
        "queue": Param(
            None,
            type=["null", "string"],
            maxLength=2000,
            examples=proposed(),
            title="Queue",
            description="One recovered queue, as server/queue id, where the server is the one under which it lies; empty for all "
            "of the peer. Those proposed were there when a run looked last.",
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
            description="Their edits were never shipped, and are lost for replication then. Name a peer or a queue with it.",
        ),
        "deadline": DEADLINE,
        "broken_wals": BROKEN_WALS,
    },
    default_args=default_args(minutes=30),
    doc_md=__doc__,
    tags=["hbase", "replication"],
)
def drain_recovered_queue() -> None:
    @task
    def select() -> list[dict[str, Any]]:
        """The queues to drain; in a dry run none, and what would be done with them is told."""
        from walferry.airflow.steps import recovery

        context = get_current_context()
        params, ti = context["params"], context["ti"]
        with telling("select"):
            check_run(context)
            selected = recovery.select(source(), params["peer"] or "", params["queue"] or "", params["delete_orphan"])
            notes = recovery.preview(source(), selected, params["delete_orphan"]) if params["dry_run"] else selected.notes
        print("\n".join(notes))
        ti.xcom_push("notes", notes[:MAX_NOTES])
        ti.xcom_push("orphans", [] if params["dry_run"] else selected.orphans)
        recovery.propose(source(), params["source_conn_id"])
        return [] if params["dry_run"] else selected.queues

    @task
    def servers(queues: list[dict[str, Any]]) -> list[str]:
        """The dead servers under which queues lie that nobody has claimed."""
        from walferry.airflow.steps import recovery

        return recovery.servers_to_claim(queues)

    @task
    def gone_peers(queues: list[dict[str, Any]]) -> list[str]:
        """Report the queues whose peer is gone, or delete them."""
        from walferry.airflow.steps import batch, recovery

        context = get_current_context()
        ti = context["ti"]
        orphans = ti.xcom_pull(task_ids="select", key="orphans") or []
        lines = recovery.deal_with_orphans(source(), orphans, context["params"]["delete_orphan"], batch.run_of(ti))
        print("\n".join(lines) or "There are none.")
        return lines

    queues = select()
    recover("select", servers=servers(queues), queues=queues, also=gone_peers(queues))


drain_recovered_queue()
