"""Deletes znodes that are no longer needed, a bounded number at a time.

    <root>/leases/…/<peer>/<group>       if no queue contains the group: a killed holder left the lease
    <root>/claims/…/<server>             if the server has no znode: HBase took the queues that a killed claimer left
    <root>/{leases,cursors,runs,peer-locks,peer-states,row-shipments,shipping,initial-snapshots,lake-copies,loads,history,given-up}/
                                         …/<peer>
                                         if the peer is gone; a run only after the time for which it is kept
    replication/rs/walferry,1,1          if the pseudo server has no queues

Safety does not depend on these znodes: any client may delete a fenced lock without a holder (base/zk/fenced_lock.py), and
ZooKeeper does not delete a znode with children. A run that needs one of them again creates it.
"""

import operator
from collections.abc import Collection, Iterable
from contextlib import suppress
from urllib.parse import unquote

from kazoo.client import KazooClient

from walferry.base.zk.client import children, delete_unused, read
from walferry.base.zk.errors import AnswerTooLong
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import quoted
from walferry.hbase.names import ServerName, as_wal_name, is_server_name
from walferry.replication.queues.consistent import looked_for
from walferry.replication.queues.dead_servers import WALFERRY_SERVER
from walferry.replication.queues.errors import LeaseHeld
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.reading import queued_groups, read_queues
from walferry.replication.source.peers import peer_ids
from walferry.replication.source.session import Session
from walferry.shipping.runs import delete_old_runs

AT_ONCE = 200  # deletions per call


def collect_garbage(session: Session, peer_id: str) -> int:
    """Delete leases on groups that no queue of the peer contains, and Walferry's pseudo server if it is empty.

    Returns the number of deleted leases. Raises QueuesMoving, ClusterError, ConnectError.
    """
    nodes = session.nodes
    if children(session.zk, nodes.queue_server(WALFERRY_SERVER)) == []:
        delete_unused(session.zk, nodes.queue_server(WALFERRY_SERVER))
    if nodes.in_table:
        _remove_finished_rows(session, peer_id)
    leases = _parent(session.own.lease(peer_id, "group"))
    names = children(session.zk, leases)  # before the queues: a group whose lease appears later is in a queue
    live = live_servers(session.zk, nodes) if names else ()  # each group of a live server has a WAL in a queue
    names = [name for name in names or () if _server(unquote(name)) not in live]
    if not names:
        return 0
    try:
        queued = {quoted(group) for group in looked_for(session, lambda: queued_groups(session, peer_id), operator.or_)}
    except AnswerTooLong:  # that queue may contain any group
        return 0
    return _delete_all(session.zk, leases, (name for name in names if name not in queued))


def _remove_finished_rows(session: Session, peer_id: str) -> None:
    """Delete rows of dead servers whose WALs were shipped before a live server claimed them (HBase 3)."""
    for queue in read_queues(session, peer_id):
        if queue.id.recovered and not queue.wals and not queue.problems:
            group = ServerName.parse(queue.id.dead_servers[0]).encoded()
            with suppress(LeaseHeld), acquire(session, peer_id, group, "garbage collection") as lease:
                lease.remove_empty_queue(queue.server, str(queue.id))


def collect_garbage_of_gone_peers(session: Session, also_known: Collection[str] = ()) -> int:
    """Delete the znodes of deleted peers and of claimed servers that are gone. Returns the number of deleted znodes.

    `also_known` names peers that exist although the source's storage does not contain them. Raises ConnectError.
    """
    own, nodes = session.own, session.nodes
    peers = peer_ids(session)
    if peers is None:
        return 0
    known = {quoted(peer_id) for peer_id in (*peers, *also_known)}
    swept = 0
    for folder in (_parent(own.lease("peer", "group"), 2), _parent(own.cursor("peer", "key"), 2)):
        for name in set(children(session.zk, folder) or ()) - known:
            swept += _delete_all(session.zk, f"{folder}/{name}", children(session.zk, f"{folder}/{name}") or ())
            delete_unused(session.zk, f"{folder}/{name}")
    for folder in (
        _parent(own.initial_snapshot("peer")),
        _parent(own.lake_copies("peer")),
        _parent(own.loads("peer")),
        _parent(own.row_shipments("peer")),
    ):
        for name in set(children(session.zk, folder) or ()) - known:
            swept += _delete_two_levels(session.zk, f"{folder}/{name}")
    for folder in (
        _parent(own.peer_lock("peer")),
        _parent(own.peer_state("peer")),
        _parent(own.shipping("peer")),
        _parent(own.history("peer")),
        _parent(own.given_up("peer")),
    ):
        swept += _delete_all(session.zk, folder, sorted(set(children(session.zk, folder) or ()) - known))
    for name in set(children(session.zk, f"{session.source.root}/runs/{quoted(nodes.base)}") or ()) - known:
        swept += delete_old_runs(session, unquote(name), AT_ONCE)
    claims = _parent(own.claim("server"))
    gone = (name for name in children(session.zk, claims) or () if _is_gone(session, unquote(name)))
    return swept + _delete_all(session.zk, claims, gone)


def _delete_two_levels(zk: KazooClient, path: str) -> int:
    """Delete a znode with two levels below it, such as an initial snapshot's tables and regions, or a peer's loads and folders.

    One call deletes a bounded number of znodes; later calls delete the rest.
    """
    swept = 0
    for name in children(zk, path) or ():
        swept += _delete_all(zk, f"{path}/{name}", children(zk, f"{path}/{name}") or ())
    swept += _delete_all(zk, path, children(zk, path) or ())
    return swept + delete_unused(zk, path)


def _is_gone(session: Session, server: str) -> bool:
    """Return whether a claimed server has no queues any more; False for a text that is not a server's name."""
    return is_server_name(server) and read(session.zk, session.nodes.queue_server(server)) is None


def _server(group: str) -> ServerName | None:
    """Return the server that writes the group's WALs; None if the group's name does not contain it."""
    wal = as_wal_name(f"{group}.1")
    return wal and wal.server


def _delete_all(zk: KazooClient, parent: str, names: Iterable[str]) -> int:
    deleted = 0
    for name in names:
        if deleted == AT_ONCE:
            break
        deleted += delete_unused(zk, f"{parent}/{name}")
    return deleted


def _parent(path: str, levels: int = 1) -> str:
    return path.rsplit("/", levels)[0]
