"""The Spark job that ships one peer's backlog, or drains its recovered queues, as an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from walferry.airflow.endings import ends_plainly
from walferry.airflow.hooks.hbase import MASTER_ABSENT, source_of_run
from walferry.airflow.operators.made_together import CONFIGURED, Together, sink_of
from walferry.airflow.operators.spark_job import MAX_ERROR_CHARS, STARTUP_SECONDS, SparkJobOperator
from walferry.base.amounts import count
from walferry.hbase.errors import PausedPeer
from walferry.replication.peers.settings import SETTABLE, SinkKind
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.failures import MAX_REASONS
from walferry.runs.reports.batch import MAX_REASON_CHARS
from walferry.runs.reports.progress import ProgressLog
from walferry.runs.values import Planned, run_of

if TYPE_CHECKING:
    from walferry.engine.summary import GroupSummary

BROKEN_WALS = Param(
    "stop",
    type="string",
    enum=["stop", "whole-entries"],
    title="Broken WALs",
    description="stop: the WAL group stops at the damage, and the report names the offset. whole-entries: a file whose end is "
    "missing ends with its last whole entry. The DAG quarantine_wal gives up what follows the damage in a file.",
)
SINK = Param(
    CONFIGURED,
    type="string",
    enum=[CONFIGURED, *map(str, SinkKind)],
    title="Sink",
    description="How edits are sent to the peer cluster. direct: its regions are written to, at half the cost for the peer "
    "cluster; a peer cluster that refuses it gets the edits by replicate, and the report says so. replicate: some of its "
    "RegionServers take the edits as HBase's own sources send them; for peer clusters whose coprocessors, filters or rights "
    "need that. hfiles: files are made of the edits, which the peer cluster loads at hardly any cost; it needs to write to the "
    "peer cluster's file system. auto: hfiles for a large backlog, otherwise as configured. configured: as the peer's "
    "walferry.sink says, or else the connection's sink, or else direct.",
)
HFILES_FROM = Param(
    None,
    type=["null", "integer"],
    minimum=0,
    maximum=int(SETTABLE["hfiles.from"].most) >> 20,
    title="Files from",
    description="Megabytes of WALs from which the sink auto makes files of them. Empty: as the peer's walferry.hfiles.from says.",
)
MASTER = Param(
    "required",
    type="string",
    enum=["required", MASTER_ABSENT],
    title="HMaster",
    description="required: the source's active HMaster has to confirm what ZooKeeper says about the peers. absent: the source "
    "has no active HMaster, and none comes while the run works, so ZooKeeper alone says it. Read the page on failover first.",
)
SHIP_PARAMS = {"broken_wals": BROKEN_WALS, "sink": SINK, "hfiles_from": HFILES_FROM, "master": MASTER}
NOT_KEPT = "what the run was to drain is not kept any more, or cannot be read: clear its task plan"
# XComs that say in the report why a batch's job was not started.
LEFT_TO, PEER_DOWN = "left_to", "peer_down"


class ShipWalsOperator(SparkJobOperator):
    """Ships the queued WALs of `peer`, or skips itself if `plan` has nothing to ship. Logs the job's progress.

    All else is in the run's parameters: `deadline`, `broken_wals`, `sink`, `hfiles_from`, `master` and `source_conn_id`. A killed
    or failed job may be submitted again at any time: it goes on from the positions in ZooKeeper. A job that came to its end is
    not submitted again, because the next batch ships the groups that failed in it. But the task is tried again if nothing is
    wrong with the groups, and only the source's ZooKeeper was away.

    While a batch's job runs, the run holds the peer lock. The task is skipped if another run holds the lock, or if the peer is
    paused. If the peer cluster is down, the task fails at once and starts no job: the next batch tries again.

    If other peers' files are made with this peer's (hfiles.with), the job makes them too, as far as these peers have queued the
    same WALs. Such a peer's own task waits, without a worker, until this one has ended, and ships what is left.

    A `recovery` drains the queues that its plan has noted (shipping/drains.py). No next batch comes for these queues. The job
    ships the WAL groups that no other run holds, and the task waits for the others until the deadline. The task is tried again
    while the peer cluster is down. A job fails if its deadline ends it before it has shipped all groups. If the task is cleared,
    it goes on from there.

    :param peer: the id of a managed peer
    :param plan: what the task `plan` has returned: which WALs there are to ship
    :param recovery: whether the plan is one of a recovery
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "peer", "plan")

    def __init__(self, *, peer: str, plan: Mapping[str, Any], recovery: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.peer = peer
        self.plan = plan  # the XCom of a walferry.runs.values.Planned
        self.recovery = recovery

    def pre_execute(self, context: Context) -> None:
        """Let the task be killed some time after its deadline, and make its link lead to the peer even if the task is skipped."""
        super().pre_execute(context)
        self.shown = {"source": context["params"]["source_conn_id"], "peer": self.peer}
        deadline = int(context["params"]["deadline"])
        waiting = deadline if self.recovery else 0
        self.execution_timeout = timedelta(seconds=waiting + deadline + STARTUP_SECONDS)

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Take the peer lock, check whether the peer cluster is up, then submit the job and wait for it."""
        from walferry.replication.locks.peer_lock import PeerLocked
        from walferry.runs.steps import batch

        planned = Planned.from_xcom(self.plan)
        if planned.left_to:
            raise AirflowSkipException(planned.left_to)
        if not planned.groups:
            raise AirflowSkipException(f"peer {self.peer}: nothing to ship")
        source = source_of_run(context["params"])
        if self.recovery:
            self._drain(context, source, planned)
            return
        together = Together(context, source, planned)
        planned, shipped = together.after_lead()
        if len(shipped) >= planned.groups:
            self.log.info("The job of the peer with which this one's files are made has shipped everything that was planned.")
            return
        try:
            with batch.holding_peer(source, planned, run_of(context["ti"])):
                self._check_peer_cluster(context, source)
                only = batch.not_held(source, self.peer, shipped) if planned.held or shipped else ()
                if planned.held and not only:  # a job without named groups would ship all groups
                    self._leave(context, f"peer {self.peer}: all that is left to ship is in the hands of recoveries")
                if shipped and not only:
                    return
                with together.holding_others() as also:
                    self._judge(context, self._ship(context, source, planned, only, also))
        except PeerLocked as error:
            self._leave(context, str(error))

    def _drain(self, context: Context, source: SourceCluster, planned: Planned) -> None:
        """Run the job. Run it again for queues that other runs held, once these are free or the deadline is over."""
        from walferry.runs.steps import recovery

        rounds: list[tuple[_EndedJob, bool]] = []

        def ship(free: bool) -> list[str]:
            rounds.append((self._ship(context, source, planned), free))
            return [s.group for s in rounds[-1][0].failed if s.status == "held"]

        recovery.ship_in_rounds(source, planned, int(context["params"]["deadline"]), ship)
        if not rounds:
            raise AirflowFailException(f"peer {self.peer}: {NOT_KEPT}")
        self._judge(context, *rounds[-1])

    def _leave(self, context: Context, to: str) -> NoReturn:
        """Skip the task, and say in the report which run ships the peer."""
        context["ti"].xcom_push(LEFT_TO, to)
        raise AirflowSkipException(to)

    def _check_peer_cluster(self, context: Context, source: SourceCluster) -> None:
        """Raise AirflowFailException if the peer cluster is down: a job would only find out the same, later and at some cost."""
        from walferry.runs.steps import batch

        why = batch.why_down(source, self.peer)
        if why:
            reason = f"peer {self.peer}: no job is started, as its peer cluster is down: {why}"[:MAX_ERROR_CHARS]
            context["ti"].xcom_push(PEER_DOWN, reason)
            raise AirflowFailException(f"{reason}. The backlog is kept, and the next batch tries again")

    def _ship(
        self,
        context: Context,
        source: SourceCluster,
        planned: Planned,
        only: Sequence[str] = (),
        also: Mapping[str, str] | None = None,
    ) -> _EndedJob:
        """Run the job to its end. It ships the WAL groups `only`, or all groups if none are named.

        It makes the files of the peers in `also`, too, which maps their ids to their runs' ids.
        """
        from walferry.hbase.files.quarantine import BrokenWals
        from walferry.runs.steps import batch
        from walferry.shipping.ship_run import ShipRun

        params = context["params"]
        self.summaries_of = planned.run_id
        before = batch.summaries(source, self.peer, planned.run_id)
        run = ShipRun(
            source=batch.for_job(source, self.peer, *(also or {})), peer_id=self.peer, run_id=planned.run_id, also=also or {},
            deadline=int(params["deadline"]),
            groups=tuple(only) or None, recovery=self.recovery, broken_wals=BrokenWals(params["broken_wals"]),
            sink=sink_of(params),
            hfiles_from=None if params["hfiles_from"] is None else int(params["hfiles_from"]) << 20,
        )  # fmt: skip
        try:
            with ProgressLog(source, planned, self.log.info, self.log.warning):
                self.run_job(context, run)
        except PausedPeer as error:
            self._leave(context, str(error))
        except AirflowException as error:
            if paused := batch.why_paused(source, self.peer):  # after its plan was made
                self._leave(context, paused)
            return _EndedJob(error, _failed_groups(before, batch.summaries(source, self.peer, planned.run_id)))
        after = batch.summaries(source, self.peer, planned.run_id) if self.recovery else ()
        return _EndedJob(None, late=[s.group for s in after if s.status == "deadline" and s not in before])

    def _judge(self, context: Context, job: _EndedJob, free: bool = True) -> None:
        """Raise the error that makes Airflow retry a failed job or not. Some groups were `free` when the job began."""
        if job.late:
            raise AirflowFailException(
                f"peer {self.peer}: the deadline of {context['params']['deadline']} s came before all of {', '.join(job.late)} "
                "was shipped. The rest is still queued: clear this task, and it goes on from there"
            )
        if job.error is None:
            return
        if not job.failed:
            raise job.error  # it was killed or could not start: try again
        if self.recovery:  # no next batch comes for its queues
            again = [s for s in job.failed if s.passing or s.status == "peer-down" or (s.status == "held" and free)]
        else:
            again = list(job.failed) if all(s.passing for s in job.failed) else []
        if again:
            raise AirflowException("; ".join(sorted({s.error or s.group for s in again}))[:MAX_ERROR_CHARS]) from job.error
        reasons = [f"{s.group}: {s.status}: {s.error}"[:MAX_REASON_CHARS] for s in job.failed]
        more = [f"and {len(job.failed) - MAX_REASONS:,} more"] if len(job.failed) > MAX_REASONS else []
        raise AirflowFailException(
            f"peer {self.peer}: {count(len(job.failed), 'WAL group')} failed: {'; '.join([*reasons[:MAX_REASONS], *more])}. "
            "The report has all of them"
        ) from job.error


@dataclass(frozen=True)
class _EndedJob:
    """How a job ended: its error, the groups that failed, and the groups that the deadline cut short."""

    error: AirflowException | None
    failed: Sequence[GroupSummary] = ()
    late: Sequence[str] = ()


def _failed_groups(before: Sequence[GroupSummary], after: Sequence[GroupSummary]) -> list[GroupSummary]:
    """Return the groups that failed, if the job has come to an end with all of them; else none.

    Summaries that an earlier job of the same run left do not count: this job may have been killed before it wrote anything. But
    if a job finds a group held, it does not change that group's summary.
    """
    if any(s.status == "running" for s in after):
        return []
    return [s for s in after if s.failed and (s.status == "held" or s not in before)]
