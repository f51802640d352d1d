"""What can be wrong with a cluster's ZooKeeper, each with the znode or name it is about and what to do."""


class ZkError(Exception):
    """Base of everything walferry.zk raises on its own account."""


class ConnectError(ZkError):
    """The ensemble did not answer in time."""


class ZNodeValueError(ZkError):
    """A znode's bytes are not what HBase writes there."""

    def __init__(self, znode: str, reason: str, advice: str) -> None:
        super().__init__(f"znode {znode}: {reason}. {advice}")
        self.znode = znode
        self.reason = reason


class PositionError(ZNodeValueError):
    """A queued WAL's position cannot be read."""

    def __init__(self, znode: str, reason: str) -> None:
        super().__init__(
            znode,
            reason,
            "It should be empty or a PBUF ReplicationHLogPosition. Nothing of this WAL's group is shipped until it is: "
            "deleting the znode gives the WAL up, an empty value ships it again from its first entry",
        )


class ClusterError(ZkError):
    """The HBase cluster behind the ensemble is missing, not running, or of a kind we cannot serve."""


class MasterSilent(ClusterError):
    """The active Master could not be asked for its peers."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the Master could not be asked whether the peers are what ZooKeeper says: {reason}. Nothing is touched until it "
            "answers; try again when a master is active (with AccessController the user needs global ADMIN)"
        )


class StorageError(ClusterError):
    """Replication queues or peers are not kept in ZooKeeper (HBase 3, or peers in the file system)."""


class PeerError(ZkError):
    """A peer that must not be shipped as it is now."""

    def __init__(self, peer_id: str, reason: str, advice: str) -> None:
        super().__init__(f"peer {peer_id}: {reason}. {advice}")
        self.peer_id = peer_id


class MissingPeer(PeerError):
    """No such peer."""


class EnabledPeer(PeerError):
    """The RegionServers ship this peer themselves."""


class UnmanagedPeer(PeerError):
    """The peer's configuration does not say that it is ours."""


class StalePeer(PeerError):
    """The Master knows the peer otherwise than ZooKeeper."""

    def __init__(self, peer_id: str, difference: str) -> None:
        super().__init__(
            peer_id,
            difference,
            "Nothing of it is touched: what ZooKeeper says of it is stale, as after `hbase copyreppeers zookeeper filesystem`. "
            "Walferry serves peers in ZooKeeper only (hbase.replication.peer.storage.impl=zookeeper)",
        )


class SerialPeer(PeerError):
    """The peer wants an order across servers that we do not keep."""


class CustomEndpointPeer(PeerError):
    """The peer's edits go somewhere else than into an HBase cluster's ordinary sink."""


class CustomFilterPeer(PeerError):
    """The peer's edits go through filters of somebody else's, which only HBase can run."""


class QueuesMoving(ZkError):
    """HBase kept moving queues while they were read."""


class WalGone(ZkError):
    """A WAL is queued nowhere for its peer any more."""

    def __init__(self, peer_id: str, wal: str) -> None:
        super().__init__(
            f"WAL {wal} is in no queue of peer {peer_id} any more: somebody else finished it, or the peer was removed. Plan again"
        )
        self.peer_id = peer_id
        self.wal = wal


class LastWal(ZkError):
    """A live server may still be writing to this WAL: its group has no newer one in the queue."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is the newest WAL of its group in a live server's queue; it stays there until that server rolls to another"
        )
        self.path = path


class LeaseHeld(ZkError):
    """Somebody else works on this WAL group."""

    def __init__(self, peer_id: str, group: str, holder: str, since: str) -> None:
        super().__init__(
            f"WAL group {group} of peer {peer_id} is held by {holder} since {since}. "
            "Wait for it to end; a dead holder's lease goes with its ZooKeeper session"
        )
        self.peer_id = peer_id
        self.group = group
        self.holder = holder
        self.since = since


class LeaseLost(ZkError):
    """This holder's session or lease is gone: it may move nothing any more."""

    def __init__(self, peer_id: str, group: str, reason: str) -> None:
        super().__init__(f"the lease on WAL group {group} of peer {peer_id} is lost: {reason}. A new run acquires a new one")
        self.peer_id = peer_id
        self.group = group


class LiveServer(ZkError):
    """The server whose queues were to be claimed is alive."""

    def __init__(self, server: str) -> None:
        super().__init__(f"{server} is alive: its queues are its own. Only a dead server's queues are claimed")
        self.server = server


class ClaimHeld(ZkError):
    """Somebody else claims this server's queues."""

    def __init__(self, server: str, holder: str, since: str) -> None:
        super().__init__(
            f"the queues of {server} are being claimed by {holder} since {since}. Wait for it to end; if it has died, its claim "
            "is free as soon as its ZooKeeper session has ended"
        )
        self.server = server
        self.holder = holder


class ClaimLost(ZkError):
    """This claimer's session or claim is gone: it may move nothing any more."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"the claim on the queues of {server} is lost: {reason}. A new try goes on where this one stopped")
        self.server = server


class NoTarget(ZkError):
    """There is no live server that could hold claimed queues."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"the queues of {server} cannot be claimed: in this layout a live RegionServer holds claimed queues, and none is "
            "live. They can be drained where they are, or claimed when a RegionServer is up"
        )
        self.server = server
