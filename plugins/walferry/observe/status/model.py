"""The status of a source's replication: by source, peer, queue and WAL group.

None always means "not known", and a field next to it says why. Names are HBase's where it has them. Names that begin with a
capital letter in `hbase shell` (`status 'replication'`) begin with a small letter here, as in HBase's metrics. Times are in ms
since the epoch, sizes in bytes. Ids and names are as ZooKeeper has them, so code that shows them escapes them; other texts are
one bounded line.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from walferry.observe.status.ages import Age
from walferry.observe.status.peer_clusters import PeerClusterStatus
from walferry.observe.status.view import Holder


class LagKind(StrEnum):
    """The kinds of queues, as HBase calls them."""

    NORMAL = "Normal"
    RECOVERED = "Recovered"


@dataclass(frozen=True, slots=True)
class BytesLeft:
    """The bytes behind the positions of closed WALs, in files whose sizes are known; `unsure` counts the other WALs."""

    known: int
    unsure: int

    def __add__(self, other: BytesLeft) -> BytesLeft:
        return BytesLeft(self.known + other.known, self.unsure + other.unsure)


@dataclass(frozen=True, slots=True)
class WalStatus:
    """The oldest WAL of a group."""

    name: str
    begun_ms: int  # when the file was begun, as its name says
    position: int | None  # None: `problem` says why it cannot be read
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run's note on a group."""

    run_id: str
    at_ms: int
    status: str
    error: str | None
    broken_off: bool  # it was shipping, but its process ended without a note
    ageOfLastShippedOp: int | None
    timestampOfLastShippedOp: int | None
    shippedBytes: int
    bytes_per_second: float | None  # of the WALs, while it shipped this group; None: it has shipped for too short a time
    bytesDone: int
    bytesToShip: int


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A WAL group in a queue."""

    group: str
    writer: str | None  # the server that wrote it, decoded; None if the name does not contain one
    sizeOfLogQueue: int  # all of its WALs, including the open WAL of a live server
    wals_left: int  # those that can be shipped: all but the open one
    oldest: WalStatus
    bytes_left: BytesLeft | None  # None: no file was read
    replicationLag: Age  # the age of the oldest edit that is not shipped; edits that the peer does not get count until read past
    closed_lag: Age  # the same for the WALs that can be shipped now
    holder: Holder | None  # None: no run ships it
    last_run: LastRun | None  # None: no run has noted anything that is still kept
    last_success_ms: int | None
    error: str | None  # why it was not shipped, since the last success
    failing_since_ms: int | None
    advanced_ms: int | None  # when its position was last set or a WAL last left it, or else its oldest WAL was closed
    valid_through_ms: int  # the peer cluster has all edits that were written before


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue of a peer."""

    peer_id: str
    server: str  # under whose znode it lies
    queue_id: str
    kind: LagKind
    live: bool  # its server adds WALs
    dead_servers: tuple[str, ...]  # that it came from, the first one first, up to the server under which it still lies
    groups: tuple[GroupStatus, ...]
    problems: tuple[str, ...]

    @property
    def sizeOfLogQueue(self) -> int:
        """The number of its WALs."""
        return sum(group.sizeOfLogQueue for group in self.groups)


@dataclass(frozen=True, slots=True)
class ShippingPace:
    """How fast WALs are shipped and when all are. None is not known, and `why` says why."""

    bytes_per_second: float | None
    seconds_left: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """A peer with its queues."""

    id: str
    state: str | None  # ENABLED or DISABLED; None: its znodes cannot be read
    managed: bool | None
    cluster_key: str | None
    paused: bool | None  # by an operator
    refusal: str | None  # why Walferry may not ship it, if it is managed and not only paused
    max_lag: float | None  # seconds that its oldest edit may wait, from its configuration
    max_lag_problem: str | None  # why that setting makes no sense
    peer_cluster: PeerClusterStatus
    peer_lock: Holder | None  # the run that ships it now
    queues: tuple[QueueStatus, ...] | None  # None: the queues cannot be read
    sizeOfLogQueue: int | None
    wals_left: int | None
    bytes_left: BytesLeft | None
    replicationLag: Age
    closed_lag: Age
    ageOfLastShippedOp: int | None  # as the last runs noted it
    timestampOfLastShippedOp: int | None
    sizeOfHFileRefsQueue: int | None
    pace: ShippingPace
    last_success_ms: int | None
    error: str | None
    failing_since_ms: int | None
    stuck: str | None  # what is wrong, if nothing has advanced for long though WALs can be shipped
    valid_through_ms: int | None  # the peer cluster has all edits that were written before, of all servers: valid_through.py


@dataclass(frozen=True, slots=True)
class DeadServerStatus:
    """A dead server whose queues are not shipped yet."""

    name: str
    claimed: bool  # all queues; otherwise some still lie under it
    queues: tuple[str, ...]  # server/queue id


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """A region in transition, of HBase 1."""

    encoded_name: str
    name: str
    state: str
    server: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A source cluster. If it cannot be reached, `unreachable` says why, and nothing else is known."""

    at_ms: int
    unreachable: str | None
    live_servers: tuple[str, ...] | None = None
    dead_servers: tuple[DeadServerStatus, ...] | None = None
    peers: tuple[PeerStatus, ...] | None = None
    orphaned: tuple[QueueStatus, ...] | None = None  # queues of peers that do not exist
    regions_in_transition: int | None = None  # None: HBase 2 keeps them in its Master
    regions: tuple[RegionStatus, ...] = ()  # the first of them
    problems: tuple[str, ...] = ()  # each names its znode
    problems_left_out: int = 0
