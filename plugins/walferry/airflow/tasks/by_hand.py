"""The tasks by which people choose recovered queues: select → servers, gone_peers; then comes what all recoveries have."""

from __future__ import annotations

from typing import Any

from airflow.sdk import get_current_context

from walferry.airflow.forms import choices
from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.tasks.common import source, telling
from walferry.runs.failures import Failures
from walferry.runs.values import MAX_TEXT_CHARS, QueueRef

MAX_NOTES = 200  # lines of select that the report tells too
ORPHANS = "orphans"  # an XCom


@task
def select() -> list[dict[str, Any]]:
    """Choose the queues to drain; a dry run chooses none, and tells what would be done with them."""
    from walferry.runs.steps import recovery

    context = get_current_context()
    params, ti = context["params"], context["ti"]
    with telling("select"):
        check_run(context)
        selected = recovery.select(source(), params["peer"] or "", params["queue"] or "", params["delete_orphan"])
        notes = recovery.preview(source(), selected, params["delete_orphan"]) if params["dry_run"] else selected.notes
    print("\n".join(notes))
    ti.xcom_push("notes", [note[:MAX_TEXT_CHARS] for note in notes[:MAX_NOTES]])
    ti.xcom_push(ORPHANS, [] if params["dry_run"] else [queue.to_xcom() for queue in selected.orphans])
    choices.refresh(source(), params["source_conn_id"])
    return [] if params["dry_run"] else [queue.to_xcom() for queue in selected.queues]


@task
def servers(queues: list[dict[str, Any]]) -> list[str]:
    """The dead servers that still have unclaimed queues."""
    from walferry.runs.steps import recovery

    return recovery.servers_to_claim(map(QueueRef.from_xcom, queues))


@task
def gone_peers(queues: list[dict[str, Any]]) -> list[str]:
    """Report the queues whose peer is gone, or delete them."""
    from walferry.runs.steps import batch, recovery

    context = get_current_context()
    ti = context["ti"]
    orphans = [QueueRef.from_xcom(queue) for queue in ti.xcom_pull(task_ids="select", key=ORPHANS) or ()]
    with telling():
        dealt = recovery.deal_with_orphans(source(), orphans, context["params"]["delete_orphan"], batch.run_of(ti))
        print("\n".join(dealt.lines) or "There are none.")
        lines = [line[:MAX_TEXT_CHARS] for line in dealt.lines[:MAX_NOTES]]
        if dealt.problems:
            ti.xcom_push("return_value", lines)  # for the report
            raise Failures(dealt.problems, "see `notes` in the report")
    return lines
