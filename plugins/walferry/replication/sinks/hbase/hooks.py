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
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

from kazoo.client import KazooClient

from walferry.base.hosts import side_by_side
from walferry.base.records import NotARecord, parsed
from walferry.base.texts import one_line, visible
from walferry.base.zk.client import connected, read_all
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.values import decode_info_port
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
PAGE_SECONDS = 3.0  # for a page, from the connection to its last byte
MAX_BYTES = 2 << 20  # some 200 kB are usual
MAX_VALUE_CHARS = 20_000
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
    servers = sorted(live_servers(zk, nodes))
    asked = random.sample(servers, min(ASKED, len(servers)))
    paths = [f"{nodes.rs}/{server}" for server in asked]
    pages: dict[ServerName, int] = {}
    for server, path, znode in zip(asked, paths, read_all(zk, paths), strict=True):
        if znode is not None and (port := decode_info_port(znode.value, path)) is not None:
            pages[server] = port
    if not pages:
        return Hooks(unknown="its RegionServers have no web pages, or do not publish their port")
    seconds = PAGE_SECONDS + 1  # a page says itself that it is late
    answers = side_by_side(lambda server: _asked(server, pages[server]), list(pages), seconds, lambda hooks: not hooks.unknown)
    told = next((hooks for hooks in answers.values() if not hooks.unknown), None)
    return told or next(iter(answers.values()), Hooks(unknown="no name of its RegionServers was resolved in time"))


def _asked(server: ServerName, port: int) -> Hooks:
    try:
        return Hooks(_classes(_configuration(server.host, port)))
    except (OSError, HTTPException, ValueError) as error:  # a name that is impossible in DNS raises UnicodeError
        return Hooks(unknown=visible(f"http://{server.host}:{port}/conf: {error or type(error).__name__}", MAX_NAME_CHARS))


def _configuration(host: str, port: int) -> dict[str, str]:
    """Read the values of KEYS. Raises OSError, HTTPException, NotARecord, UnicodeError."""
    with closing(HTTPConnection(host, port, timeout=PAGE_SECONDS)) as connection:
        connection.connect()
        with _hung_up_in_time(connection.sock):
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
    found = {key: value for key, value in pairs if key in KEYS and isinstance(value, str)}
    if any(len(value) > MAX_VALUE_CHARS for value in found.values()):
        raise NotARecord(f"a value has more than {MAX_VALUE_CHARS} characters")
    return found


@contextmanager
def _hung_up_in_time(sock: socket.socket) -> Iterator[None]:
    """End the connection after PAGE_SECONDS: its timeout limits each wait, and a server may send a byte a second for ever.

    Raises TimeoutError then.
    """
    late = threading.Event()

    def hang_up() -> None:
        late.set()
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(PAGE_SECONDS, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError(f"the page did not come within {PAGE_SECONDS:g} s")


def _classes(configuration: dict[str, str]) -> tuple[str, ...]:
    """Return the classes that are not HARMLESS. A coprocessor may have a priority: <class>|<priority>|<path>."""
    listed = (name.partition("|")[0].strip() for key in KEYS for name in configuration.get(key, "").split(","))
    return tuple(dict.fromkeys(name for name in listed if name and name not in HARMLESS))
