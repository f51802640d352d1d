"""Errors about a cluster's znodes and peers. Each names the znode or peer and says what to do."""

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line, shell_word
from walferry.base.zk.errors import ZNodeValueError

MAX_PROBLEM_CHARS = 2000  # of a peer, whose configuration may contain any text


class PositionError(ZNodeValueError):
    """A queued WAL's position is unreadable."""

    def __init__(self, place: str, reason: str, expected: str = "empty or a PBUF ReplicationHLogPosition") -> None:
        super().__init__(
            place,
            reason,
            f"It should be {expected}. Until it is, nothing of this WAL's group is shipped. "
            "`walferry queues set-position PEER WAL 0` ships the WAL again from its first entry",
        )


class PeerFileError(ZNodeValueError):
    """A file of a peer, in a cluster that keeps its peers in files, is damaged."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            url, reason, "HBase cannot read this peer either. Restore the file; the Master's log may say more", kind="file"
        )


class ClusterError(WalferryError):
    """The HBase cluster behind the ensemble is missing, not running, or of a kind that Walferry cannot serve."""


class MasterSilent(ClusterError):
    """A request to the active Master for its peers failed.

    `refused`: the Master refuses this user. `closed`: it does not accept the login.
    """

    def __init__(self, reason: str, *, refused: bool = False, closed: bool = False) -> None:
        again = "it answers; try again when a master is active, or say that none will be (master=absent)"
        then = "it answers; the user needs global ADMIN" if refused else again
        super().__init__(
            f"the Master could not be asked whether the peers are as ZooKeeper has them: {reason}. Nothing is touched until "
            f"{'it lets us in' if closed else then}"
        )
        self.retry_helps = not refused  # type: ignore[misc]


class StorageError(ClusterError):
    """The cluster does not keep its replication queues or peers where the connection says."""

    retry_helps = False


class NoPeerYet(StorageError):
    """The cluster has never had a peer, so it keeps no queues yet."""


class QueuesMigrating(StorageError):
    """HBase 3's Master is moving the queues from ZooKeeper to its table."""

    retry_helps = True


class PeerError(WalferryError):
    """The peer must not be shipped in its present state."""

    retry_helps = False

    def __init__(self, peer_id: str, reason: str, advice: str) -> None:
        super().__init__(one_line(f"peer {peer_id}: {reason}", MAX_PROBLEM_CHARS), advice)
        self.peer_id = peer_id


class MissingPeer(PeerError):
    """The peer does not exist."""


class EnabledPeer(PeerError):
    """The RegionServers ship this peer themselves."""


class UnmanagedPeer(PeerError):
    """The peer's configuration does not mark it as managed."""


class PausedPeer(PeerError):
    """An operator has paused the peer: runs leave it alone, and end well."""

    def __init__(self, peer_id: str) -> None:
        super().__init__(
            peer_id, "it is paused (walferry.paused=true in its configuration)",
            f"New edits stay queued until `walferry peers resume {shell_word(peer_id)}`",
        )  # fmt: skip


class NoPeerCluster(PeerError):
    """The peer's edits go into a lake or to Kafka."""

    def __init__(self, peer_id: str, target: str) -> None:
        super().__init__(
            peer_id, f"its edits go to {target}, and it has no peer cluster",
            "Batches and recoveries ship it. What needs a peer cluster, such as a comparison, is not for it",
        )  # fmt: skip


class StalePeer(PeerError):
    """The Master and the storage of the peers, ZooKeeper or files, disagree about the peer.

    `folder`: the URL of a folder that may have the peers if `in_files` is wrong.
    """

    def __init__(self, peer_id: str, difference: str, *, in_files: bool = False, folder: str | None = None) -> None:
        where, command = ("files", "filesystem zookeeper") if in_files else ("ZooKeeper", "zookeeper filesystem")
        if in_files:
            remedy = "If HBase keeps its peers in ZooKeeper, take peers_root out of the connection's extra"
        else:
            remedy = f"If HBase keeps its peers in files, set peers_root in the connection's extra to {folder or 'their folder'}"
        super().__init__(
            peer_id,
            difference,
            f"Nothing of it is touched, because its copy in {where} is stale, as after `hbase copyreppeers {command}`. {remedy}",
        )


class ChangingPeer(PeerError):
    """The Master may not have finished a change of a serial peer, or of its tables. The next try may succeed."""

    retry_helps = True


class MasterPresent(WalferryError):
    """A run was told that the source has no active HMaster, but it has one, or ZooKeeper may not know the peers."""


class CustomEndpointPeer(PeerError):
    """The peer has a replication endpoint that is not HBase's own."""


class PeerNotUnderstood(PeerError):
    """The peer's znodes contain something unknown to Walferry, so it cannot decide which edits the peer gets."""


class CustomFilterPeer(PeerError):
    """The peer has custom WAL entry filters, which only HBase can run."""
