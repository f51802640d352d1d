"""Reads an HBase cluster's id, live servers, active master and storage of queues from ZooKeeper."""

import uuid
from collections.abc import Iterable

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import one_line
from walferry.base.zk.client import Watch, children, has_znode, hosts, read, whose
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.errors import ClusterError, NoPeerYet, StorageError
from walferry.hbase.layout import LOCK, PEERS_LEVEL, QueueLayout, ZNodes
from walferry.hbase.names import ServerName, is_server_name
from walferry.hbase.values import decode_cluster_id, decode_labels, decode_message, decode_server_version, server_in

MAX_VERSION_CHARS = 100
IN_ZOOKEEPER = ("0.", "1.", "2.")  # versions that keep their replication queues in ZooKeeper
AT_FIRST_PEER = "2."  # the version whose servers make the znode for queues with the first peer, not when they start


def cluster_id(zk: KazooClient, nodes: ZNodes) -> uuid.UUID:
    """Read the cluster's id, which marks its edits. Raises ClusterError, ZNodeValueError."""
    found = read(zk, nodes.hbaseid)
    if found is None:
        raise ClusterError(
            f"{nodes.hbaseid} is not there on {hosts(zk)}: no HBase cluster has started under {nodes.base}. "
            f"Check {whose(zk).check_parent}"
        )
    return decode_cluster_id(found.value, nodes.hbaseid)


def live_servers(zk: KazooClient, nodes: ZNodes, watch: Watch | None = None) -> frozenset[ServerName]:
    """List the RegionServers that have a session now; empty if all are down. Raises ClusterError, ZNodeValueError.

    `watch` is called once, when a server starts or dies.
    """
    names = children(zk, nodes.rs, watch)
    if names is None:
        raise _no_cluster(zk, nodes)
    try:
        return frozenset(map(ServerName.parse, names))
    except ValueError as error:
        advice = "Is this an HBase cluster's rs znode?"
        raise ZNodeValueError(nodes.rs, f"a child is not a server name ({error})", advice) from error


def release(zk: KazooClient, nodes: ZNodes) -> str | None:
    """Return the version of the first live RegionServer that publishes it, as a short line; None if no server does. Servers
    before 1.2 do not, and a secured HBase hides these znodes.

    Raises ZNodeValueError.
    """
    for name in children(zk, nodes.rs) or ():
        try:
            znode = read(zk, f"{nodes.rs}/{name}")
        except NoAuthError:
            return None
        version = decode_server_version(znode.value, f"{nodes.rs}/{name}") if znode else None
        if version is not None:
            return one_line(version, MAX_VERSION_CHARS)
    return None


def draining_servers(zk: KazooClient, nodes: ZNodes) -> frozenset[ServerName]:
    """List the servers that must not get regions. Operators write these znodes, so names of another form are skipped."""
    return frozenset(ServerName.parse(name) for name in children(zk, nodes.draining) or [] if is_server_name(name))


def is_live(zk: KazooClient, nodes: ZNodes, server: str) -> bool:
    """Return whether the RegionServer has a session now. Raises ClusterError if there is no cluster."""
    if not is_server_name(server):
        return False
    if has_znode(zk, f"{nodes.rs}/{server}"):
        return True
    if not has_znode(zk, nodes.rs):
        raise _no_cluster(zk, nodes)
    return False


def _no_cluster(zk: KazooClient, nodes: ZNodes) -> ClusterError:
    return ClusterError(f"{nodes.rs} is not there on {hosts(zk)}: check {whose(zk).check_parent}")


def master(zk: KazooClient, nodes: ZNodes) -> ServerName:
    """Read the active master's name. Raises ClusterError if no master is active, ZNodeValueError."""
    found = read(zk, nodes.master)
    if found is None:
        raise ClusterError(f"{nodes.master} is not there on {hosts(zk)}: no master is active. Start one and try again")
    return server_in(decode_message(pb.Master, found.value, nodes.master).master, nodes.master)


def visibility_labels(zk: KazooClient, nodes: ZNodes) -> dict[int, bytes]:
    """Read the visibility labels by ordinal; empty without the VisibilityController. Raises ZNodeValueError."""
    found = read(zk, nodes.visibility_labels)
    return {} if found is None else decode_labels(found.value, nodes.visibility_labels)


def check_queues(zk: KazooClient, nodes: ZNodes, *, peers_in_files: bool = False) -> None:
    """Check that the cluster keeps its replication queues, and its peers unless they are in files, where the layout says.

    Raises StorageError.
    """
    if nodes.in_table or has_znode(zk, nodes.queues):
        if peers_in_files:
            return
        # HBase creates the znode with the first peer and never deletes it.
        if not has_znode(zk, nodes.peers) and (queue := _any_queue(zk, nodes)) is not None and not has_znode(zk, nodes.peers):
            raise StorageError(
                f"there are queues ({queue}), but no {nodes.peers} on {hosts(zk)}: peers are kept elsewhere "
                "(hbase.replication.peer.storage.impl=filesystem). Set peers_root in the connection's extra to their folder"
            )
        return
    cluster_id(zk, nodes)
    version = release(zk, nodes)
    if version is not None and version.startswith(AT_FIRST_PEER) and not peers_in_files and not children(zk, nodes.peers):
        raise NoPeerYet(
            f"{nodes.queues} is not there on {hosts(zk)}: the cluster, HBase {version}, has never had a peer",
            "Add the first one by `walferry peers create`",
        )
    if version is not None and not version.startswith(IN_ZOOKEEPER):
        raise StorageError(
            f"{nodes.queues} is not there on {hosts(zk)}: the cluster runs HBase {version}, which keeps its replication "
            "queues in table hbase:replication",
            f"Set queue_layout in the connection's extra to {QueueLayout.TABLE}",
        )
    raise StorageError(
        f"{nodes.queues} is not there on {hosts(zk)}: this cluster keeps its replication queues elsewhere (HBase 3 in table "
        "hbase:replication) or has never had a peer",
        f"With HBase 3, set queue_layout in the connection's extra to {QueueLayout.TABLE}. With HBase 2, add the first peer by "
        "`walferry peers create`",
    )


def check_layout(zk: KazooClient, nodes: ZNodes, server: str, found: Iterable[str]) -> None:
    """Check that the names found as a server's queues fit the connection's layout. Raises StorageError."""
    classic_peers, other = QueueLayout.CLASSIC_PEERS, "2.x or classic"
    if nodes.layout is classic_peers:
        wrong, layout = set(children(zk, nodes.queue_server(server)) or ()) - {LOCK, PEERS_LEVEL}, other
    elif PEERS_LEVEL in found:
        wrong, layout = {PEERS_LEVEL}, str(classic_peers)
    elif LOCK in found and not nodes.locked:
        wrong, layout = {LOCK}, str(QueueLayout.CLASSIC)
    else:
        return
    if wrong and not any(has_znode(zk, nodes.peer(name)) for name in wrong & {LOCK, PEERS_LEVEL}):  # a peer may have this name
        raise StorageError(
            f"{nodes.queue_server(server)} has {min(wrong)}, which the layout {nodes.layout} does not have: set queue_layout in "
            f"the connection's extra to {layout}; if an upgrade to 2.x left it behind, delete it. Nothing was changed"
        )


def _any_queue(zk: KazooClient, nodes: ZNodes) -> str | None:
    for server in children(zk, nodes.queues) or ():
        for name in children(zk, nodes.server_queues(server)) or ():
            return nodes.queue(server, name)
    return None
