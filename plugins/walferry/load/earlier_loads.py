"""Applies earlier loads to runs that ship a WAL group now: edits that are already loaded are left out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from walferry.base.zk.errors import ConnectError
from walferry.hbase.binary_text import from_binary_text
from walferry.load.errors import StaleLoad
from walferry.load.records import Load, loads_of
from walferry.replication.filters.rules import FilterRules
from walferry.replication.peers.reading import Peer
from walferry.replication.source.session import Session


@dataclass(frozen=True)
class LoadedBefore:
    """The edits of still queued WALs that are already loaded, or that are older than an initial snapshot."""

    loads: Collection[Load] = ()

    def rest(self, wal: str, rules: FilterRules) -> FilterRules:
        """Return `rules` without the edits of this WAL that are loaded or copied."""
        if not self.loads:
            return rules
        return rules.without_loaded(self.families(wal)).without_copied(self.families(wal, initial_snapshot=True))

    def families(self, wal: str, *, initial_snapshot: bool = False) -> dict[bytes, frozenset[bytes]]:
        """Return the families, by table, whose edits in this WAL are loaded, or (`initial_snapshot`) older than their copy."""
        found: dict[bytes, frozenset[bytes]] = {}
        for load in self.loads:
            for table, families in load.tables.items() if load.initial_snapshot == initial_snapshot and load.covers(wal) else ():
                name = table.encode()
                found[name] = found.get(name, frozenset()) | set(map(from_binary_text, families))
        return found


NOTHING_LOADED = LoadedBefore()


def loaded_before(session: Session, peer: Peer, group: str) -> LoadedBefore:
    """Return the loads of a group whose lease the caller holds, after ending killed ones. Raises StaleLoad, ConnectError."""
    return LoadedBefore([load for load in end_loads(session, peer, [group]) if load.done and group in load.groups])


def end_loads(session: Session, peer: Peer, groups: Collection[str]) -> list[Load]:
    """Delete the files that killed loads of these groups have left at the peer cluster, so that these loads load nothing more.

    The caller holds the groups' leases. Returns the records of the peer's loads. Raises StaleLoad, ConnectError.
    """
    loads = loads_of(session, peer.id)
    if left := [load for load in loads if load.may_go_on(groups)]:
        from walferry.load.file_loader import clean
        from walferry.replication.peers.peer_tables import peer_tables

        try:
            with peer_tables(peer, session.source.login_to(peer)) as peer_cluster:
                for load in left:
                    clean(load, session.zk, peer_cluster, session.source)
        # the peer cluster's ZooKeeper, most likely: the queue waits, as with a peer cluster that is down
        except ConnectError as error:
            raise StaleLoad(f"what a load that was killed has left at the peer cluster cannot be deleted: {error}") from error
    return loads


def initial_snapshots(session: Session, peer_id: str) -> LoadedBefore:
    """Return the initial snapshots whose older edits are still queued. Raises ConnectError."""
    return LoadedBefore([load for load in loads_of(session, peer_id) if load.done and load.initial_snapshot])
