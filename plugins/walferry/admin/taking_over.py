"""Takes an existing DISABLED peer over from HBase, with whatever is queued for it."""

from __future__ import annotations

from dataclasses import replace

from walferry.admin.errors import Refused
from walferry.admin.peers import PeerAdmin, finish_command
from walferry.replication.peers.reading import ENABLED, Peer, check_ours, read_peer
from walferry.replication.peers.settings import MANAGED
from walferry.replication.source.agreement import check_agreement


def take_over(admin: PeerAdmin, peer_id: str) -> Peer:
    """Mark an existing DISABLED peer as Walferry's."""
    peer = _disabled(admin, peer_id)
    _refuse_successor(admin, peer)
    check_ours(replace(peer, config={**peer.config, MANAGED.key: "true"}))
    check_agreement(admin.session, peer_id)
    if not peer.managed:
        admin.await_settled(peer)
        _disabled(admin, peer_id)
        admin.put_configuration(peer_id, {MANAGED.key: "true"})
    return admin.shippable(peer_id)


def _refuse_successor(admin: PeerAdmin, peer: Peer) -> None:
    """Raises Refused for a peer that HBase is to ship instead of one that is still ours."""
    before = admin.find(peer.succeeds) if peer.succeeds else None
    if before is not None and before.handed_back_to == peer.id:
        raise Refused(f"peer {before.id} is being handed back to {peer.id}", f"Finish that: {finish_command(before.id, peer.id)}")


def _disabled(admin: PeerAdmin, peer_id: str) -> Peer:
    """The peer as it is now. Raises Refused if it is ENABLED."""
    peer = read_peer(admin.session.zk, admin.session.nodes, peer_id)
    if peer.state == ENABLED:
        raise Refused(
            f"peer {peer_id} is ENABLED: its RegionServers ship it",
            f"Disable it (hbase shell: disable_peer '{peer_id}'), then take it over; what they have not shipped by then stays "
            "queued",
        )
    return peer
