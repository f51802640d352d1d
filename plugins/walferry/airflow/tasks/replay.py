"""The tasks that ship an interval again: plan → ship → report."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Context, Param, TriggerRule, get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from walferry.airflow.endings import ends_plainly
from walferry.airflow.forms.run_checks import check_conf, is_backfill, peer_of
from walferry.airflow.literal import task
from walferry.airflow.operators.spark_job import STARTUP_SECONDS, SparkJobOperator
from walferry.airflow.states import state_of
from walferry.airflow.tasks.common import PROBLEM, source, tell, telling
from walferry.runs.input import InputError, moment, tables_of
from walferry.runs.reports.progress import ProgressLog
from walferry.runs.reports.replay import PlannedInterval, ReplayFailed, ReplayReport
from walferry.runs.values import run_of

RUN_TYPES = ["backfill", "manual", "operator_triggered"]
_OF_A_BACKFILL = "a backfill has intervals of its own"
FROM = Param(
    None,
    type=["null", "string"],
    format="date-time",
    title="From",
    description=f"First write time that is shipped, with a time zone. For runs by hand only: {_OF_A_BACKFILL}.",
)
TO = Param(
    None, type=["null", "string"], format="date-time", title="To", description="End of the interval, not included, as above."
)

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
    from walferry.runs.steps import replay as steps

    context = get_current_context()
    params, ti = context["params"], context["ti"]
    with telling():
        interval = Interval.between(*interval_of(context))
        planned = steps.plan(
            source(), peer_of(context), interval, f"{run_of(ti)}.{ti.try_number}", tables=tables_of(params),
            roll=params["roll"], whole=not (params["what_is_there"] or params["dry_run"]),
        )  # fmt: skip
    print(f"{planned.interval}: {planned.wals:,} WALs of {planned.groups:,} WAL groups, {planned.bytes:,} bytes.")
    for problem in planned.problems:
        log.warning("%s", problem)
    return planned.to_xcom()


@task(trigger_rule=TriggerRule.ALL_DONE)
def report(planned: dict[str, Any] | None) -> None:
    """Report what was shipped, as text in the log and as XCom. Fails if anything was not shipped."""
    from walferry.runs.steps import batch
    from walferry.runs.steps import replay as steps

    context = get_current_context()
    ti = context["ti"]
    ours = PlannedInterval.from_xcom(planned) if planned else None
    refusal = ti.xcom_pull(task_ids="plan", key=PROBLEM) if ours is None else None
    shipped = batch.summaries(source(), ours.peer, ours.run_id) if ours else ()
    done = ReplayReport(
        ours, state_of(ti, "ship"), (refusal or ("", ""))[1], shipped, context["params"]["dry_run"],
        asked=tables_of(context["params"]),
    )  # fmt: skip
    tell(done.to_xcom(), done.as_text(), done.note, ours.run_id if ours else None)
    if ours and not done.failures:
        steps.end(source(), ours.peer, ours.run_id)
    if done.failures:
        raise ReplayFailed(done.failures)


class ReplayIntervalOperator(SparkJobOperator):
    """Ships the interval of `plan` again, or skips itself if there is no WAL. Logs its progress.

    All else is in the run's parameters. A failed job may be submitted again: it goes on with the WALs that are not done. If the
    job ended because its peer was paused, it is not submitted again, as it would only stop again.

    :param plan: what the task `plan` has returned: the peer, the interval and its WALs
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "plan")

    def __init__(self, *, plan: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan  # the XCom of a PlannedInterval

    def pre_execute(self, context: Context) -> None:
        """Let the task be killed some time after its deadline."""
        super().pre_execute(context)
        self.execution_timeout = timedelta(seconds=int(context["params"]["deadline"]) + STARTUP_SECONDS)

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Submit the job and wait for it."""
        from walferry.replay.replay_run import ReplayRun
        from walferry.runs.steps import batch

        planned = PlannedInterval.from_xcom(self.plan)
        if not planned.wals:
            raise AirflowSkipException(f"{planned.interval}: there is no WAL that can have entries of this time")
        params = context["params"]
        source = self.source_for(params["source_conn_id"], planned.peer)
        run = ReplayRun(
            source=source, peer_id=planned.peer, run_id=planned.run_id, start=planned.start, end=planned.end,
            deadline=int(params["deadline"]), tables=tuple(tables_of(params)), dry_run=bool(params["dry_run"]),
            what_is_there=bool(params["what_is_there"]),
        )  # fmt: skip
        self.summaries_of, self.tables_of_job, self.writes = planned.run_id, run.tables, not run.dry_run
        with ProgressLog(source, planned.as_batch, self.log.info, self.log.warning):
            try:
                self.run_job(context, run)
            except AirflowException as error:
                if paused := batch.why_paused(source, planned.peer):  # no retry helps until the peer is resumed
                    raise AirflowFailException(
                        f"{planned.interval} is not shipped to its end: {paused}. What was shipped is noted: once the peer is "
                        "resumed, clear the task ship, and it goes on"
                    ) from error
                raise


def interval_of(context: Context, now: datetime | None = None) -> tuple[datetime, datetime]:
    """Check the run's conf and return its interval. Raises InputError."""
    run, params = context["dag_run"], context["params"]
    check_conf(run.dag_id, run.conf or {}, context["dag"].params.keys(), params)
    given = {name: moment(name, params[name]) for name in ("from_date", "to_date") if params[name]}
    if is_backfill(run):
        if given:
            raise InputError(f"{_OF_A_BACKFILL}, so leave out {' and '.join(given)}. Nothing was done")
        start, end = run.data_interval_start, run.data_interval_end
    elif len(given) < 2:
        raise InputError(
            "a run by hand needs both from_date and to_date, such as 2025-03-01T10:00:00+00:00; to ship many intervals, create a "
            "backfill. Nothing was done"
        )
    else:
        start, end = given["from_date"], given["to_date"]
    if start is None or end is None or start >= end:
        raise InputError(f"the interval from {start} to {end} is empty: its end must be later than its start. Nothing was done")
    if end > (now or datetime.now(UTC)):
        raise InputError(
            f"the interval from {start} to {end} is not over yet: its end must be in the past, and now it is "
            f"{now or datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC. Nothing was done"
        )
    return start, end
