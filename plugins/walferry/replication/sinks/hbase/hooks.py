"""Finds the classes at a peer cluster that see only replicated edits: coprocessors of its RegionServers, and its sink's filter.

Direct writes and loaded files pass them by (RegionServerObserver.preReplicateLogEntries, preReplicationSinkBatchMutate;
WALEntrySinkFilter). HBase publishes its configuration on its servers' web pages only (ConfServlet):

    GET http://<RegionServer>:<info port>/conf?format=json
    {"properties": [{"key": "hbase.replication.sink.walentrysinkfilter", "value": "<class>", …}, …]}

A server without such pages, or whose pages want TLS or a login, does not tell. Nor do servers that differ from the one that
answered.
"""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from walferry.base.errors import WalferryError
from walferry.base.hosts import side_by_side
from walferry.base.records import NotARecord, parsed
from walferry.base.texts import visible
from walferry.base.zk.client import connected, read
from walferry.base.zk.errors import known
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.values import decode_info_port
from walferry.replication.peers.reading import Peer, peer_cluster_of
from walferry.replication.source.cluster import SourceCluster

KEYS = ("hbase.coprocessor.regionserver.classes", "hbase.replication.sink.walentrysinkfilter")
# HBase's own, which demand of a replicated edit no more than of any other.
HARMLESS = frozenset(
    f"org.apache.hadoop.hbase.security.{name}"
    for name in ("access.AccessController", "token.TokenProvider", "visibility.VisibilityController")
)
ASKED = 3  # servers, of which the first answer counts
CONNECT_SECONDS = 5.0
SECONDS = 5.0
MAX_BYTES = 8 << 20  # some 200 kB are usual
MAX_NAMES = 5
MAX_NAME_CHARS = 200


@dataclass(frozen=True)
class Hooks:
    """The classes that see only replicated edits, or why they are not known."""

    names: tuple[str, ...] = ()
    unknown: str = ""

    def __str__(self) -> str:
        more = f" and {len(self.names) - MAX_NAMES} more" if len(self.names) > MAX_NAMES else ""
        return ", ".join(visible(name, MAX_NAME_CHARS) for name in self.names[:MAX_NAMES]) + more


def hooks_of_peer(peer: Peer, source: SourceCluster) -> Hooks:
    """Find the hooks of the peer's cluster. Never raises because of that cluster, its ZooKeeper or the peer's cluster key."""
    try:
        key, login = peer.peer_cluster, source.login_to(peer)
        with connected(key.connect_string, CONNECT_SECONDS, peer_cluster_of(peer.id, key), login) as zk:
            return hooks_of(zk, ZNodes(key.znode_parent))
    except (WalferryError, KazooException) as error:
        return Hooks(unknown=str(known(error)))


def hooks_of(zk: KazooClient, nodes: ZNodes) -> Hooks:
    """Find the hooks of the cluster in this ensemble. Raises WalferryError, KazooException."""
    servers = sorted(live_servers(zk, nodes))
    pages: dict[ServerName, int] = {}
    for server in random.sample(servers, min(ASKED, len(servers))):
        path = f"{nodes.rs}/{server}"
        if (znode := read(zk, path)) is not None and (port := decode_info_port(znode.value, path)) is not None:
            pages[server] = port
    if not pages:
        return Hooks(unknown="its RegionServers have no web pages, or do not publish their port")
    answers = side_by_side(lambda server: _asked(server, pages[server]), list(pages), SECONDS, lambda hooks: not hooks.unknown)
    told = next((hooks for hooks in answers.values() if not hooks.unknown), None)
    return told or next(iter(answers.values()), Hooks(unknown=f"the web page of no RegionServer came within {SECONDS:g} s"))


def _asked(server: ServerName, port: int) -> Hooks:
    try:
        return Hooks(_classes(_configuration(server.host, port)))
    except (OSError, HTTPException, NotARecord) as error:
        return Hooks(unknown=visible(f"http://{server.host}:{port}/conf: {error or type(error).__name__}", MAX_NAME_CHARS))


def _configuration(host: str, port: int) -> dict[str, str]:
    """Read the values of KEYS. Raises OSError, HTTPException, NotARecord."""
    with closing(HTTPConnection(host, port, timeout=SECONDS)) as connection:
        connection.request("GET", "/conf?format=json")
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"HTTP {answer.status}")
        body = answer.read(MAX_BYTES + 1)
    properties = parsed(body, MAX_BYTES)
    properties = properties.get("properties") if isinstance(properties, dict) else None
    if not isinstance(properties, list):
        raise NotARecord("it has no list of properties")
    pairs = [(each.get("key"), each.get("value")) for each in properties if isinstance(each, dict)]
    return {key: value for key, value in pairs if key in KEYS and isinstance(value, str)}


def _classes(configuration: dict[str, str]) -> tuple[str, ...]:
    """Return the classes that are not HBase's own. A coprocessor may have a priority: <class>|<priority>|<path>."""
    listed = (name.partition("|")[0].strip() for key in KEYS for name in configuration.get(key, "").split(","))
    return tuple(dict.fromkeys(name for name in listed if name and name not in HARMLESS))
