"""Sweeps what is left in ZooKeeper of things that are gone, a bounded number of znodes at a time.

    <root>/leases/…/<peer>/<group>       of groups that are queued nowhere: their holder was killed before it could release them
    <root>/claims/…/<server>             of servers that have no znode any more: their claimer was killed, and HBase took the rest
    <root>/{leases,marks,runs,in-hand}/…/<peer>  of peers that are gone; runs when they need not be kept any more
    replication/rs/walferry,1,1          when it is empty

None of it is needed for safety: a hold that nobody has may be forgotten by anybody (zk/hold.py), and a znode with children is not
deleted. A run that needs one of them again makes it anew.
"""

import operator
from collections.abc import Collection, Iterable
from urllib.parse import unquote

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError

from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import quoted
from walferry.names import ServerName, parse_wal_name
from walferry.queues.dead_servers import WALFERRY_SERVER
from walferry.queues.reading import looked_for, queued_groups
from walferry.shipping.runs import delete_old_runs
from walferry.source.session import Session
from walferry.zk.client import children, read, retried

AT_ONCE = 200  # deletions a call


def sweep_peer(session: Session, peer_id: str) -> int:
    """Delete the peer's leases of groups that are queued nowhere, and Walferry's pseudo server if it is empty.

    Returns how many leases were deleted. Raises QueuesMoving, ClusterError, ConnectError.
    """
    nodes = session.nodes
    if children(session.zk, nodes.queue_server(WALFERRY_SERVER)) == []:
        _deleted(session.zk, nodes.queue_server(WALFERRY_SERVER))
    leases = _parent(session.own.lease(peer_id, "group"))
    names = children(session.zk, leases)  # before the queues: a lease that is made later is of a group that is queued
    live = live_servers(session.zk, nodes) if names else ()  # these have a WAL of each of their groups queued
    names = [name for name in names or () if _server(unquote(name)) not in live]
    if not names:
        return 0
    queued = {quoted(group) for group in looked_for(session, lambda: queued_groups(session, peer_id), operator.or_)}
    return _delete_all(session.zk, leases, (name for name in names if name not in queued))


def sweep_gone(session: Session, also_known: Collection[str] = ()) -> int:
    """Delete what is left of peers and claimed servers that are gone; returns how many znodes were deleted.

    `also_known` are peers that are not gone though ZooKeeper does not have them. Raises ConnectError.
    """
    own, nodes = session.own, session.nodes
    peers = children(session.zk, nodes.peers)
    if peers is None:
        return 0
    known = {quoted(peer_id) for peer_id in (*peers, *also_known)}
    swept = 0
    for folder in (_parent(own.lease("peer", "group"), 2), _parent(own.mark("peer", "key"), 2)):
        for name in set(children(session.zk, folder) or ()) - known:
            swept += _delete_all(session.zk, f"{folder}/{name}", children(session.zk, f"{folder}/{name}") or ())
            _deleted(session.zk, f"{folder}/{name}")
    in_hand = _parent(own.in_hand("peer"))
    swept += _delete_all(session.zk, in_hand, sorted(set(children(session.zk, in_hand) or ()) - known))
    for name in set(children(session.zk, f"{session.source.root}/runs/{quoted(nodes.base)}") or ()) - known:
        swept += delete_old_runs(session, unquote(name), AT_ONCE)
    claims = _parent(own.claim("server"))
    gone = (name for name in children(session.zk, claims) or () if _is_gone(session, unquote(name)))
    return swept + _delete_all(session.zk, claims, gone)


def _is_gone(session: Session, server: str) -> bool:
    """Whether a claimed server has no queues any more; what is no server's name is left alone, and never part of a path."""
    try:
        ServerName.parse(server)
    except ValueError:
        return False
    return read(session.zk, session.nodes.queue_server(server)) is None


def _server(group: str) -> ServerName | None:
    """The server whose WALs are of the group; None if its name does not say so."""
    try:
        return parse_wal_name(f"{group}.1").server
    except ValueError:
        return None


def _delete_all(zk: KazooClient, parent: str, names: Iterable[str]) -> int:
    deleted = 0
    for name in names:
        if deleted == AT_ONCE:
            break
        deleted += _deleted(zk, f"{parent}/{name}")
    return deleted


def _deleted(zk: KazooClient, path: str) -> bool:
    try:
        retried(zk, zk.delete, path)
    except (NoNodeError, NotEmptyError):  # by another run, or by a try of ours that was done after all; or it is in use
        return False
    return True


def _parent(path: str, levels: int = 1) -> str:
    return path.rsplit("/", levels)[0]
