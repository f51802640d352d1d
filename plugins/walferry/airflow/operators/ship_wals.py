"""The Spark job that ships one peer's backlog, or some of its WAL groups, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context, Param, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.literal import LiteralFields
from walferry.airflow.reports.progress import ProgressLog
from walferry.source.cluster import SourceCluster
from walferry.spark.archive import build_archive
from walferry.spark.archive_entry import cache_folder

if TYPE_CHECKING:
    from walferry.shipping.summary import GroupSummary

# Where the repo's spark_jobs lie if not beside its plugins: section [walferry] of airflow.cfg, or AIRFLOW__WALFERRY__SPARK_JOBS.
CONFIG = ("walferry", "spark_jobs")
SPARK_JOBS = Path(__file__).resolve().parents[4] / "spark_jobs"
BROKEN_WALS = Param(
    "stop",
    type="string",
    enum=["stop", "whole-entries", "quarantine"],
    title="Broken WALs",
    description="stop: the WAL group stops at the damage, and the report names the offset. whole-entries: a file whose end is "
    "missing ends with its last whole entry. quarantine: the file is copied to the connection's quarantine folder, what follows "
    "the damage in it is given up, and the group goes on.",
)
# Before its report a recovery may have other queues to drain, or to wait for, and each may take the longest deadline, 7 days.
KEPT_S = 8 * 86400
MAX_ERROR_CHARS = 2000
STARTUP_S = 120  # what a job may take beside its deadline: Spark's start, the last answers of the slave, the summaries


class ShipWalsOperator(LiteralFields, SparkSubmitOperator):
    """Submits spark_jobs/ship_wals.py for `peer`, or skips itself if `plan` has nothing to ship. Tells how far the job is.

    `deadline`, `broken_wals` and `source_conn_id` are the run's parameters of these names, unless they are given. No text of any
    field is rendered. Spark itself is set up through the connection `conn_id`, spark-defaults.conf, or `conf`.
    A killed or failed job may be submitted again at any time: it goes on from the positions in ZooKeeper. One that came to its
    end is not: what failed in it, say because the slave was down until the deadline, is for the next batch. But if nothing is
    wrong with the groups, and the source's ZooKeeper was away, the task is tried again.

    With `groups` only these WAL groups are shipped, say those of a dead server's queue. No next batch comes for such a queue, so
    another run that has it in hand is waited for, as long as the deadline says; and a job that its deadline has ended before it
    had shipped all of it has failed. Cleared, it goes on from there.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        *("peer", "plan", "deadline", "groups", "broken_wals", "source_conn_id"),
    )

    def __init__(
        self,
        *,
        peer: str,
        plan: Mapping[str, Any],  # what walferry.airflow.steps.batch.plan returned
        deadline: int | None = None,  # seconds
        groups: Sequence[str] | None = None,  # WAL groups; None: all of the peer's
        broken_wals: str | None = None,  # walferry.files.quarantine.BrokenWals
        source_conn_id: str | None = None,
        conn_id: str = "spark_default",
        conf: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(conn_id=conn_id, conf=conf, **kwargs)
        self.peer = peer
        self.plan = plan
        self.deadline: Any = deadline
        self.groups = groups
        self.broken_wals = broken_wals
        self.source_conn_id: Any = source_conn_id

    def pre_execute(self, context: Context) -> None:
        """The deadline is a parameter of the run, and so is the time after which the task is killed."""
        for name in ("deadline", "broken_wals", "source_conn_id"):
            if getattr(self, name) is None:
                setattr(self, name, context["params"][name])
        waiting = int(self.deadline) if self.groups else 0
        self.execution_timeout = timedelta(seconds=waiting + int(self.deadline) + STARTUP_S)

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
            f"--broken-wals={self.broken_wals}",
            *(("--keep", str(KEPT_S)) if self.groups else ()),
            *(f"--group={group}" for group in self.groups or self.plan.get("only", ())),
        ]
        free = self._await_free(source)
        before = self._summaries(source)
        try:
            with ProgressLog(source, self.peer, self.plan, self.groups, self.log.info, self.log.warning):
                super().execute(context)
        except AirflowException as e:
            failed = _failed_groups(before, self._summaries(source))
            if not failed:
                raise  # it was killed or could not start: try again
            if self.groups and free and all(s.status == "held" for s in failed):  # somebody was faster: wait again
                raise AirflowException("; ".join(s.error or s.group for s in failed)) from e
            if all(s.passing for s in failed):  # the source's ZooKeeper was away until the deadline: try again
                raise AirflowException("; ".join(sorted({s.error or s.group for s in failed}))[:MAX_ERROR_CHARS]) from e
            raise AirflowFailException(f"peer {self.peer}: {len(failed)} WAL groups were not shipped, see the report") from e
        if self.groups:
            self._check_in_time(before, self._summaries(source))

    def _get_hook(self) -> WalferrySubmitHook:
        return WalferrySubmitHook(
            conf=self.conf or {},
            conn_id=self._conn_id,
            name=self.name,
            py_files=self.py_files,
            application_args=self.application_args,
        )

    def _await_free(self, source: SourceCluster) -> bool:
        """Whether nobody else has the groups in hand; without `groups` nobody is waited for."""
        from walferry.airflow.steps import batch

        return not self.groups or batch.await_free(source, self.peer, self.groups, int(self.deadline))

    def _check_in_time(self, before: Sequence[GroupSummary], after: Sequence[GroupSummary]) -> None:
        late = [s.group for s in after if s.status == "deadline" and s not in before]
        if late:
            raise AirflowFailException(
                f"peer {self.peer}: the deadline of {self.deadline} s came before all of {', '.join(late)} was shipped. The rest "
                "is still queued: clear this task, and it goes on from there"
            )

    def _summaries(self, source: SourceCluster) -> list[GroupSummary]:
        """What the run's jobs have written of the groups until now. Raises WalferryError."""
        from walferry.airflow.steps import batch

        return batch.summaries(source, self.peer, self.plan["run_id"], self.groups)


def _failed_groups(before: Sequence[GroupSummary], after: Sequence[GroupSummary]) -> list[GroupSummary]:
    """The groups that failed, if the job has come to an end with all of them; else none.

    What an earlier job of the same run has left does not count: this one may have been killed before it wrote anything. But a job
    that finds a group held leaves there what it finds.
    """
    if any(s.status == "running" for s in after):
        return []
    return [s for s in after if s.failed and (s.status == "held" or s not in before)]


def _spark_jobs() -> Path:
    return Path(conf.get(*CONFIG, fallback=str(SPARK_JOBS)))
