"""Ships WAL groups in processes of this machine, as a Spark job does in its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from walferry.base.users import user_name
from walferry.cli.show import tell
from walferry.cli.workers import Gone, run_all
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.files.quarantine import BrokenWals
from walferry.jobs import ship_run
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.reports.progress import ProgressLog
from walferry.runs.values import Planned


@dataclass(frozen=True)
class ShipTerms:
    """How what is queued is shipped."""

    deadline: int
    broken_wals: BrokenWals
    sink: SinkKind | None
    workers: int

    @classmethod
    def of(cls, *, deadline: int, broken_wals: str, sink: str | None, workers: int) -> ShipTerms:
        """What the options of `walferry.cli.options.shipping` say."""
        return cls(deadline, BrokenWals(broken_wals), SinkKind(sink) if sink else None, workers)


def run_name(command: str) -> str:
    """A name for a run of a command: who, where and when."""
    return f"walferry {command} by {user_name()} at {datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"


def ship_groups(
    source: SourceCluster, planned: Planned, how: ShipTerms, groups: Sequence[str] | None = None, *, recovery: bool = False
) -> list[GroupSummary]:
    """Ship these WAL groups of a peer, or all, or what a recovery's plan has noted, and say on stderr how far it is.

    Raises WalferryError if it may not begin.
    """
    run = ship_run.ShipRun(
        source=source, peer_id=planned.peer, run_id=planned.run_id, deadline=how.deadline, groups=groups, recovery=recovery,
        broken_wals=how.broken_wals, sink=how.sink,
    )  # fmt: skip
    jobs = ship_run.begin(run)
    if any(job.settings.sink.makes_files for job in jobs):
        tell(f"peer {planned.peer}: making files of a backlog needs Spark, so its edits go by {jobs[0].settings.requests}")
    summaries = []
    with ProgressLog(source, planned, tell, tell):
        for job, result in run_all(ship_run.ship, jobs, how.workers):
            if isinstance(result, Gone):
                result = GroupSummary(group=job.group, status=Status.FAILED, error=result.why)
            summaries.append(result)
    ship_run.finish(run, summaries)
    return summaries
