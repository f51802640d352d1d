"""An HBase 2.x cluster as ZooKeeper sees it. Every write does what HBase's own code does, with its prefixes and multis."""

import contextlib
import os
import socket
import struct
import time
import uuid
from collections.abc import Iterable
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.handlers.threading import AsyncResult
from kazoo.protocol.serialization import Connect

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import CALL_TIMEOUT_SECONDS
from walferry.hbase.layout import QueueLayout, ZNodes
from walferry.hbase.names import parse_queue_id
from walferry.hbase.values import PBUF, encode_position

SERVER = "rs-1.example.org,16020,1700000000001"
LAYOUTS = [layout for layout in QueueLayout if layout is not QueueLayout.TABLE]  # of queues in ZooKeeper
DEAD = "rs-2.example.org,16020,1700000000002"
OTHER = "rs-3.example.org,16020,1700000000003"
CLOSE_SESSION = -11  # ZooDefs.OpCode.closeSession


def wal(timestamp: int, server: str = SERVER, provider: str = "") -> str:
    """Return a WAL's file name."""
    return f"{server.replace(',', '%2C')}{provider}.{timestamp}"


def prefixed(value: bytes) -> bytes:
    """Return a value with RecoverableZooKeeper's prefix, unless it is empty."""
    if not value:
        return value
    client = b"4711@rs-1" + os.urandom(8)
    return b"\xff" + struct.pack(">i", len(client)) + client + value


def await_last(asked: Iterable[AsyncResult]) -> None:
    """Wait for the last of several answers. They come in order, so this thread wakes up once for all of them."""
    for answer in list(asked)[-1:]:
        answer.wait(CALL_TIMEOUT_SECONDS)


class HBaseZNodes:
    def __init__(self, zk: KazooClient, nodes: ZNodes) -> None:
        self.zk = zk
        self.nodes = nodes

    @classmethod
    def new(cls, zk: KazooClient) -> Self:
        """A fresh cluster under a parent of its own, with one live server."""
        cluster = cls(zk, ZNodes(f"/hbase-{uuid.uuid4().hex[:8]}"))
        cluster.create()
        return cluster

    def create(self) -> None:
        """Create the cluster's znodes, with one live server."""
        for path in (self.nodes.rs, self.nodes.peers, self.nodes.queues):
            self.zk.ensure_path(path)
        cluster_id = pb.ClusterId(cluster_id=str(uuid.uuid4()))
        self.zk.create(self.nodes.hbaseid, prefixed(PBUF + cluster_id.SerializeToString()))
        self.start_server(SERVER)

    @property
    def root(self) -> str:
        """Walferry's own root for this cluster."""
        return f"/walferry{self.nodes.base.replace('/', '-')}"

    def add_peer(self, peer_id: str, state: str = "DISABLED", config: dict[str, str] | None = None, **fields: object) -> None:
        self.zk.create(self.nodes.peer(peer_id), self._peer({"walferry.managed": "true"} if config is None else config, **fields))
        self.zk.create(self.nodes.peer_state(peer_id), prefixed(self._state(state)))

    def set_config(self, peer_id: str, config: dict[str, str]) -> None:
        """Write the peer's configuration as the Master does when it changes."""
        self.zk.set(self.nodes.peer(peer_id), self._peer(config))

    def set_state(self, peer_id: str, state: str) -> None:
        self.zk.set(self.nodes.peer_state(peer_id), prefixed(self._state(state)))

    def start_server(self, server: str) -> None:
        self.zk.create(f"{self.nodes.rs}/{server}", ephemeral=True)

    def stop_server(self, server: str) -> None:
        self.zk.delete(f"{self.nodes.rs}/{server}")

    def add_wal(self, server: str, queue_id: str, name: str, position: int | None = None) -> str:
        """Do ZKReplicationQueueStorage.addWAL, and setWALPosition if a position is given. Returns the WAL's znode."""
        path = self.nodes.wal(server, queue_id, name)
        self.zk.create(path, b"" if position is None else prefixed(encode_position(position)), makepath=True)
        return path

    def claim(self, server: str, queue_id: str, by: str) -> str | None:
        """ZKReplicationQueueStorage.claimQueue. Returns the new queue's id, or None if another claimer was faster."""
        self.zk.ensure_path(self.nodes.server_queues(by))
        old = self.nodes.queue(server, queue_id)
        new_id = str(parse_queue_id(queue_id).claimed_from(server))
        new = self.nodes.queue(by, new_id)
        try:
            names = self.zk.get_children(old)
            if not names:
                self.zk.delete(old)
                return None
            multi = self.zk.transaction()
            multi.create(new)
            for name in names:
                multi.create(f"{new}/{name}", self.zk.get(f"{old}/{name}")[0])
                multi.delete(f"{old}/{name}")
        except NoNodeError:
            return None
        multi.delete(old)
        multi.create(f"{self.nodes.queues}/cversion_{new_id}")
        multi.delete(f"{self.nodes.queues}/cversion_{new_id}")
        failed = [result for result in multi.commit() if isinstance(result, Exception)]
        assert not any(isinstance(error, NodeExistsError) for error in failed)
        return None if failed else new_id

    def queued(self, *peer_ids: str) -> list[str]:
        """The znodes of the peers' queued WALs."""
        servers = sorted(self.zk.get_children(self.nodes.queues))
        found = self.children_of([self.nodes.server_queues(server) for server in servers])
        queues = [
            self.nodes.queue(server, queue_id)
            for server, queue_ids in zip(servers, found, strict=True)
            for queue_id in queue_ids
            if self.nodes.is_queue(queue_id) and parse_queue_id(queue_id).peer_id in peer_ids
        ]
        return [f"{queue}/{name}" for queue, names in zip(queues, self.children_of(queues), strict=True) for name in names]

    def values(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The values of znodes."""
        asked = {path: self.zk.get_async(path) for path in paths}
        await_last(asked.values())
        return {path: answer.get()[0] for path, answer in asked.items()}

    def everything(self) -> dict[str, bytes]:
        """All znodes of the cluster with their values."""
        found = {}
        pending = [self.nodes.base]
        while pending:
            found |= self.values(pending)
            pending = [f"{path}/{name}" for path, names in zip(pending, self.children_of(pending), strict=True) for name in names]
        return found

    def children_of(self, paths: Iterable[str]) -> list[list[str]]:
        """Return the sorted children of each znode, asked for all at once; none for a missing znode."""
        asked = [self.zk.get_children_async(path) for path in paths]
        await_last(asked)
        found = []
        for answer in asked:
            try:
                found.append(sorted(answer.get()))
            except NoNodeError:
                found.append([])
        return found

    def children(self, path: str, by: KazooClient | None = None) -> list[str]:
        """Return the children that the client `by` sees, or this cluster's own client."""
        try:
            return list((by or self.zk).get_children(path))
        except NoNodeError:
            return []

    @staticmethod
    def _peer(config: dict[str, str], **fields: object) -> bytes:
        peer = pb.ReplicationPeer(**{"clusterkey": "127.0.0.1:2181:/peer_cluster", "replicate_all": True, **fields})
        for name, value in config.items():
            peer.configuration.add(name=name, value=value)
        return prefixed(PBUF + peer.SerializeToString())

    @staticmethod
    def _state(state: str) -> bytes:
        return PBUF + pb.ReplicationState(state=pb.ReplicationState.State.Value(state)).SerializeToString()


class LastingZNodes(HBaseZNodes):
    """A cluster whose servers live until they are stopped, even if a session ends on a busy machine."""

    def start_server(self, server: str) -> None:
        self.zk.create(f"{self.nodes.rs}/{server}")


def expire(client: KazooClient) -> None:
    """End the client's session at the server, as its timeout would. The client learns this when it comes back."""
    for _ in range(600):
        if client.client_id is not None:
            break
        time.sleep(0.05)
    assert client.client_id is not None, "the client has no session that could be ended"
    session, password = client.client_id
    ((host, port),) = client.hosts
    # The server hangs up on a session that has ended already.
    with contextlib.suppress(ConnectionError), socket.create_connection((host, int(port)), timeout=30) as connection:
        connect = Connect(0, 0, 10_000, session, password, False).serialize()
        connection.sendall(struct.pack(">i", len(connect)) + connect)
        _frame(connection)
        close = struct.pack(">ii", 1, CLOSE_SESSION)
        connection.sendall(struct.pack(">i", len(close)) + close)
        _frame(connection)


def _frame(connection: socket.socket) -> None:
    """Read one answer."""
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = connection.recv(length - len(data))
        if not more:
            raise ConnectionError("closed by the server")
        data += more
    return data
