"""Ends what ships a peer that an operator pauses meanwhile."""

from __future__ import annotations

from walferry.hbase.errors import PausedPeer
from walferry.hbase.peers import read_peer
from walferry.shipping.lanes import Lanes
from walferry.shipping.outcome import Outcome
from walferry.source.session import Session


def check_not_paused(session: Session, peer_id: str) -> None:
    """Raises PausedPeer if the peer was paused meanwhile."""
    if read_peer(session.zk, session.nodes, peer_id).paused:
        raise PausedPeer(peer_id)


def end_if_paused(session: Session, peer_id: str, outcome: Outcome, lanes: Lanes) -> None:
    """Stop sending if the peer was paused meanwhile. Requests under way end."""
    try:
        check_not_paused(session, peer_id)
    except PausedPeer as error:
        outcome.note(error)
        lanes.stop()
