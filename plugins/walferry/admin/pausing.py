"""Pauses a managed peer: nothing of it is shipped until it is resumed, and all that is written stays queued.

The mark is a key of the peer's configuration, so it lies where the peer lies, and every run sees it: batches and drains leave the
peer alone and end well. A run that ships the peer meanwhile stops within seconds. The peer's state stays DISABLED all the time.
"""

from __future__ import annotations

from walferry.admin.errors import Refused
from walferry.admin.peers import PeerAdmin
from walferry.replication.peers.reading import Peer, read_peer
from walferry.replication.peers.settings import PAUSED


def pause(admin: PeerAdmin, peer_id: str) -> Peer:
    """Have runs leave the managed peer alone."""
    return _mark(admin, peer_id, paused=True)


def resume(admin: PeerAdmin, peer_id: str) -> Peer:
    """Have runs ship the managed peer again."""
    return _mark(admin, peer_id, paused=False)


def _mark(admin: PeerAdmin, peer_id: str, *, paused: bool) -> Peer:
    if admin.managed(peer_id).paused != paused:
        admin.put_configuration(peer_id, {PAUSED.key: "true" if paused else "false"})
    peer = read_peer(admin.session.zk, admin.session.nodes, peer_id)
    if peer.paused != paused:
        raise Refused(f"peer {peer_id}: another command has changed {PAUSED.key} meanwhile", "Look at the peer, then try again")
    return peer
