"""Describes one WAL group to ship, as a job's driver hands it to a task. Imports little, so a driver begins at once."""

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
    """Return how many senders each of a job's groups gets. A single group, such as a drained queue, gets all of them."""
    return max(min(LEAST_SENDERS_OF_A_GROUP, senders_of_job), senders_of_job // groups)


@dataclass(frozen=True, kw_only=True)
class GroupJob:
    """One WAL group that one Spark task ships."""

    source: SourceCluster
    peer_id: str
    group: str
    run_id: str
    place: QueuePlace | None = None  # where the driver found the group
    holder: str  # the lease's holder, for people: run, host, process
    deadline: float  # seconds since the epoch; reading, retries and calls to a silent slave end then
    senders: int = LEAST_SENDERS_OF_A_GROUP
    broken_wals: BrokenWals = BrokenWals.STOP
    settings: PeerSettings = field(default_factory=PeerSettings)


@dataclass(frozen=True)
class Left:
    """The summaries of the groups that were loaded as files, and the groups that are left to be shipped by requests."""

    done: Sequence[GroupSummary]
    jobs: Sequence[GroupJob]
