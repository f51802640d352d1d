"""Keeps a run that was overtaken from loading older files after newer edits.

If a driver is paused for longer than its ZooKeeper session lasts, another run may take the peer lock, complete the copy and ship
the queue. Meanwhile the tasks of the first run may still be alive. So

    - each write to the copy's records succeeds only while the attempt holds the peer lock, and the peer's state is as it was
      before the attempt took its snapshots: if the peer was enabled since, HBase has shipped edits newer than the snapshots;
    - a task notes its staging folder before it puts files there, and checks right before each load that its record is
      unchanged;
    - a run that goes on with a copy, whichever tables it copies, and a task that goes on with a region, first have the
      peer cluster delete the staging folders that are noted there.

So a load that was checked in time but reaches the peer cluster late finds no files, and puts nothing on top of newer edits
(load/staging.py). If the peer cluster does not delete a folder, the copy stops. Requests of a scan have no folder, but their own
fence (replication/locks/peer_lock.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kazoo.client import TransactionRequest

from walferry.base.zk.client import Refusal, commit, retried
from walferry.load.errors import Overtaken
from walferry.replication.locks.peer_lock import turn_of_attempt
from walferry.replication.source.peer_state import look, state_path
from walferry.replication.source.session import Session


@dataclass(frozen=True)
class Claim:
    """The right of an attempt to change a copy's records, in the form that any process of its job can use."""

    session: Session
    peer_id: str
    attempt: str
    peer_version: int  # of the peer state's znode, when the peer was disabled and no snapshot was taken yet

    def commit(self, operations: Callable[[TransactionRequest], object]) -> Refusal | None:
        """Send a multi that succeeds only while the attempt holds the peer lock and the peer has not been enabled.

        It may be sent again after a lost answer. Returns the first refused operation. Raises Overtaken,
        StoreError, ConnectError.
        """
        zk, path, state = self.session.zk, self.session.own.peer_lock(self.peer_id), state_path(self.session, self.peer_id)
        while True:
            look(self.session, self.peer_id)
            turn = turn_of_attempt(self.session, self.peer_id, self.attempt)
            if turn is None:
                raise Overtaken(
                    f"another run has taken over the initial snapshot of peer {self.peer_id}", "It goes on where this one stopped"
                )

            def send(turn: int = turn) -> Refusal | None:
                multi = zk.transaction()
                multi.check(path, turn)
                multi.check(state, self.peer_version)
                operations(multi)
                return commit(multi)

            refusal = retried(zk, send)
            if refusal is None or refusal.operation > 1:
                return refusal and Refusal(refusal.operation - 2, refusal.error)
            if refusal.operation == 1:
                raise Overtaken(
                    f"{state} has changed since the initial snapshot of peer {self.peer_id} began: the peer may have been "
                    "enabled, and HBase may have shipped newer edits",
                    "Once the peer is disabled, run the initial snapshot again",
                )
            retried(zk, zk.sync, path)  # another turn has begun: perhaps this attempt's own, after a lost session
