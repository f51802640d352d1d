"""The Spark job that ships one peer's backlog, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.archive import build_archive
from walferry.archive_entry import cache_folder
from walferry.source import DEFAULT_CONN_ID, SourceCluster

# Where the repo's spark_jobs lie if not beside its plugins: section [walferry] of airflow.cfg, or AIRFLOW__WALFERRY__SPARK_JOBS.
CONFIG = ("walferry", "spark_jobs")
SPARK_JOBS = Path(__file__).resolve().parents[4] / "spark_jobs"
STARTUP_S = 120  # what a job may take beside its deadline: Spark's start, the last answers of the slave, the summaries


class ShipWalsOperator(SparkSubmitOperator):
    """Submits spark_jobs/ship_wals.py for `peer`, or skips itself if `plan` has nothing to ship.

    Spark itself is set up through the connection `conn_id`, spark-defaults.conf, or `conf`.
    A killed or failed job may be submitted again at any time: it goes on from the positions in ZooKeeper. One that came to its
    end is not: what failed in it, say because the slave was down until the deadline, is for the next batch.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "peer", "plan", "deadline", "source_conn_id")

    def __init__(
        self,
        *,
        peer: str,
        plan: Mapping[str, Any],  # what walferry.airflow.batch.plan returned
        deadline: int | str,  # seconds
        source_conn_id: str = DEFAULT_CONN_ID,
        conn_id: str = "spark_default",
        conf: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(conn_id=conn_id, conf=conf, **kwargs)
        self.peer = peer
        self.plan = plan
        self.deadline = deadline
        self.source_conn_id = source_conn_id

    def pre_execute(self, context: Context) -> None:
        """The deadline is a parameter of the run, and so is the time after which the task is killed."""
        self.execution_timeout = timedelta(seconds=int(self.deadline) + STARTUP_S)

    def execute(self, context: Context) -> None:
        """Build the archive, submit the job, wait for it."""
        if not self.plan["groups"]:
            raise AirflowSkipException(f"peer {self.peer}: nothing to ship")
        source = HBaseSourceHook(self.source_conn_id).get_conn()
        self.name = f"walferry {self.peer}"
        self.application = str(_spark_jobs() / "ship_wals.py")
        self.py_files = str(build_archive(cache_folder() / "archives"))
        self.application_args = [
            *("--source", source.to_json(), "--peer", self.peer),
            *("--run-id", self.plan["run_id"], "--deadline", str(int(self.deadline))),
        ]
        try:
            super().execute(context)
        except AirflowException as e:
            failed = _failed_groups(source, self.peer, self.plan["run_id"])
            if not failed:
                raise  # it was killed or could not start: try again
            raise AirflowFailException(f"peer {self.peer}: {failed} WAL groups were not shipped, see the report") from e

    def _get_hook(self) -> WalferrySubmitHook:
        return WalferrySubmitHook(
            conf=self.conf or {},
            conn_id=self._conn_id,
            name=self.name,
            py_files=self.py_files,
            application_args=self.application_args,
        )


def _failed_groups(source: SourceCluster, peer: str, run_id: str) -> int:
    """How many groups failed, if the job has come to an end with all of them; else 0."""
    from walferry.airflow import batch
    from walferry.summary import Status
    from walferry.zk.errors import ZkError

    try:
        summaries = batch.summaries(source, peer, run_id)
    except ZkError:
        return 0
    return 0 if any(s.status is Status.RUNNING for s in summaries) else sum(s.failed for s in summaries)


def _spark_jobs() -> Path:
    return Path(conf.get(*CONFIG, fallback=str(SPARK_JOBS)))
