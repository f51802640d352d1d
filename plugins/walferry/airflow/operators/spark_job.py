"""The common base of operators that run a job on Spark, through a Spark Connect server or through spark-submit."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.hooks.spark_connect import CONNECT_CONN_ID, WalferryConnectHook
from walferry.airflow.hooks.spark_output import failure, not_started
from walferry.airflow.literal import LiteralFields
from walferry.airflow.operators.links import LINKS
from walferry.airflow.options import option
from walferry.base.jobs import MAX_LINE_CHARS, BackendFailed, JobOutcome, arguments_of
from walferry.base.texts import one_line
from walferry.jobs.archive import build_archive
from walferry.jobs.archive_entry import cache_folder
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.airflow_connection import SparkConnectError

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors.base import OperatorLineage

    from walferry.jobs.connect.connect_job import ConnectJob
    from walferry.jobs.waiting import AwaitedJob, Waiting

BESIDE_PLUGINS = Path(__file__).resolve().parents[4] / "spark_jobs"
SPARK_JOBS = BESIDE_PLUGINS if BESIDE_PLUGINS.is_dir() else Path(sys.prefix) / "share" / "walferry" / "spark_jobs"
SCRIPT = "run_job.py"
BY_SPARK_SUBMIT = "by_spark_submit"  # the XCom that says in the report why spark-submit ran a job
STARTUP_SECONDS = 120  # what a job may take on top of its deadline: Spark's start, the peer cluster's last answers, the summaries
MAX_ERROR_CHARS = 2000

log = logging.getLogger(__name__)


class SparkJobOperator(LiteralFields, SparkSubmitOperator):
    """Runs a job of the library. Renders no text of any field.

    The job runs on the Spark Connect server of the connection `connect_conn_id`. If the connection does not exist, or the server
    cannot run the job to its end, spark-submit runs the job. Spark itself is then set up through the connection `conn_id`,
    spark-defaults.conf, or `conf`.

    :param conn_id: the connection for spark-submit, of type `spark`
    :param connect_conn_id: the connection to a Spark Connect server, of type `spark_connect`
    :param conf: settings of Spark, for spark-submit
    """

    operator_extra_links = LINKS

    def __init__(
        self, *, conn_id: str = "spark_default", connect_conn_id: str = CONNECT_CONN_ID, conf: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        # The provider can find an application again, but a job that is submitted again goes on from ZooKeeper anyway.
        super().__init__(conn_id=conn_id, conf=conf, durable=False, **kwargs)
        self._connect = ThroughConnect(connect_conn_id)
        self._killed = False
        self.shown: dict[str, str] = {}  # source, peer and queue, which the replication page is to show
        self.ran_through = ""  # the connection to the Spark that ran a job
        # For OpenLineage: under which run id the summaries of WAL groups are kept, the tables if not all of the peer, and whether
        # the job changes the peer cluster.
        self.summaries_of, self.tables_of_job, self.writes = "", tuple[str, ...](), True

    def pre_execute(self, context: Context) -> None:
        """Raise AirflowFailException if the run has not the parameters of one of our DAGs."""
        if "source_conn_id" not in context["params"]:
            raise AirflowFailException(
                f"{type(self).__name__} is a part of Walferry's DAGs, and this run has none of their parameters, such as "
                "source_conn_id. Have your DAG start Walferry's DAG, by TriggerDagRunOperator"
            )

    def source_for(self, conn_id: str, peer: str) -> SourceCluster:
        """Return the source for a job of the peer. From now on the task's links lead to the peer. Raises WalferryError."""
        from walferry.runs.steps import batch

        self.shown = {"source": conn_id, "peer": peer}
        return batch.for_job(HBaseSourceHook(conn_id).get_conn(), peer)

    def run_job(self, context: Context, job: AwaitedJob) -> None:
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

    def submit(self, context: Context, job: AwaitedJob) -> None:
        """Build the library's archive, submit the job and wait for it. Raises AirflowException if it fails."""
        from walferry.jobs.waiting import waiting

        self.name, self.ran_through = job.title, self._conn_id
        self.application = str(Path(option("spark_jobs") or SPARK_JOBS) / SCRIPT)
        self.py_files = str(build_archive(cache_folder() / "archives"))
        self.application_args = arguments_of(job)
        try:
            with waiting(job.source) if WalferrySubmitHook.may_run_drivers(self._conn_id) else nullcontext() as here:
                self._submit_and_wait(context, here)
        except OSError as error:
            raise AirflowException(not_started(error)) from error

    def _submit_and_wait(self, context: Context, here: Waiting | None) -> None:
        """Submit the job, whose driver may run elsewhere and leave the outcome `here`. Raises AirflowException if it fails."""
        self._hook = hook = self._hook_for(here)
        try:
            super().execute(context)
        except AirflowException as error:
            if type(error) is not AirflowException:
                raise
            if self._killed:
                raise AirflowException("the task was killed, and its Spark job with it") from error
            if here is not None and (outcome := here.report()) is not None:
                _tell(outcome, self.name, hook.application.logs)
                self.log.warning("Spark counts the job as failed, but its driver has brought it to its end")
                return
            why = failure(hook.last_lines, hook.status) or str(error)
            raise AirflowException(f"{why}{hook.application.logs}") from error
        if here is not None and (outcome := here.report()) is not None:
            _tell(outcome, self.name, hook.application.logs)

    def on_kill(self) -> None:
        """End the job, and let no other one begin. Airflow calls this from a signal's handler, after which the task goes on."""
        hook, self._killed = self._hook, True
        if hook is not None:
            hook.on_kill()  # the provider's operator would leave spark-submit alone if the driver runs on YARN
        self._connect.interrupt()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return what the job has read and written, for Airflow's OpenLineage provider; nothing if no job has begun."""
        from airflow.providers.openlineage.extractors.base import OperatorLineage

        from walferry.airflow.operators.lineage import lineage_of

        if not self.ran_through:
            return OperatorLineage()
        return lineage_of(**self.shown, tables=self.tables_of_job, run_id=self.summaries_of, writes=self.writes)

    @property
    def tracked(self) -> str:
        """The address of the application on YARN that has run the last job; empty without one."""
        return self._hook.application.url if isinstance(self._hook, WalferrySubmitHook) else ""

    def check_alive(self) -> None:
        """Raise AirflowException if the task is to end."""
        if self._killed:
            raise AirflowException("the task was killed: it begins no Spark job")

    def _hook_for(self, here: Waiting | None) -> WalferrySubmitHook:
        conf = {**(here.settings if here is not None else {}), **(self.conf or {})}
        hook = WalferrySubmitHook(
            conf=conf, conn_id=self._conn_id, name=self.name, py_files=self.py_files, application_args=self.application_args
        )
        self.check_alive()  # the last step before spark-submit is started
        return hook


class ThroughConnect:
    """Runs a task's jobs through the server of a connection, if the connection exists."""

    def __init__(self, conn_id: str) -> None:
        self.conn_id = conn_id
        self._under_way: ConnectJob | None = None
        self._ended = False  # by us

    def run(self, job: AwaitedJob) -> str | None:
        """Run a job. Return None if it came to its end, else why the server did not run it: empty if there is no connection.

        Raises AirflowException if the job failed or was ended on purpose, and WalferryError if it may not begin.
        """
        try:
            address = WalferryConnectHook(self.conn_id).address()
        except SparkConnectError as error:
            return str(error)
        if address is None:
            return ""
        from walferry.jobs.connect.connect_job import ConnectJob
        from walferry.jobs.connect.errors import Interrupted

        folder = cache_folder()
        self._under_way = ConnectJob(address, build_archive(folder / "archives"), folder / "connect", job)
        if self._ended:
            raise AirflowException("the task was killed: it begins no job")
        try:
            outcome = self._under_way.run_job(_say)
        except BackendFailed as error:
            return str(error)
        except Interrupted as error:
            raise AirflowException(str(error)) from error
        finally:
            self._under_way = None
        _tell(outcome, job.title)
        return None

    def interrupt(self) -> None:
        """End the running job, and begin none after this. A signal's handler may call this."""
        self._ended = True
        if self._under_way is None:
            return
        from walferry.jobs.connect.errors import ConnectFailed

        try:
            self._under_way.interrupt()
        except ConnectFailed as error:  # the server then ends the job, as no client follows it any more
            log.warning("%s", error)


def _tell(outcome: JobOutcome, title: str, logs: str = "") -> None:
    """Log the outcome of a job. Raises AirflowException if the job has failed; it ends with where its `logs` are."""
    for line in outcome.lines:
        _say(line)
    for line in outcome.errors:
        log.warning("%s", one_line(line, MAX_LINE_CHARS))
    if outcome.failed:
        why = f"The job {title} has failed: {'; '.join(outcome.errors) or 'see above'}"
        raise AirflowException(f"{why[:MAX_ERROR_CHARS]}{logs}")


def _say(text: str) -> None:
    """Log a line of a job. Text from a cluster or the server can neither end the line nor control a terminal."""
    log.info("%s", one_line(text, MAX_LINE_CHARS))
