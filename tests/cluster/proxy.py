"""Networks that fail on demand: TCP proxies in front of a real peer cluster or a real ZooKeeper."""

from __future__ import annotations

import contextlib
import math
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from embedded.hbase import ClusterAddress
from walferry.base.zk.client import connected
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import admin
from walferry.hbase.rpc.connection import Connection
from walferry.replication.sinks.hbase import connections

CHUNK = 32 << 10


class Flow:
    """One direction of a proxy. Bytes pass at `speed` a second until `hold`, or until `hold_after` more bytes have passed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._allowed: int | None = None  # None: no limit
        self.passed = 0
        self.speed = math.inf

    def lock(self) -> None:
        self.hold_after(0)

    def hold_after(self, size: int) -> None:
        with self._changed:
            self._allowed = size

    def let_go(self) -> None:
        with self._changed:
            self._allowed = None
            self._changed.notify_all()

    def await_held(self, timeout: float = 60) -> None:
        """Wait until everything that was allowed has passed."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._allowed == 0, timeout), f"{self._allowed} bytes have still not come"

    def pass_on(self, data: bytes, to: socket.socket) -> None:
        while data:
            with self._changed:
                self._changed.wait_for(lambda: self._allowed != 0)
                part = data if self._allowed is None else data[: self._allowed]
                if self._allowed is not None:
                    self._allowed -= len(part)
                self.passed += len(part)
                self._changed.notify_all()
            time.sleep(len(part) / self.speed)
            to.sendall(part)
            data = data[len(part) :]


class TcpProxy:
    """Listens on its own port and passes everything to `target`. A context manager."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.requests = Flow()
        self.answers = Flow()
        self.port = 0
        self.mend()

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        with self._lock:
            listener, self._listener = self._listener, None
            for sock in [*self._open, *([listener] if listener else [])]:
                _end(sock)
            self._open.clear()

    def lead_to(self, target: tuple[str, int]) -> None:
        """Break all connections, and pass new ones to another target."""
        self.cut()
        self._target = target
        self.mend()

    def mend(self) -> None:
        """Accept connections again, on the same port."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen()
        self.port = listener.getsockname()[1]
        with self._lock:
            self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def let_go(self) -> None:
        """Hold nothing back any more."""
        self.requests.let_go()
        self.answers.let_go()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self.let_go()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the connection was closed
            while True:
                client = listener.accept()[0]
                try:
                    server = socket.create_connection(self._target, timeout=10)
                except OSError:
                    _end(client)
                    continue
                server.settimeout(None)
                with self._lock:
                    if self._listener is not listener:
                        _end(client)
                        _end(server)
                        return
                    self._open |= {client, server}
                for here, there, flow in ((client, server, self.requests), (server, client, self.answers)):
                    threading.Thread(target=self._pump, args=(here, there, flow), daemon=True).start()

    def _pump(self, here: socket.socket, there: socket.socket, flow: Flow) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(CHUNK):
                flow.pass_on(data, there)
        with self._lock:
            self._open -= {here, there}
        _end(here)
        _end(there)


@dataclass(frozen=True)
class ProxiedPeerCluster:
    """A peer cluster whose ZooKeeper and one RegionServer are reached through proxies. Its cluster key leads to the proxies."""

    cluster_key: str
    zookeeper: TcpProxy
    sink: TcpProxy
    server: ServerName  # the RegionServer, under its own name


@contextlib.contextmanager
def proxied_zookeeper(quorum: str) -> Iterator[TcpProxy]:
    """Yield a proxy in front of the one ZooKeeper server "host:port"."""
    host, _, port = quorum.partition(":")
    with TcpProxy((host, int(port))) as proxy:
        yield proxy


@contextlib.contextmanager
def through_proxy_only(peer_cluster: ProxiedPeerCluster) -> Iterator[None]:
    """Send all edits for the RegionServer's own name, which hbase:meta contains, through the proxy, whatever the peer.

    Calls that find out whether it answers go through the proxy too.
    """

    def connection(host: str, port: int, *args: Any, **options: Any) -> Connection:
        if (host, port) == (peer_cluster.server.host, peer_cluster.server.port):
            host, port = "localhost", peer_cluster.sink.port
        return Connection(host, port, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "Connection", connection)
        patch.setattr(admin, "Connection", connection)
        yield


@contextlib.contextmanager
def proxied_peer_cluster(peer_cluster: ClusterAddress) -> Iterator[ProxiedPeerCluster]:
    """Yield the peer cluster under another znode, where its (first) RegionServer has the address of a proxy."""
    nodes, proxied = ZNodes(peer_cluster.znode_parent), ZNodes(f"/proxied{secrets.token_hex(4)}")
    with connected(peer_cluster.quorum) as zk, proxied_zookeeper(peer_cluster.quorum) as zookeeper:
        server = min(live_servers(zk, nodes))
        with TcpProxy((server.host, server.port)) as sink:
            zk.create(proxied.hbaseid, zk.get(nodes.hbaseid)[0], makepath=True)
            zk.create(f"{proxied.rs}/{ServerName('localhost', sink.port, server.start_code)}", makepath=True)
            zk.create(proxied.meta_server, zk.get(nodes.meta_server)[0])
            try:
                yield ProxiedPeerCluster(f"localhost:{zookeeper.port}:{proxied.base}", zookeeper, sink, server)
            finally:
                zk.delete(proxied.base, recursive=True)


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
