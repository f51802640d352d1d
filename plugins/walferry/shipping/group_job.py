"""One WAL group to ship: what the driver of a job hands to each of its tasks. It imports little, so a driver begins at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from walferry.engine.summary import GroupSummary
from walferry.hbase.files.quarantine import BrokenWals
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.queues.finding import QueuePlace
from walferry.replication.source.cluster import SourceCluster

LEAST_SENDERS_OF_A_GROUP = 2


def senders_of_each(groups: int, senders_of_job: int) -> int:
    """How many senders each of a job's groups has. A single group, for example a drained queue, has all of them."""
    return max(min(LEAST_SENDERS_OF_A_GROUP, senders_of_job), senders_of_job // groups)


@dataclass(frozen=True, kw_only=True)
class GroupJob:
    """One WAL group to ship, by one Spark task."""

    source: SourceCluster
    peer_id: str
    group: str
    run_id: str
    place: QueuePlace | None = None  # where the driver has seen the group
    holder: str  # the lease's holder, for people: run, host, process
    deadline: float  # seconds since the epoch; then reading stops, retries end, and calls of a silent slave do
    senders: int = LEAST_SENDERS_OF_A_GROUP
    broken_wals: BrokenWals = BrokenWals.STOP
    settings: PeerSettings = field(default_factory=PeerSettings)


@dataclass(frozen=True)
class Left:
    """What is done of a backlog by loading files, and the groups that are left to be shipped by requests."""

    done: Sequence[GroupSummary]
    jobs: Sequence[GroupJob]
