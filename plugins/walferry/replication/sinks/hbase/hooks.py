"""Finds the classes at a peer cluster that see only replicated edits: coprocessors of its RegionServers, and its sink's filter.

Direct writes and loaded files pass them by (RegionServerObserver.preReplicateLogEntries, preReplicationSinkBatchMutate;
WALEntrySinkFilter). HBase publishes its configuration on its servers' web pages only (hbase/web_pages.py). A server without such
pages, or whose pages want TLS or a login, does not tell. Nor do servers that differ from the one that answered.
"""

from __future__ import annotations

from dataclasses import dataclass

from kazoo.client import KazooClient

from walferry.base.hosts import side_by_side
from walferry.base.texts import one_line, visible
from walferry.base.zk.client import connected
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.web_pages import NO_PAGE, PAGE_SECONDS, configuration, sample_of_ports
from walferry.replication.peers.reading import Peer, peer_cluster_of
from walferry.replication.source.cluster import SourceCluster

KEYS = ("hbase.coprocessor.regionserver.classes", "hbase.replication.sink.walentrysinkfilter")
# They demand of a replicated edit no more than of any other: HBase's own, and Ranger's.
HARMLESS = frozenset((
    *(
        f"org.apache.hadoop.hbase.security.{name}"
        for name in ("access.AccessController", "token.TokenProvider", "visibility.VisibilityController")
    ),
    "org.apache.ranger.authorization.hbase.RangerAuthorizationCoprocessor",
))  # fmt: skip
ASKED = 3  # servers, of which the first answer counts
ZOOKEEPER_SECONDS = 5.0  # to connect; half as much for each of two calls
MAX_NAMES = 5
MAX_NAME_CHARS = 200
MAX_REASON_CHARS = 500


@dataclass(frozen=True)
class Hooks:
    """The classes that see only replicated edits, or why they are not known."""

    names: tuple[str, ...] = ()
    unknown: str = ""

    def __str__(self) -> str:
        more = f" and {len(self.names) - MAX_NAMES} more" if len(self.names) > MAX_NAMES else ""
        return ", ".join(visible(name, MAX_NAME_CHARS) for name in self.names[:MAX_NAMES]) + more


def hooks_of_peer(peer: Peer, source: SourceCluster) -> Hooks:
    """Find the hooks of the peer's cluster, in some 15 s at most. Never raises because of that cluster or its cluster key."""
    try:
        key, login = peer.peer_cluster, source.login_to(peer)
        whose, seconds = peer_cluster_of(peer.id, key), ZOOKEEPER_SECONDS
        with connected(key.connect_string, seconds, whose, login, call_timeout=seconds / 2) as zk:
            return hooks_of(zk, ZNodes(key.znode_parent))
    except Exception as error:  # kazoo's errors are of many kinds: NoAuthError, or struct.error for an answer that makes no sense
        return Hooks(unknown=one_line(str(error) or repr(error), MAX_REASON_CHARS))


def hooks_of(zk: KazooClient, nodes: ZNodes) -> Hooks:
    """Find the hooks of the cluster in this ensemble. Raises WalferryError, and kazoo's errors."""
    pages = sample_of_ports(zk, nodes, ASKED)
    if not pages:
        return Hooks(unknown="its RegionServers have no web pages, or do not publish their port")
    seconds = PAGE_SECONDS + 1  # a page says itself that it is late
    answers = side_by_side(lambda server: _asked(server, pages[server]), list(pages), seconds, lambda hooks: not hooks.unknown)
    told = next((hooks for hooks in answers.values() if not hooks.unknown), None)
    return told or next(iter(answers.values()), Hooks(unknown="no name of its RegionServers was resolved in time"))


def _asked(server: ServerName, port: int) -> Hooks:
    try:
        return Hooks(_classes(configuration(server.host, port, KEYS)))
    except NO_PAGE as error:
        return Hooks(unknown=visible(f"http://{server.host}:{port}/conf: {error or type(error).__name__}", MAX_NAME_CHARS))


def _classes(settings: dict[str, str]) -> tuple[str, ...]:
    """Return the classes that are not HARMLESS. A coprocessor may have a priority: <class>|<priority>|<path>."""
    listed = (name.partition("|")[0].strip() for key in KEYS for name in settings.get(key, "").split(","))
    return tuple(dict.fromkeys(name for name in listed if name and name not in HARMLESS))
