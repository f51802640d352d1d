"""Starts a batch of the run's peer, as an operator."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import DagIsPaused, TriggerDagRunOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from walferry.airflow.endings import ends_plainly
from walferry.airflow.literal import LiteralFields
from walferry.airflow.sources import own_name

BATCH_DAG = "replicate_peer"
POLL_SECONDS = 10


class RunBatchOperator(LiteralFields, TriggerDagRunOperator):
    """Starts a run of the source's replicate_peer for the run's peer, and waits for it. Fails at once if that DAG is paused.

    :param conn_id: the connection of the source cluster
    """

    operator_extra_links = ()  # type: ignore[assignment]  # the log names the run

    def __init__(self, *, conn_id: str, **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id=own_name(BATCH_DAG, conn_id), wait_for_completion=True, poke_interval=POLL_SECONDS,
            fail_when_dag_is_paused=True, execution_timeout=None, **kwargs,
        )  # fmt: skip

    def pre_execute(self, context: Context) -> None:
        """Take the peer and the source from the run's parameters."""
        self.conf = {name: context["params"][name] for name in ("peer", "source_conn_id")}

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Start the run. Airflow's task runner then waits for it."""
        try:
            super().execute(context)
        except DagIsPaused as error:
            raise AirflowException(
                f"The DAG {self.trigger_dag_id}, which ships what is queued for the peer, is paused. Unpause it, and clear this "
                "task: the run goes on from here"
            ) from error
