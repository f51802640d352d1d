"""Ships WAL groups in processes of this machine, as a Spark job does in its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from walferry.base.users import user_name
from walferry.cli.show import tell
from walferry.engine.summary import GroupSummary
from walferry.hbase.files.quarantine import BrokenWals
from walferry.jobs.workers import LocalProcesses
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.reports.progress import ProgressLog
from walferry.runs.values import Planned
from walferry.shipping.ship_run import ShipRun, ship_queued


@dataclass(frozen=True)
class ShipTerms:
    """How queued WALs are shipped, from the options of `walferry.cli.options.shipping`."""

    deadline: int
    broken_wals: str
    sink: str | None
    workers: int


def run_name(command: str) -> str:
    """Return a name for a run of a command: who, where and when."""
    return f"walferry {command} by {user_name()} at {datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"


def ship_groups(
    source: SourceCluster, planned: Planned, how: ShipTerms, groups: Sequence[str] | None = None, *, recovery: bool = False
) -> list[GroupSummary]:
    """Ship these WAL groups of a peer, or all, or the groups that a recovery's plan has noted, and show the progress on stderr.

    Raises WalferryError if shipping may not begin.
    """
    run = ShipRun(
        source=source, peer_id=planned.peer, run_id=planned.run_id, deadline=how.deadline,
        groups=None if groups is None else tuple(groups), recovery=recovery, broken_wals=BrokenWals(how.broken_wals),
        sink=SinkKind(how.sink) if how.sink else None,
    )  # fmt: skip
    with ProgressLog(source, planned, tell, tell):
        return ship_queued(run, LocalProcesses(how.workers), tell)
