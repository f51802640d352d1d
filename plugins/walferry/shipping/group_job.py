"""Describes what a job's driver hands to a task: one WAL group to ship. Imports little, so a driver begins at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from walferry.engine.summary import GroupSummary
from walferry.hbase.files.quarantine import BrokenWals
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.queues.queue import QueuePlace
from walferry.replication.source.cluster import SourceCluster

LEAST_SENDERS_OF_A_GROUP = 2


def senders_of_each(groups: int, senders_of_job: int) -> int:
    """Return how many senders each of a job's groups gets. A single group, such as a drained queue, gets all of them."""
    return max(min(LEAST_SENDERS_OF_A_GROUP, senders_of_job), senders_of_job // groups)


@dataclass(frozen=True, kw_only=True)
class ShippingJob:
    """What every attempt at a group needs: the peer of a source, the run, and how edits are sent."""

    source: SourceCluster
    peer_id: str
    run_id: str
    deadline: float  # seconds since the epoch; reading, retries and calls to a silent peer cluster end then
    senders: int = LEAST_SENDERS_OF_A_GROUP
    settings: PeerSettings = field(default_factory=PeerSettings)
    lake: str | None = None  # the catalog of Iceberg that the edits go to; None: they go to the peer's cluster


@dataclass(frozen=True, kw_only=True)
class GroupJob(ShippingJob):
    """One WAL group that one Spark task ships."""

    group: str
    place: QueuePlace | None = None  # where the driver found the group
    holder: str  # the lease's holder, for people: run, host, process
    broken_wals: BrokenWals = BrokenWals.STOP
    serial_tables: PeerTables | None = None  # what a serial peer got when the job began; None: it was not serial


def left_to_itself(peer_id: str, why: str) -> str:
    """Return the line that says why a peer's files are not made together with another peer's."""
    return f"peer {peer_id} is left to its own run: {why}"


@dataclass(frozen=True)
class Left:
    """The summaries of the groups that were loaded as files, and the groups that are left to be shipped by requests."""

    done: Sequence[GroupSummary]
    jobs: Sequence[GroupJob]
