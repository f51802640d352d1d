"""The tasks that ship an interval again: plan → ship → report."""

from __future__ import annotations

import logging
from typing import Any

from airflow.sdk import TriggerRule, get_current_context

from walferry.airflow.endings import leave_note
from walferry.airflow.forms.interval import interval_of
from walferry.airflow.kept_reports import as_lines, with_earlier
from walferry.airflow.literal import task
from walferry.airflow.operators.replay_interval import ReplayIntervalOperator
from walferry.airflow.tasks.common import PROBLEM, source, telling
from walferry.runs.failures import say
from walferry.runs.input import InputError, tables_of
from walferry.runs.reports.replay import PlannedInterval, ReplayFailed, ReplayReport

log = logging.getLogger(__name__)


def replay() -> None:
    """Wire the tasks."""
    planned = plan()
    ship = ReplayIntervalOperator(task_id="ship", plan=planned, retries=2)  # type: ignore[arg-type]
    planned >> ship >> report(planned)  # type: ignore[arg-type]


@task
def plan() -> dict[str, Any]:
    """Find the WALs of the run's interval."""
    from walferry.replay.interval import Interval
    from walferry.runs.steps import batch
    from walferry.runs.steps import replay as steps

    context = get_current_context()
    params, ti = context["params"], context["ti"]
    with telling():
        interval = Interval.between(*interval_of(context))
        if not params["peer"]:
            raise InputError("the run needs a peer: give it as the parameter `peer`. Nothing was done")
        planned = steps.plan(
            source(), params["peer"], interval, f"{batch.run_of(ti)}.{ti.try_number}", tables=tables_of(params),
            roll=params["roll"], whole=not (params["what_is_there"] or params["dry_run"]),
        )  # fmt: skip
    print(f"{planned.interval}: {planned.wals:,} WALs of {planned.groups:,} WAL groups, {planned.bytes:,} bytes.")
    for problem in planned.problems:
        log.warning("%s", problem)
    return planned.to_xcom()


@task(trigger_rule=TriggerRule.ALL_DONE)
def report(planned: dict[str, Any] | None) -> None:
    """Tell what was shipped, as text in the log and as XCom; fails if anything was not."""
    from walferry.runs.steps import batch
    from walferry.runs.steps import replay as steps

    context = get_current_context()
    ti = context["ti"]
    ours = PlannedInterval.from_xcom(planned) if planned else None
    refusal = ti.xcom_pull(task_ids="plan", key=PROBLEM) if ours is None else None
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=["ship"], run_ids=[ti.run_id])
    shipped = batch.summaries(source(), ours.peer, ours.run_id) if ours else ()
    done = ReplayReport(
        ours, next(iter(states[ti.run_id].values()), None), (refusal or ("", ""))[1], shipped, context["params"]["dry_run"],
        asked=tables_of(context["params"]),
    )  # fmt: skip
    told = with_earlier(context, ours.run_id if ours else f"{batch.run_of(ti)}, report {ti.try_number}", done.to_xcom())
    say("\n".join([done.as_text(), *as_lines(told)]))
    leave_note(context, done.note)
    ti.xcom_push("return_value", told)
    if ours and not done.failures:
        steps.end(source(), ours.peer, ours.run_id)
    if done.failures:
        raise ReplayFailed(done.failures)
