"""What the operators that run a job on Spark have in common: it goes to a Spark Connect server, or through spark-submit."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context, conf
from airflow.sdk.exceptions import AirflowException

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.hooks.spark_output import failure, not_started
from walferry.airflow.literal import LiteralFields
from walferry.airflow.operators.connect_job import MAX_ERROR_CHARS, ThroughConnect
from walferry.airflow.operators.links import LINKS
from walferry.base.jobs import Job, arguments_of
from walferry.jobs.archive import build_archive
from walferry.jobs.archive_entry import cache_folder
from walferry.replication.source.cluster import SourceCluster

# Where spark_jobs lie if neither beside plugins nor where pip puts them: section [walferry] of airflow.cfg, or
# AIRFLOW__WALFERRY__SPARK_JOBS.
CONFIG = ("walferry", "spark_jobs")
BESIDE_PLUGINS = Path(__file__).resolve().parents[4] / "spark_jobs"
SPARK_JOBS = BESIDE_PLUGINS if BESIDE_PLUGINS.is_dir() else Path(sys.prefix) / "share" / "walferry" / "spark_jobs"
SCRIPT = "run_job.py"
BY_SPARK_SUBMIT = "by_spark_submit"  # the XCom that tells a report why a job went through spark-submit
STARTUP_SECONDS = 120  # what a job may take beside its deadline: Spark's start, the last answers of the slave, the summaries


class SparkJobOperator(LiteralFields, SparkSubmitOperator):
    """Runs a job of the library. Renders no text of any field.

    The job runs on the Spark Connect server of the connection `connect_conn_id`. If there is no such connection, or the server
    cannot run the job to its end, spark-submit runs it. Spark itself is then set up through the connection `conn_id`,
    spark-defaults.conf, or `conf`.
    """

    operator_extra_links = LINKS

    def __init__(
        self, *, conn_id: str = "spark_default", connect_conn_id: str = "spark_connect", conf: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(conn_id=conn_id, conf=conf, **kwargs)
        self._connect = ThroughConnect(connect_conn_id)
        self._killed = False
        self.shown: dict[str, str] = {}  # what the replication page is to show: source, peer and queue
        self.ran_through = ""  # the connection to the Spark that has run a job

    def source_for(self, conn_id: str, peer: str) -> SourceCluster:
        """The source as a job for the peer gets it. The task's links lead to the peer from now on. Raises WalferryError."""
        from walferry.runs.steps import batch

        self.shown = {"source": conn_id, "peer": peer}
        return batch.for_job(HBaseSourceHook(conn_id).get_conn(), peer)

    def run_job(self, context: Context, job: Job) -> None:
        """Run the job to its end. Raises AirflowException if it fails, and WalferryError if it may not begin."""
        began = time.monotonic()
        self.check_alive()
        self.ran_through = self._connect.conn_id
        if (why_not := self._connect.run(job)) is None:
            return
        self.check_alive()
        if why_not:
            self.log.warning("spark-submit runs the job instead: %s", why_not)
            context["ti"].xcom_push(BY_SPARK_SUBMIT, why_not[:MAX_ERROR_CHARS])
        self.submit(context, job.begun_later(time.monotonic() - began))

    def submit(self, context: Context, job: Job) -> None:
        """Build the library's archive, submit the job and wait for it. Raises AirflowException if it fails."""
        self.name, self.ran_through = job.title, self._conn_id
        self.application = str(Path(conf.get(*CONFIG, fallback=str(SPARK_JOBS))) / SCRIPT)
        self.py_files = str(build_archive(cache_folder() / "archives"))
        self.application_args = arguments_of(job)
        try:
            super().execute(context)
        except AirflowException as error:
            if type(error) is not AirflowException or not isinstance(self._hook, WalferrySubmitHook):
                raise
            if self._killed:
                raise AirflowException("the task was killed, and its Spark job with it") from error
            raise AirflowException(failure(self._hook.last_lines, self._hook.status) or str(error)) from error
        except OSError as error:
            raise AirflowException(not_started(error)) from error

    def on_kill(self) -> None:
        """End the job; none begins after this. Airflow calls it from a signal's handler, after which the task goes on."""
        submitting, self._killed = self._hook is not None, True
        if submitting:
            super().on_kill()
        self._connect.interrupt()

    def check_alive(self) -> None:
        """Raises AirflowException if the task is to end."""
        if self._killed:
            raise AirflowException("the task was killed: it begins no Spark job")

    def _get_hook(self) -> WalferrySubmitHook:
        hook = WalferrySubmitHook(
            conf=self.conf or {}, conn_id=self._conn_id, name=self.name, py_files=self.py_files,
            application_args=self.application_args,
        )  # fmt: skip
        self.check_alive()  # the last thing before spark-submit is started
        return hook
