"""Checks whether an operator has paused a peer meanwhile."""

from __future__ import annotations

from walferry.hbase.errors import PausedPeer
from walferry.replication.peers.reading import read_peer
from walferry.replication.source.session import Session


def why_paused(session: Session, peer_id: str) -> PausedPeer | None:
    """Return the error that says that the peer is paused; None if it is not. Raises PeerError, ConnectError."""
    return PausedPeer(peer_id) if read_peer(session.zk, session.nodes, peer_id).paused else None


def check_not_paused(session: Session, peer_id: str) -> None:
    """Raise PausedPeer if the peer is paused. Raises PeerError, ConnectError."""
    if (why := why_paused(session, peer_id)) is not None:
        raise why
