"""The last sequence id of each region that was shipped to a serial peer, as HBase keeps it in ZooKeeper.

    replication/regions/<2 characters>/<2 characters>/<the rest of the encoded name>-<peer>    PBUF ReplicationHLogPosition

An id says that all edits of the region up to it are shipped, whichever servers wrote them. HBase's Master writes the first ids
when a peer becomes serial, and deletes the ids of regions that are gone (ReplicationBarrierCleaner).

Source: ZKReplicationQueueStorage.addLastSeqIdsToOps (branch-2.6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kazoo.client import TransactionRequest
from kazoo.exceptions import NodeExistsError

from walferry.base.zk.client import NOT_AS_READ, Refusal, expected, read, read_all
from walferry.base.zk.errors import Contention
from walferry.hbase.values import decode_position, encode_position
from walferry.replication.source.session import Session

NOTHING_PUSHED = -1
ENCODED_BYTES = 32  # of a region's encoded name; HBase keeps ids for no others
NO_IDS: Mapping[str, int] = {}
IDS_A_MULTI = 2000  # of some 150 bytes each: ZooKeeper takes 1 MiB at once
TRIES = 50


def last_pushed(session: Session, peer_id: str, region: str) -> int:
    """Return the last id of the region that was shipped to the peer; NOTHING_PUSHED without one. Raises PositionError."""
    path = session.nodes.last_pushed_id(region, peer_id)
    found = read(session.zk, path)
    return NOTHING_PUSHED if found is None else decode_position(found.value, path)


@dataclass(frozen=True)
class IdUpdate:
    """The write that raises one id. `version` is the znode's; None creates it."""

    path: str
    value: bytes
    version: int | None

    def add_to(self, multi: TransactionRequest) -> None:
        """Make the write part of a multi."""
        if self.version is None:
            multi.create(self.path, self.value)
        else:
            multi.set_data(self.path, self.value, self.version)


@dataclass(frozen=True)
class PushedIds:
    """Raises a peer's ids. Each `write` is one multi that its holder's lease guards; it returns the first refused operation.

    An id may be written before the position of the WAL that it comes from, but a position never before its ids: nothing would
    raise them any more, and the region's next edits would wait for ever.
    """

    session: Session
    peer_id: str
    write: Callable[[Callable[[TransactionRequest], None]], Refusal | None]

    def raise_all(self, ids: Mapping[str, int]) -> None:
        """Raise the ids of these regions. Higher ids stay. Raises PositionError, Contention, and the errors of `write`."""
        for _ in range(TRIES):
            last = self.raise_all_but_last(ids)
            if not last or self._raised(last):
                return
        raise self._contention()

    def raise_all_but_last(self, ids: Mapping[str, int]) -> Sequence[IdUpdate]:
        """Raise ids until the rest fits into one multi, and return the writes that are left. Raises as `raise_all`."""
        for _ in range(TRIES):
            updates = self._updates(ids) if ids else []
            if len(updates) <= IDS_A_MULTI:
                return updates
            self._raised(updates[:IDS_A_MULTI])
        raise self._contention()

    def _raised(self, updates: Sequence[IdUpdate]) -> bool:
        def operations(multi: TransactionRequest) -> None:
            for update in updates:
                update.add_to(multi)

        return expected(self.write(operations), *NOT_AS_READ) is None

    def _updates(self, ids: Mapping[str, int]) -> list[IdUpdate]:
        paths = {self.session.nodes.last_pushed_id(region, self.peer_id): pushed for region, pushed in ids.items()}
        updates = []
        for (path, pushed), znode in zip(paths.items(), read_all(self.session.zk, list(paths)), strict=True):
            if znode is None:
                updates.append(IdUpdate(path, encode_position(pushed), None))
            elif decode_position(znode.value, path) < pushed:
                updates.append(IdUpdate(path, encode_position(pushed), int(znode.stat.version)))
        self._create_parents([update.path for update in updates if update.version is None])
        return updates

    def _create_parents(self, paths: Sequence[str]) -> None:
        parents = sorted({"/".join(path.split("/")[:-up]) for path in paths for up in (1, 2, 3)}, key=len)
        for parent, znode in zip(parents, read_all(self.session.zk, parents), strict=True):
            if znode is None:
                expected(self.write(lambda multi, parent=parent: multi.create(parent)), NodeExistsError)  # type: ignore[misc]

    def _contention(self) -> Contention:
        return Contention(f"last pushed ids of peer {self.peer_id} were changed {TRIES} times while they were being raised")
