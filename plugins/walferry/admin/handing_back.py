"""Hands a peer back to HBase, which ships again through a new peer.

    1. begin:   adds a new peer, DISABLED, with the cluster key and filters of ours. Its queues collect new edits
    2. Walferry's batches ship our peer's backlog, and edits that are written meanwhile
    3. finish:  ours is paused, and nothing of it can reach the peer cluster any more; then it is removed, and the new one is
    enabled

The two peers never ship at the same time. Otherwise older edits of our backlog would be written over newer edits that HBase has
shipped, and cells with equal timestamps would stay wrong. If a peer was never enabled, HBase begins each of its queued WALs at
the first byte. So HBase ships again, in their order, the edits of WALs that both peers have queued, whatever we have shipped
of them: in the end the newest edits count.

Each of the two peers names the other one. A step that was killed is repeated. If our peer is gone by then, and the new one is
still as it was added, finish goes on with the new one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from walferry.admin.changing import pause, resume
from walferry.admin.peers import PeerAdmin, Refused, begin_new_wals, check_id, without_own_keys
from walferry.admin.removing import listed, refuse_odd_queues
from walferry.admin.rights import all_rights, refuse_if_held
from walferry.admin.showing import scope
from walferry.base.errors import WalferryError
from walferry.base.texts import shell_word
from walferry.base.users import user_name
from walferry.hbase.errors import MissingPeer
from walferry.hbase.rpc import master
from walferry.load.copy_records import check_copied
from walferry.load.earlier_loads import end_loads
from walferry.replication.peers.reading import ENABLED, Peer, check_ours
from walferry.replication.peers.settings import HANDED_BACK_TO, PREFIX, SUCCEEDS
from walferry.replication.queues.reading import read_queues
from walferry.replication.source.agreement import check_agreement, check_queues_complete
from walferry.replication.source.peer_state import was_enabled
from walferry.replication.source.peers import read_peer, successor
from walferry.shipping.plan import plan_peer

log = logging.getLogger(__name__)


class NotShipped(Refused):
    """WALs are queued for our peer alone. Batches go on to ship them."""

    retry_helps = True


def preview(admin: PeerAdmin, peer_id: str, new_id: str) -> list[str]:
    """Say what both steps would do. Changes nothing. Raises as `begin_hand_back`."""
    peer, begun = _to_begin(admin, peer_id, new_id)
    groups = plan_peer(admin.session, peer_id).groups
    wals = sum(not wal.finished for group in groups for wal in group.wals)
    size = sum(group.bytes_left for group in groups)
    collects = "is there already, DISABLED, and collects" if begun else "is added, DISABLED, and from then on collects"
    return [
        f"peer cluster: {peer.cluster_key}",
        f"peer {new_id} {collects} edits of {scope(peer)}",
        f"a batch ships what is queued for {peer_id} alone: {wals:,} closed WALs, at least {size:,} bytes, and those in use",
        f"{peer_id} is removed together with its queues; Walferry ships nothing by it any more",
        f"{new_id} is enabled: HBase ships, also once more the edits of WALs that are queued for both",
    ]


def begin_hand_back(admin: PeerAdmin, peer_id: str, new_id: str) -> Peer:
    """Add a DISABLED peer `new_id` by which HBase is to ship instead of our peer, and return it."""
    peer, begun = _to_begin(admin, peer_id, new_id)
    if begun is None:
        admin.put_configuration(peer_id, {HANDED_BACK_TO.key: new_id})
        begin_new_wals(admin)
        _add_copy(admin, peer_id, new_id)
        if (other := admin.managed(peer_id).handed_back_to) != new_id:
            raise Refused(
                f"peer {peer_id} is being handed back to {other} by another run, which began at the same time",
                f"Go on with {other}, and remove peer {new_id} in HBase's shell",
            )
    elif begun.succeeds != peer_id and not begun.managed:  # an earlier version of this code has added it
        admin.put_configuration(new_id, {SUCCEEDS.key: peer_id})
    new = _check_successor(admin, peer, new_id)
    admin.await_queues(new_id)
    return new


def _to_begin(admin: PeerAdmin, peer_id: str, new_id: str) -> tuple[Peer, Peer | None]:
    """Return our peer, and the new one if it was added before. Raises Refused, PeerError, CopyUnderWay."""
    session = admin.session
    peer = admin.managed(peer_id)
    check_ours(peer)
    if not peer.in_hbase:
        raise Refused(f"peer {peer_id} goes to {peer.target}, to which HBase cannot ship", "`peers remove` ends it")
    check_id(new_id)
    check_copied(session, peer_id)
    begun = successor(session, peer)
    if begun is not None and begun.id != new_id:
        raise Refused(f"peer {peer_id} is being handed back to {begun.id} already", f"Go on with {begun.id}")
    if begun is None and admin.find(new_id):
        raise Refused(f"peer {new_id} exists already", "Choose an id that is not taken")
    return peer, begun


def finish_hand_back(admin: PeerAdmin, peer_id: str, new_id: str) -> None:
    """Remove our peer, if each WAL in its queues is shipped whole or queued for the new peer too, and enable the new peer."""
    session = admin.session
    holder = f"the end of its hand-back to {new_id}, by {user_name()}"
    if admin.find(peer_id) is None:
        _go_on(admin, peer_id, new_id, holder)
        return
    peer = admin.managed(peer_id)
    if peer.handed_back_to != new_id:
        raise Refused(f"peer {peer_id} has not been handed back to {new_id}", "Do that first, without --finish")
    check_ours(peer)
    check_copied(session, peer_id)
    admin.await_settled(_check_successor(admin, peer, new_id))
    refuse_if_held(session, peer_id)
    _check_shipped(admin, peer, new_id)  # before any run is stopped
    with _paused(admin, peer), all_rights(admin, peer_id, holder) as rights:
        end_loads(session, peer, rights.groups)
        rights.await_quiet()
        _check_successor(admin, peer, new_id)
        _check_shipped(admin, peer, new_id)
        if not read_peer(session, peer_id).paused:
            raise Refused(f"peer {peer_id} was resumed meanwhile", "Try again")
        rights.check()
        admin.delete(peer_id)
        _enable(admin, new_id)


def _go_on(admin: PeerAdmin, peer_id: str, new_id: str, holder: str) -> None:
    """Enable the new peer if our peer was removed before."""
    session = admin.session
    check_agreement(session, peer_id)
    check_agreement(session, new_id)
    new = read_peer(session, new_id)
    if new.succeeds != peer_id or new.managed:
        raise MissingPeer(peer_id, "it does not exist", f"Nor is peer {new_id} one that was added by handing it back")
    if new.state == ENABLED:
        return
    if was_enabled(session, new_id):  # perhaps by the finish itself, long ago
        raise Refused(
            f"peer {peer_id} is gone, and {new_id} was ENABLED before it was disabled again",
            f"If HBase is to ship it: enable_peer '{new_id}' in HBase's shell",
        )
    with all_rights(admin, peer_id, holder) as rights:
        rights.await_quiet()
        _enable(admin, new_id)


def _enable(admin: PeerAdmin, new_id: str) -> None:
    with admin.master() as connection:
        master.enable_peer(connection, new_id)


@contextmanager
def _paused(admin: PeerAdmin, peer: Peer) -> Iterator[None]:
    """Make runs leave the peer alone while the block runs. If the block fails, resume the peer unless it was paused before."""
    if not peer.paused:
        pause(admin, peer.id)
    try:
        yield
    except BaseException:
        if not peer.paused:
            _resume(admin, peer.id)
        raise


def _resume(admin: PeerAdmin, peer_id: str) -> None:
    try:
        if admin.find(peer_id) is not None:
            resume(admin, peer_id)
    except WalferryError as error:
        log.warning("peer %s stays paused until `walferry peers resume %s`: %s", peer_id, shell_word(peer_id), error)


def _add_copy(admin: PeerAdmin, peer_id: str, new_id: str) -> None:
    with admin.master() as connection:
        config = master.get_peer(connection, peer_id)
        kept = [pair for pair in config.configuration if not pair.name.startswith(PREFIX)]
        del config.configuration[:]
        config.configuration.extend(kept)
        config.configuration.add(name=SUCCEEDS.key, value=peer_id)
        master.add_peer(connection, new_id, config, enabled=False)


def _check_successor(admin: PeerAdmin, peer: Peer, new_id: str) -> Peer:
    """Return the peer that HBase is to ship instead of ours. Raises Refused if it would not, or does so already."""
    new = read_peer(admin.session, new_id)
    if new.managed:
        raise Refused(f"peer {new_id} is managed, so HBase must never ship it", "Choose another id")
    if new.succeeds != peer.id:
        raise Refused(
            f"peer {new_id} is not marked as the one that is to succeed {peer.id}", "Hand back to it without --finish first"
        )
    if new.state == ENABLED:
        raise Refused(
            f"peer {new_id} is ENABLED while Walferry ships {peer.id}, so older edits may come to lie on top of newer ones",
            f"Disable it (hbase shell: disable_peer '{new_id}'), and have {peer.id} shipped once more; --finish enables it",
        )
    if without_own_keys(new) != without_own_keys(peer):
        raise Refused(
            f"peer {new_id} has another peer cluster or other filters than {peer.id}", "Make them the same, or remove it"
        )
    check_agreement(admin.session, new_id)
    return new


def _check_shipped(admin: PeerAdmin, peer: Peer, new_id: str) -> None:
    """Raise NotShipped unless each WAL in our queues is shipped whole, or HBase will ship it from its first byte on."""
    session = admin.session
    check_queues_complete(session, peer.id)
    plan = plan_peer(session, peer.id)  # shipped WALs stay shipped, so the plan may be read first
    shipped = {wal.name for group in plan.groups for wal in group.wals if wal.finished}
    ours = read_queues(session, peer.id)
    # HBase would ship only the rest of a WAL whose position was set.
    theirs = {wal.name.text for queue in read_queues(session, new_id) for wal in queue.wals if wal.position_or_problem == 0}
    waiting = {wal.name.text for queue in ours for wal in queue.wals} - theirs - shipped
    refuse_odd_queues(ours)
    if waiting:
        resumed = f"Resume it (walferry peers resume {shell_word(peer.id)}), let" if peer.paused else "Let"
        raise NotShipped(
            f"{listed(waiting, plan)} queued for {peer.id} alone", f"{resumed} a batch ship it (roll first), then finish again"
        )
