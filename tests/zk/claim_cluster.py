"""A dead server with queues, in each layout, and claimers that can be killed at any single write to ZooKeeper."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Create, Delete, SetData, Transaction

from tests.claimed import ClaimedQueues, claim_and_find
from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, wal
from walferry.hbase.layout import OwnZNodes, QueueLayout, ZNodes
from walferry.hbase.names import parse_queue_id
from walferry.replication.source.cluster import SourceCluster

PEERS = ("p", "q")
OLDER = "rs-0.example.org,16020,1600000000000"  # died before DEAD, which had claimed its queue
WRITES = (Create, Delete, SetData, Transaction)


class ClaimCluster:
    """SERVER and OTHER live; DEAD has died with three queues of four WALs each. One queue is chained."""

    def __init__(self, zk: KazooClient, layout: QueueLayout) -> None:
        self.hbase = HBaseZNodes(zk, ZNodes(f"/hbase-{uuid.uuid4().hex[:8]}", layout))
        self.nodes = self.hbase.nodes
        self.source = SourceCluster(
            quorum="", wal_root="file:///hbase", znode_parent=self.nodes.base, root=self.hbase.root, queue_layout=layout
        )
        self.own = OwnZNodes(self.source.root, self.nodes)
        self.hbase.create()
        self.hbase.start_server(OTHER)
        for peer_id in PEERS:
            self.hbase.add_peer(peer_id)
        for server in (SERVER, OTHER):
            self.hbase.add_wal(server, "p", wal(1, server), 7)
        for queue_id, server in (("p", DEAD), ("q", DEAD), (f"p-{OLDER}", OLDER)):
            for n in range(1, 5):
                provider = f".{server.replace(',', '%2C')}.regiongroup-1" if n == 4 else ""
                self.hbase.add_wal(DEAD, queue_id, wal(n, server, provider), 100 * n if n % 2 else None)

    def queued(self) -> dict[tuple[str, str], list[bytes]]:
        """(peer, WAL) → the values of all znodes that queue it."""
        found: dict[tuple[str, str], list[bytes]] = {}
        for path, value in self.hbase.values(self.hbase.queued(*PEERS)).items():
            queue, _, name = path.rpartition("/")
            found.setdefault((parse_queue_id(queue.rpartition("/")[2]).peer_id, name), []).append(value)
        return found

    def tree(self) -> dict[str, bytes]:
        """Return all znodes of the queues, with paths from their parent on, and all znodes of the claims."""
        znodes = self.hbase.everything()
        parent, claims = self.nodes.queues, self.own.claim("x").rpartition("/")[0]
        found = {path.removeprefix(parent): value for path, value in znodes.items() if path.startswith(parent)}
        if self.hbase.zk.exists(claims):
            found |= {f"claim of {name}": b"" for name in self.hbase.zk.get_children(claims)}
        return found


class Killed(Exception):
    """The claimer's process is dead, and no part of it may go on."""


class Killer:
    """Counts a client's writes, and kills before or after write number `at`: from then on the client does nothing."""

    def __init__(self, zk: KazooClient, at: int | None = None, *, after: bool = False) -> None:
        self.writes = 0
        self._at = at
        self._after = after
        self._dead = False
        self._zk = zk
        self._call = zk._call
        zk._call = self._counted

    def _counted(self, request: Any, result: Any) -> Any:
        if not self._dead:
            if not isinstance(request, WRITES):
                return self._call(request, result)
            number, self.writes = self.writes, self.writes + 1
            self._dead = number == self._at
            if not self._dead:
                return self._call(request, result)
            if self._after:  # the write is done, but its answer is lost
                unheard = self._zk.handler.async_result()
                self._call(request, unheard)
                unheard.wait(20)
        result.set_exception(Killed())
        return None


Cluster = Callable[[QueueLayout], ClaimCluster]


@pytest.fixture
def cluster(new_client: Callable[[], KazooClient]) -> Cluster:
    return lambda layout: ClaimCluster(new_client(), layout)


def claimed(
    zk: KazooClient, cluster: ClaimCluster, server: str = DEAD, to: str | None = None, run_id: str = "run"
) -> ClaimedQueues:
    return claim_and_find(session_of(zk, cluster), server, run_id, "run on a host", to)


def once(cluster: ClaimCluster) -> dict[tuple[str, str], bytes]:
    """Return the value of each queued WAL, and check that no WAL is in two queues."""
    queued = cluster.queued()
    assert all(len(values) == 1 for values in queued.values()), queued
    return {key: value for key, (value,) in queued.items()}
