"""The Spark job that ships an interval again, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.operators.spark_job import STARTUP_SECONDS, SparkJobOperator
from walferry.airflow.retries import ends_plainly
from walferry.base.errors import WalferryError
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.input import tables_of
from walferry.runs.reports.progress import ProgressLog
from walferry.runs.reports.replay import PlannedInterval


class ReplayIntervalOperator(SparkJobOperator):
    """Ships the interval of `plan` again, or skips itself if there is no WAL. Logs its progress.

    All else is in the run's parameters. A failed job may be submitted again: it goes on with the WALs that are not done. If
    the job has ended because its peer was paused, it is not submitted again, as it would only stop again.
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "plan")

    def __init__(self, *, plan: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan  # the XCom of a PlannedInterval

    def pre_execute(self, context: Context) -> None:
        """Let the task be killed some time after its deadline."""
        self.execution_timeout = timedelta(seconds=int(context["params"]["deadline"]) + STARTUP_SECONDS)

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Submit the job and wait for it."""
        from walferry.replay.replay_run import ReplayRun
        from walferry.runs.steps import slaves

        planned = PlannedInterval.from_xcom(self.plan)
        if not planned.wals:
            raise AirflowSkipException(f"{planned.interval}: there is no WAL that can have entries of this time")
        params = context["params"]
        self.shown = {"source": params["source_conn_id"], "peer": planned.peer}
        source = slaves.for_job(HBaseSourceHook(params["source_conn_id"]).get_conn(), planned.peer)
        run = ReplayRun(
            source=source, peer_id=planned.peer, run_id=planned.run_id, start=planned.start, end=planned.end,
            deadline=int(params["deadline"]), tables=tuple(tables_of(params)), dry_run=bool(params["dry_run"]),
            what_is_there=bool(params["what_is_there"]),
        )  # fmt: skip
        with ProgressLog(source, planned.as_batch, self.log.info, self.log.warning):
            try:
                self.run_job(context, run)
            except AirflowException:
                _fail_if_paused(source, planned)
                raise


def _fail_if_paused(source: SourceCluster, planned: PlannedInterval) -> None:
    """Raises AirflowFailException if a job has failed because its peer is paused: no retry helps until it is resumed."""
    from walferry.runs.steps import batch

    paused = None
    with suppress(WalferryError):  # the job's own error tells more
        paused = batch.why_paused(source, planned.peer)
    if paused:
        raise AirflowFailException(
            f"{planned.interval} is not shipped to its end: {paused}. What was shipped is noted: once the peer is resumed, clear "
            "the task ship, and it goes on"
        )
