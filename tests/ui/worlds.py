"""Source clusters in states that the replication page has to show, made of znodes in a real ZooKeeper and of files."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from embedded.zookeeper import create_all
from tests.sessions import session_of
from tests.zk.hbase_znodes import LastingZNodes, prefixed, wal
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.server import RpcServer
from walferry.hbase.values import encode_position
from walferry.master.states import RegionState
from walferry.master.znodes import encode_region
from walferry.observe.status.ages import Age, Certainty, unknown
from walferry.observe.status.history import INTERVAL_SECONDS, SAMPLES, Sample, encode, sample_at
from walferry.replication.locks.peer_lock import holding_peer
from walferry.replication.queues.lease import acquire
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.peer_down import note_down
from walferry.shipping.runs import begin_run, write_group

MINUTE = 60_000
HOUR = 60 * MINUTE
MIB = 1 << 20
OPEN_WAL = b"PWAL\x00"  # the WAL of a server that has written no edit yet
MANY_QUEUES = 1000
DEAD = "rs-4.example.org,16020,1792500000004"
RUN = "replicate_peer/scheduled__2026-11-23T10:00:00+00:00"
# Texts that could run or mislead: elements, attributes, templates, and characters that turn or hide text.
HOSTILE = "<script>alert(1)</script>'\"><img src=x onerror=alert(2)>{{7*191}}${7*191}\u202e\u200b\x1b[31m"
HOSTILE_NAME = HOSTILE.replace("/", "\u2215").replace("\x1b", "")  # as far as ZooKeeper takes it as a name


def server(number: int) -> str:
    return f"rs-{number}.example.org,16020,{1_792_500_000_000 + number}"


@dataclass
class World:
    """A source cluster below `parent` and its WALs below `folder`. What is held is held until it is closed."""

    zk: KazooClient
    quorum: str
    parent: str
    folder: Path
    held: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.now = int(time.time() * 1000)
        self.znodes = LastingZNodes(self.zk, ZNodes(self.parent))
        for path in (self.znodes.nodes.rs, self.znodes.nodes.peers, self.znodes.nodes.queues):
            self.zk.ensure_path(path)
        self.zk.create(self.znodes.nodes.hbaseid, b"6f5bd3b0-3c9b-4a5e-9d3a-1d8a7c1e9f00")
        (self.folder / "oldWALs").mkdir(parents=True)
        self.source = SourceCluster(
            quorum=self.quorum, wal_root=f"file://{self.folder}", znode_parent=self.parent, root=f"/walferry{self.parent}"
        )

    def close(self) -> None:
        self.held.close()

    def start_servers(self, count: int = 3) -> None:
        for number in range(1, count + 1):
            self.znodes.start_server(server(number))

    def add_peer(self, peer_id: str, *, peer_cluster: bool = True, managed: bool = True) -> None:
        """A peer whose cluster is there, or not."""
        host, port = self.quorum.split(":")
        key = f"{host}:{port}:{self.parent}-peer-cluster" if peer_cluster else f"{host}:1:/hbase"
        config = {"walferry.managed": "true"} if managed else {}
        self.znodes.add_peer(peer_id, "DISABLED" if managed else "ENABLED", config, clusterkey=key)
        if peer_cluster and not self.zk.exists(f"{self.parent}-peer-cluster"):
            rpc = self.held.enter_context(RpcServer({"AdminService": {}}))
            self.zk.create(f"{self.parent}-peer-cluster/hbaseid", b"7f5bd3b0-3c9b-4a5e-9d3a-1d8a7c1e9f00", makepath=True)
            self.zk.create(f"{self.parent}-peer-cluster/rs/127.0.0.1,{rpc.port},1792500000000", makepath=True)

    def add_closed(
        self, at: str, queue_id: str, ago_ms: int, position: int | None = None, size: int = 128 * MIB, of: str = ""
    ) -> None:
        """A closed WAL, in oldWALs: it takes no room, but has a size."""
        name = wal(self.now - ago_ms, of or at)
        self.znodes.add_wal(at, queue_id, name, position)
        with (self.folder / "oldWALs" / name).open("wb") as file:
            file.truncate(size)

    def add_open(self, at: str, queue_id: str) -> None:
        """The WAL that a live server writes. It has no edit."""
        name = wal(self.now - 10 * MINUTE, at)
        self.znodes.add_wal(at, queue_id, name)
        folder = self.folder / "WALs" / at
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(OPEN_WAL)

    def record(self, peer_id: str, sample: Callable[[int], Sample]) -> None:
        """The last day, of samples of so many intervals ago."""
        path = session_of(self.zk, self.source).own.history(peer_id)
        self.zk.create(path, encode(sample(ago) for ago in reversed(range(SAMPLES))), makepath=True)

    def ran(self, peer_id: str, run: str, status: Status, of: str, **figures: Any) -> None:
        """What a run has noted of a server's group."""
        session = session_of(self.zk, self.source)
        begin_run(session, peer_id, run, 3600)
        write_group(session, peer_id, run, GroupSummary(group=of.replace(",", "%2C"), status=status, **figures))


def sample(ago: int, lag: Age, shipped: int | None, left: int = 0) -> Sample:
    return sample_at(time.time() - ago * INTERVAL_SECONDS, lag, None if lag.ms is None else (left, 0), shipped, 2)


def wavy(ago: int) -> Sample:
    lag = Age(int(MINUTE * (1.5 + math.sin(ago / 20))), Certainty.EXACT)
    return sample(ago, lag, int(INTERVAL_SECONDS * MIB * (3 + 2 * math.sin(ago / 33))))


def growing(ago: int) -> Sample:
    """A backlog that has grown for five hours; for a while nothing was known."""
    if 100 < ago < 110:
        return sample(ago, unknown("nobody looked"), None)
    waits = max(0, 60 - ago) * INTERVAL_SECONDS * 1000
    return sample(
        ago, Age(MINUTE + waits, Certainty.AT_MOST if waits else Certainty.EXACT), 4 * MIB * INTERVAL_SECONDS, 300 * MIB
    )  # fmt: skip


def empty(world: World) -> None:
    """A cluster that replicates nothing."""
    world.start_servers()


def healthy(world: World) -> None:
    """Two peers, all shipped, and one that HBase ships itself."""
    world.start_servers()
    for peer_id in ("dr_site", "reporting"):
        world.add_peer(peer_id)
        world.record(peer_id, wavy)
        for number in (1, 2, 3):
            world.add_open(server(number), peer_id)
            done = {"shippedBytes": 90 * MIB, "shippedOps": 70_000, "timestampOfLastShippedOp": world.now - 3 * MINUTE}
            world.ran(peer_id, RUN, Status.DONE, server(number), ageOfLastShippedOp=8_000, **done)
    world.add_peer("legacy", managed=False)


def behind(world: World) -> None:
    """Five hours of WALs wait, and a run ships them."""
    world.start_servers()
    world.add_peer("dr_site")
    world.add_peer("reporting")
    world.record("dr_site", growing)
    world.record("reporting", wavy)
    for number in (1, 2, 3):
        for ago in range(10):
            world.add_closed(server(number), "dr_site", 5 * HOUR - 30 * MINUTE * ago, 40 * MIB if ago == 0 else None)
        world.add_open(server(number), "dr_site")
        world.add_open(server(number), "reporting")
    running = {"bytesToShip": 1200 * MIB, "bytesDone": 300 * MIB, "logReadInBytes": 300 * MIB, "seconds": 60.0}
    world.ran("dr_site", f"{RUN}.1", Status.RUNNING, server(1), timestampOfNextToReplicate=world.now - 5 * HOUR, **running)
    world.ran("dr_site", f"{RUN}.1", Status.RUNNING, server(2), **running)
    world.held.enter_context(holding_peer(world.source, "dr_site", RUN, "batch scheduled__2026-11-23", -1))
    for number in (1, 2):
        lease = acquire(session_of(world.zk, world.source), "dr_site", server(number).replace(",", "%2C"), "a task of the batch")
        world.held.callback(lease.release)


def orphaned(world: World) -> None:
    """A dead server's queues: unclaimed, claimed by HBase, and of a peer that is gone; a position that makes no sense."""
    world.start_servers()
    world.add_peer("dr_site")
    world.add_open(server(1), "dr_site")
    for ago in (3, 2, 1):
        world.add_closed(DEAD, "dr_site", ago * HOUR)
        world.add_closed(server(2), f"dr_site-{server(5)}", ago * HOUR, of=server(5))
        world.add_closed(server(3), f"gone-{server(6)}", ago * 24 * HOUR, of=server(6))
    odd = world.znodes.add_wal(server(1), "dr_site", wal(world.now - 4 * HOUR, server(1)))
    world.zk.set(odd, b"\xff odd")


def peer_down(world: World) -> None:
    """Nothing answers where the peer cluster should be, and runs have failed for that."""
    world.start_servers()
    world.add_peer("dr_site", peer_cluster=False)
    world.record("dr_site", growing)
    why = "ZooKeeper of peer cluster zk-dr.example.org:2181:/hbase cannot be reached: Connection refused"
    for number in (1, 2, 3):
        for ago in (5, 3, 1):
            world.add_closed(server(number), "dr_site", ago * HOUR)
        world.add_open(server(number), "dr_site")
        world.ran("dr_site", f"{RUN}.1", Status.FAILED, server(number), error=why)
    note_down(session_of(world.zk, world.source), "dr_site", f"{RUN}.1", why)


def many(world: World, queues: int = MANY_QUEUES, wals: int = 1) -> None:
    """A thousand servers, each with a queue."""
    world.add_peer("dr_site")
    names = [f"host-{number:04}.example.org,16020,{1_792_500_000_000 + number}" for number in range(queues)]
    create_all(world.zk, znodes_of_queues(world.znodes.nodes, names, "dr_site", world.now, wals))


def hostile(world: World) -> None:
    """A writer to ZooKeeper has chosen all names and texts."""
    world.start_servers()
    name = HOSTILE_NAME
    world.add_peer("p")
    world.znodes.add_peer(name, clusterkey=f"{name}:2181:/{name}")
    for queue_id in (name, f"{name}-{DEAD}", f"p-{name}"):
        world.znodes.add_wal(server(1), queue_id, wal(world.now - HOUR, server(1)))
    world.znodes.add_wal(server(1), "p", wal(world.now - HOUR, f"{name},16020,1"))
    world.znodes.add_wal(f"{name},16020,1", "p", wal(world.now - 2 * HOUR, DEAD), 5)
    world.ran("p", f"replicate_peer/{name}.1", Status.FAILED, server(1), error=HOSTILE, sinkError=HOSTILE)
    note_down(session_of(world.zk, world.source), "p", HOSTILE, HOSTILE)
    held = json.dumps({"holder": HOSTILE, "since": HOSTILE, "run": f"replicate_peer/{HOSTILE}"}).encode()
    own = session_of(world.zk, world.source).own
    world.zk.create(own.peer_lock("p"), held, makepath=True)
    world.zk.create(f"{own.peer_lock('p')}/1")
    world.zk.create(own.history("p"), HOSTILE.encode(), makepath=True)
    region = encode_region(HOSTILE.encode(), RegionState.OPENING, ServerName.parse(server(1)))
    world.zk.create(world.znodes.nodes.region_in_transition("0123456789abcdef" * 2), region, makepath=True)


STATES: dict[str, Callable[[World], None]] = {
    "empty": empty, "healthy": healthy, "behind": behind, "orphaned": orphaned, "peer-down": peer_down, "many": many,
    "hostile": hostile,
}  # fmt: skip


def znodes_of_queues(nodes: ZNodes, servers: Sequence[str], peer_id: str, now: int, wals: int) -> Iterator[tuple[str, bytes]]:
    """The znodes of live servers, each with a queue of so many WALs, one a minute; the oldest one has a position."""
    for each in servers:
        yield f"{nodes.rs}/{each}", b""
        yield nodes.queue_server(each), b""
        yield nodes.queue(each, peer_id), b""
        for number in range(wals):
            position = prefixed(encode_position(4711)) if number == 0 else b""
            yield nodes.wal(each, peer_id, wal(now - (wals - number) * MINUTE, each)), position
