"""The tasks by which people choose recovered queues: select → gone_peers; then comes what all recoveries have."""

from __future__ import annotations

from airflow.sdk import get_current_context

from walferry.airflow.forms import choices
from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.tasks.common import source, telling
from walferry.airflow.tasks.recovery import SELECTED
from walferry.runs.failures import Failures
from walferry.runs.values import MAX_TEXT_CHARS, Selected, run_of

MAX_NOTES = 200  # lines of select that the report tells too
ORPHANS = "orphans"  # an XCom


@task
def select() -> list[str]:
    """Choose the queues to drain; a dry run chooses none, and tells what would be done with them.

    Returns the dead servers that still have unclaimed ones.
    """
    from walferry.runs.steps import recovery

    context = get_current_context()
    params, ti = context["params"], context["ti"]
    with telling("select"):
        check_run(context)
        selected = recovery.select(source(), params["peer"] or "", params["queue"] or "", params["delete_orphan"])
        notes = recovery.preview(source(), selected, params["delete_orphan"]) if params["dry_run"] else selected.notes
    print("\n".join(notes))
    ti.xcom_push("notes", [note[:MAX_TEXT_CHARS] for note in notes[:MAX_NOTES]])
    if params["dry_run"]:
        selected = recovery.NONE_SELECTED
    ti.xcom_push(SELECTED, selected.to_drain.to_xcom())
    ti.xcom_push(ORPHANS, selected.to_delete.to_xcom())
    choices.refresh(source(), params["source_conn_id"])
    return selected.servers


@task
def gone_peers() -> list[str]:
    """Report the queues whose peer is gone, or delete them."""
    from walferry.runs.steps import recovery

    context = get_current_context()
    ti = context["ti"]
    orphans = Selected.from_xcom(ti.xcom_pull(task_ids="select", key=ORPHANS))
    with telling():
        dealt = recovery.deal_with_orphans(source(), orphans, context["params"]["delete_orphan"], run_of(ti))
        print("\n".join(dealt.lines) or "There are none.")
        lines = [line[:MAX_TEXT_CHARS] for line in dealt.lines[:MAX_NOTES]]
        if dealt.problems:
            ti.xcom_push("return_value", lines)  # for the report
            raise Failures(dealt.problems, "see `notes` in the report")
    return lines
