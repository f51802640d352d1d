"""Hands a peer back to HBase, which ships again through a new peer.

    1. begin:   a new ENABLED peer beside ours, with its cluster key and filters; HBase ships what is written from now on
    2. Walferry's batches drain the rest of ours
    3. finish:  ours is removed, once nothing depends on it
"""

from __future__ import annotations

from walferry.admin.backlog import listed, refuse_odd_queues
from walferry.admin.errors import Refused
from walferry.admin.peers import OWN_KEYS, PeerAdmin, check_id, without_own_keys
from walferry.hbase.peers import ENABLED, HANDED_BACK_KEY, Peer, check_ours, read_peer
from walferry.queues.reading import read_queues
from walferry.rpc import master
from walferry.shipping.plan import plan_peer


def begin_hand_back(admin: PeerAdmin, peer_id: str, new_id: str) -> Peer:
    """Let HBase itself ship what is written from now on, by a new ENABLED peer `new_id`. Returns the new peer."""
    peer = admin.managed(peer_id)
    check_ours(peer)
    check_id(new_id)
    begun = peer.config.get(HANDED_BACK_KEY)
    if begun is not None and begun != new_id and admin.find(begun):
        raise Refused(f"peer {peer_id} is being handed back to {begun} already", f"Go on with --to {begun}")
    new = admin.find(new_id)
    if new is None:
        admin.put_configuration(peer_id, {HANDED_BACK_KEY: new_id})
        _add_enabled_copy(admin, peer_id, new_id)
    elif begun != new_id:
        raise Refused(f"peer {new_id} exists already", "Choose an id that is not taken")
    new = _check_successor(admin, peer, new_id)
    admin.await_queues(new_id)
    return new


def finish_hand_back(admin: PeerAdmin, peer_id: str, new_id: str) -> None:
    """Remove our peer, if each WAL in its queues is shipped whole or queued for the new peer too."""
    peer = admin.managed(peer_id)
    if peer.config.get(HANDED_BACK_KEY) != new_id:
        raise Refused(f"peer {peer_id} has not been handed back to {new_id}", "Do that first, without --finish")
    _check_successor(admin, peer, new_id)
    plan = plan_peer(admin.session, peer_id)  # what is shipped stays shipped, so this may be read first
    shipped = {wal.name for group in plan.groups for wal in group.wals if wal.finished}
    ours = read_queues(admin.session, peer_id)
    theirs = {wal.name.text for queue in read_queues(admin.session, new_id) for wal in queue.wals}
    waiting = {wal.name.text for queue in ours for wal in queue.wals} - theirs - shipped
    refuse_odd_queues(ours)
    if waiting:
        raise Refused(
            f"{listed(waiting, plan)} queued for {peer_id} alone", "Let a batch ship it (roll first), then finish again"
        )
    admin.delete(peer_id)


def _add_enabled_copy(admin: PeerAdmin, peer_id: str, new_id: str) -> None:
    with admin.master() as connection:
        config = master.get_peer(connection, peer_id)
        kept = [pair for pair in config.configuration if not pair.name.startswith(OWN_KEYS)]
        del config.configuration[:]
        config.configuration.extend(kept)
        master.add_peer(connection, new_id, config, enabled=True)


def _check_successor(admin: PeerAdmin, peer: Peer, new_id: str) -> Peer:
    """The peer that HBase ships instead of ours. Raises Refused unless it ships all that ours did."""
    new = read_peer(admin.session.zk, admin.session.nodes, new_id)
    if new.managed or new.state != ENABLED:
        raise Refused(f"peer {new_id} is {new.state}{' and managed' if new.managed else ''}; HBase ships ENABLED ones only")
    if without_own_keys(new) != without_own_keys(peer):
        raise Refused(f"peer {new_id} has another slave or other filters than {peer.id}", "Make them the same, or remove it")
    return new
