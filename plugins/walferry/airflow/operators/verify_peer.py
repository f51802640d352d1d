"""The Spark job that compares a peer's tables, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.operators.spark_job import SparkJobOperator
from walferry.airflow.retries import ends_plainly


class VerifyPeerOperator(SparkJobOperator):
    """Compares the tables of `peer`, with the run's parameters.

    A killed or failed job may be submitted again at any time.
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "peer")

    def __init__(self, *, peer: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.peer = peer

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Submit the job and wait for it."""
        from walferry.runs.steps import slaves, verification
        from walferry.verification.verify_run import VerifyRun

        params: Mapping[str, Any] = context["params"]
        self.shown = {"source": params["source_conn_id"], "peer": self.peer}
        source = slaves.for_job(HBaseSourceHook(params["source_conn_id"]).get_conn(), self.peer)
        run = VerifyRun(
            source=source, peer_id=self.peer, run_id=verification.run_of(context["ti"]), tables=tuple(params["tables"] or ()),
            options=verification.options_of(params),
        )  # fmt: skip
        self.run_job(context, run)
