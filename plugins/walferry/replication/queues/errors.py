"""Errors of changes to replication queues: another holder, a lost lease, a queue that is gone."""

from walferry.base.errors import WalferryError
from walferry.base.zk.errors import Contention


class QueuesMoving(Contention):
    """HBase kept moving queues while they were read."""


class WalGone(WalferryError):
    """A WAL is in no queue of its peer any more."""

    def __init__(self, peer_id: str, wal: str) -> None:
        super().__init__(
            f"WAL {wal} is in no queue of peer {peer_id} any more: another run finished it, or the peer was removed. Plan again"
        )


class LastWal(WalferryError):
    """A live server may still be writing to this WAL: its group has no newer one in the queue."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is the newest WAL of its group in a live server's queue; it stays there until that server rolls to another"
        )


class LeaseHeld(WalferryError):
    """Another run holds this WAL group."""

    def __init__(self, peer_id: str, group: str, holder: str, since: str) -> None:
        super().__init__(
            f"WAL group {group} of peer {peer_id} is held by {holder} since {since}. "
            "Wait for it to end; a dead holder's lease goes with its ZooKeeper session"
        )
        self.holder = holder


class PeerSettling(WalferryError):
    """A peer was disabled a moment ago, and calls of its RegionServers may still take effect."""


class LeaseLost(WalferryError):
    """This holder's session or lease is gone: it may not change anything any more."""

    def __init__(self, peer_id: str, group: str, reason: str) -> None:
        super().__init__(f"the lease on WAL group {group} of peer {peer_id} is lost: {reason}. A new run acquires a new one")


class LiveServer(WalferryError):
    """The server whose queues were to be claimed is alive, so it keeps them."""

    retry_helps = False

    def __init__(self, server: str) -> None:
        super().__init__(f"{server} is alive: its queues are its own. Only a dead server's queues are claimed")


class ClaimHeld(WalferryError):
    """Another run or a RegionServer claims this server's queues."""

    def __init__(self, server: str, holder: str, since: str) -> None:
        super().__init__(
            f"the queues of {server} are being claimed by {holder} since {since}. Wait for it to end; if it has died, its claim "
            "is free as soon as its ZooKeeper session has ended"
        )


class ClaimLost(WalferryError):
    """This claimer's session or claim is gone: it may not move anything any more."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"the claim on the queues of {server} is lost: {reason}. The next try continues where this one stopped")


class NoTarget(WalferryError):
    """No live server could hold the claimed queues."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"the queues of {server} cannot be claimed: in this layout a live RegionServer holds claimed queues, and none is "
            "live. They can be drained where they are, or claimed when a RegionServer is up"
        )
