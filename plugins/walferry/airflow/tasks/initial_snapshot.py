"""The tasks of an initial snapshot: check → copy → ship → report, and after the copy, whatever came of it, clean_up."""

from __future__ import annotations

from typing import Any

from airflow.sdk import TriggerRule, get_current_context

from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.operators.copy_tables import CopyTablesOperator, ShipQueueOperator
from walferry.airflow.tasks.common import source
from walferry.base.texts import one_line
from walferry.runs.input import InputError, tables_of

MAX_TABLES = 100  # in the XCom
MAX_LINE_CHARS = 20_000


@task
def check() -> dict[str, list[str]]:
    """Check whether the copy may begin. The log has all tables with their families, the XCom the first ones."""
    from walferry.runs.steps import batch, initial_snapshot

    context = get_current_context()
    check_run(context)
    params = context["params"]
    if not params["peer"]:
        raise InputError("the run needs a peer: give it as the parameter `peer`. Nothing was done")
    run = batch.run_of(context["ti"])
    found = initial_snapshot.look(source(), params["peer"], run, tables_of(params), allow_not_empty=params["allow_not_empty"])
    for table, families in found.items():
        print(one_line(f"{table}: {', '.join(families) or 'copied already'}", MAX_LINE_CHARS))
    return dict(list(found.items())[:MAX_TABLES])


# Also after a job that was killed, which could not delete its snapshots itself.
@task(trigger_rule=TriggerRule.ALL_DONE)
def clean_up() -> None:
    """Delete snapshots that the copy has left at the source."""
    from walferry.runs.steps import batch, initial_snapshot

    context = get_current_context()
    check_run(context)
    peer = context["params"]["peer"]
    deleted = initial_snapshot.clean_up(source(), peer, batch.run_of(context["ti"])) if peer else []
    print(f"Deleted {', '.join(deleted)}." if deleted else "No snapshot is left.")


@task
def report() -> dict[str, Any]:
    """Tell what was copied; the XCom has the same as the log."""
    from walferry.runs.steps import initial_snapshot

    state = initial_snapshot.outcome(source(), get_current_context()["params"]["peer"]) or {}
    for name, value in state.items():
        print(one_line(f"{name}: {value}", MAX_LINE_CHARS))
    return state


def initial_snapshot_tasks() -> None:
    """Wire the tasks."""
    copy = CopyTablesOperator(task_id="copy", execution_timeout=None)
    check() >> copy >> ShipQueueOperator(task_id="ship", execution_timeout=None) >> report()
    copy >> clean_up()
