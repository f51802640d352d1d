"""The Spark job that copies a new peer's tables, and the batch that then ships its queue, as operators."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import DagIsPaused, TriggerDagRunOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.literal import LiteralFields
from walferry.airflow.operators.spark_job import SparkJobOperator
from walferry.airflow.retries import ends_plainly
from walferry.runs.input.tables import tables_of

BATCH_DAG = "replicate_peer"
POLL_SECONDS = 10


class CopyTablesOperator(SparkJobOperator):
    """Copies the tables of a new peer, by the run's parameters `peer`, `tables` and `allow_not_empty`.

    The job has no deadline. A killed or failed one may be submitted again at any time: it goes on with the regions that are left.
    """

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Submit the job and wait for it."""
        from walferry.initial_snapshot.job import CopyRun
        from walferry.runs.steps import slaves
        from walferry.runs.steps.batch import run_of

        params = context["params"]
        self.shown = {"source": params["source_conn_id"], "peer": params["peer"]}
        source = slaves.for_job(HBaseSourceHook(params["source_conn_id"]).get_conn(), params["peer"])
        run = CopyRun(
            source=source, peer_id=params["peer"], run_id=run_of(context["ti"]), tables=tuple(tables_of(params)),
            allow_not_empty=bool(params["allow_not_empty"]),
        )  # fmt: skip
        self.run_job(context, run)


class ShipQueueOperator(LiteralFields, TriggerDagRunOperator):
    """Starts a run of replicate_peer for the run's peer, and waits for it. Fails at once if that DAG is paused."""

    operator_extra_links = ()  # type: ignore[assignment]  # the log names the run

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id=BATCH_DAG, wait_for_completion=True, poke_interval=POLL_SECONDS, fail_when_dag_is_paused=True, **kwargs
        )

    def pre_execute(self, context: Context) -> None:
        """Take the peer and the source from the run's parameters."""
        self.conf = {name: context["params"][name] for name in ("peer", "source_conn_id")}

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Start the run. Airflow's task runner waits for it."""
        try:
            super().execute(context)
        except DagIsPaused as error:
            raise AirflowException(
                f"The tables are copied, but the DAG {BATCH_DAG}, which ships what was written meanwhile, is paused. Unpause it, "
                "and clear this task: the run goes on from here"
            ) from error
