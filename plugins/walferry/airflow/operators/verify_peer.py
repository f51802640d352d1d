"""The Spark job that compares a peer's tables, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.literal import LiteralFields
from walferry.airflow.operators.ship_wals import spark_jobs
from walferry.spark.archive import build_archive
from walferry.spark.archive_entry import cache_folder


class VerifyPeerOperator(LiteralFields, SparkSubmitOperator):
    """Submits spark_jobs/verify_peer.py for `peer`, with the run's parameters. No text of any field is rendered.

    A killed or failed job may be submitted again at any time.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "peer")

    def __init__(self, *, peer: str, conn_id: str = "spark_default", conf: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(conn_id=conn_id, conf=conf, **kwargs)
        self.peer = peer

    def execute(self, context: Context) -> None:
        """Build the archive, submit the job, wait for it."""
        from walferry.airflow.steps import verification

        params: Mapping[str, Any] = context["params"]
        source = HBaseSourceHook(params["source_conn_id"]).get_conn()
        self.name = f"walferry verify {self.peer}"
        self.application = str(spark_jobs() / "verify_peer.py")
        self.py_files = str(build_archive(cache_folder() / "archives"))
        self.application_args = [
            *("--source", source.to_json(), "--peer", self.peer, f"--run-id={verification.run_of(context['ti'])}"),
            *("--options", verification.options_of(params).to_json()),
            *(f"--table={table}" for table in params["tables"] or ()),
        ]
        super().execute(context)

    def _get_hook(self) -> WalferrySubmitHook:
        return WalferrySubmitHook(
            conf=self.conf or {}, conn_id=self._conn_id, name=self.name, py_files=self.py_files,
            application_args=self.application_args,
        )  # fmt: skip
