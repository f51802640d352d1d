"""Takes an existing DISABLED peer over from HBase, with whatever is queued for it."""

from __future__ import annotations

import logging
from dataclasses import replace

from walferry.admin.errors import Refused
from walferry.admin.peers import PeerAdmin
from walferry.hbase.peers import ENABLED, MANAGED_KEY, Peer, check_ours, read_peer
from walferry.queues.lease import settling_seconds
from walferry.source.agreement import check_agreement
from walferry.zk.client import just_written, read

log = logging.getLogger(__name__)


def take_over(admin: PeerAdmin, peer_id: str) -> Peer:
    """Mark an existing DISABLED peer as Walferry's."""
    peer = read_peer(admin.session.zk, admin.session.nodes, peer_id)
    if peer.state == ENABLED:
        raise Refused(
            f"peer {peer_id} is ENABLED: its RegionServers ship it",
            f"Disable it (hbase shell: disable_peer '{peer_id}'), then take it over; what they have not shipped by then stays "
            "queued",
        )
    check_ours(replace(peer, config={**peer.config, MANAGED_KEY: "true"}))
    check_agreement(admin.session, peer_id)
    if not peer.managed:
        _await_settled(admin, peer_id)
        admin.put_configuration(peer_id, {MANAGED_KEY: "true"})
    return admin.shippable(peer_id)


def _await_settled(admin: PeerAdmin, peer_id: str) -> None:
    """Wait until no RegionServer can still be shipping for a peer that was disabled a moment ago."""
    session = admin.session
    state = read(session.zk, session.nodes.peer_state(peer_id))
    pause = settling_seconds(state, just_written(session.zk, f"{session.source.root}/clock")) if state else 0.0
    if pause > 0:
        log.info("peer %s was disabled a moment ago; waiting %.0f s, as RegionServers may still ship for it", peer_id, pause)
        admin.sleep(pause)
