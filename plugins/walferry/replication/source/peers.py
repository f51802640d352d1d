"""Reads the source's peers: from ZooKeeper, or from files if the source keeps them there (`SourceCluster.peers_root`).

ZooKeeper reports changes of its znodes. Nothing reports a change of a file, or of HBase 3's table of queues, so streams
look again every LOOK_AGAIN_SECONDS.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from walferry.base.errors import WalferryError
from walferry.base.zk.client import Watch, children, has_znode, read
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.cluster import check_queues
from walferry.hbase.errors import MissingPeer, PeerError
from walferry.hbase.peer_files import ids_in, peer_folder, read_peer_files
from walferry.replication.peers.reading import Peer, check_shippable, peer_of, peer_of_files
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session

LOOK_AGAIN_SECONDS = 60.0


@dataclass(frozen=True)
class PeerListing:
    """The peers that could be read, and why the others could not."""

    peers: tuple[Peer, ...]
    unreadable: Mapping[str, ZNodeValueError]  # by id

    @property
    def problems(self) -> tuple[WalferryError, ...]:
        """Why the other peers could not be read."""
        return tuple(self.unreadable.values())


def read_peer(session: Session, peer_id: str) -> Peer:
    """Read one peer. Raises MissingPeer, StorageError, ZNodeValueError, StoreError."""
    if peer_id in ("", ".", "..") or "/" in peer_id or not peer_id.isprintable():
        raise MissingPeer(peer_id, "no peer can have such an id", f"Peers here: {_names(session)}")
    peer = _found(session, peer_id)
    if peer is None:
        check_storage(session)
        raise MissingPeer(
            peer_id, f"it does not exist: there is no {place_of(session, peer_id)}", f"Peers here: {_names(session)}"
        )
    return peer


def read_peers(session: Session) -> PeerListing:
    """Read all peers. Raises StorageError, StoreError."""
    ids = peer_ids(session)
    if not ids:
        check_storage(session)
    peers: list[Peer] = []
    unreadable: dict[str, ZNodeValueError] = {}
    for peer_id in ids or ():
        try:
            peers.append(read_peer(session, peer_id))
        except MissingPeer:
            continue  # removed after the listing
        except ZNodeValueError as error:
            unreadable[peer_id] = error
    return PeerListing(tuple(peers), unreadable)


def peers_to_ship(session: Session, watch: Watch | None = None) -> tuple[Peer, ...]:
    """Return the managed peers that Walferry may ship as they are now.

    `watch` is called once, in a thread of the client, when a peer comes, goes or changes, or when the connection is lost. Peers
    in files cannot be watched. Raises StorageError, StoreError.
    """
    if watch is not None and session.source.peers_root is None:
        for peer_id in children(session.zk, session.nodes.peers, watch) or ():
            has_znode(session.zk, session.nodes.peer(peer_id), watch)
            has_znode(session.zk, session.nodes.peer_state(peer_id), watch)
    found = []
    for peer in read_peers(session).peers:
        with suppress(PeerError):
            check_shippable(peer)
            found.append(peer)
    return tuple(found)


def successor(session: Session, peer: Peer) -> Peer | None:
    """Return the peer through which HBase is to ship instead of this one, if a hand-back has begun and that peer exists."""
    if peer.handed_back_to is None:
        return None
    try:
        return read_peer(session, peer.handed_back_to)
    except MissingPeer:
        return None


def peer_ids(session: Session) -> list[str] | None:
    """List the peers' ids; None if there is no place for peers. With peers in files, some may not be peers. Raises StoreError."""
    root = session.source.peers_root
    return children(session.zk, session.nodes.peers) if root is None else ids_in(root)


def has_peer(session: Session, peer_id: str) -> bool:
    """Return whether the peer exists, whatever it is. Raises PeerFileError, StoreError."""
    root = session.source.peers_root
    if root is None:
        return read(session.zk, session.nodes.peer(peer_id)) is not None
    return read_peer_files(root, peer_id) is not None


def check_storage(session: Session) -> None:
    """Check that the cluster keeps its replication queues, and its peers unless they are in files, in ZooKeeper.

    Raises StorageError.
    """
    check_queues(session.zk, session.nodes, peers_in_files=session.source.peers_root is not None)


def look_again_seconds(source: SourceCluster) -> float | None:
    """Return after how many seconds a change of a peer or a queue is looked for; None if ZooKeeper reports it."""
    return LOOK_AGAIN_SECONDS if source.peers_root is not None or source.nodes.in_table else None


def place_of(session: Session, peer_id: str) -> str:
    """Return the znode or the URL of the folder of a peer, for messages."""
    root = session.source.peers_root
    return session.nodes.peer(peer_id) if root is None else peer_folder(root, peer_id)


def _found(session: Session, peer_id: str) -> Peer | None:
    root, zk, nodes = session.source.peers_root, session.zk, session.nodes
    if root is not None:
        files = read_peer_files(root, peer_id)
        return None if files is None else peer_of_files(peer_id, files)
    config = read(zk, nodes.peer(peer_id))
    state = read(zk, nodes.peer_state(peer_id))
    if config is None or state is None:
        return None
    return peer_of(zk, nodes, peer_id, config.value, state.value, children(zk, nodes.peer(peer_id)) or ())


def _names(session: Session) -> str:
    return ", ".join(peer_ids(session) or ()) or "none"
