"""What it takes to plan a batch, and what a job's tasks do before they ship, as clusters grow.

    PYTHONPATH=plugins python -m bench.plan     WALFERRY_BENCH_PLAN_SERVERS (10,100,500,1000), WALFERRY_BENCH_PLAN_HDFS (10)

A real ZooKeeper holds the queues of three peers, each with 100 WALs a server. The WALs are small files in HBase's format, in a
real file tree, or on a real HDFS for the one size that WALFERRY_BENCH_PLAN_HDFS names (0: none).

 plan    what the task `plan` of a batch does for one peer
 tasks   what the driver of a peer's Spark job and its tasks do: the driver lists the WAL groups; each task leases one server's
         group, reads its WALs and dequeues them. The peer gets a namespace without tables, so no task sends anything. Four tasks
         are run, and the figures of all tasks are extrapolated from these.

Each measurement runs in a process of its own. `znodes` counts the queues' znodes. Requests to ZooKeeper and to the file system
are counted where they leave the process. The CPU-seconds are the process's, without ZooKeeper's. The memory is what the step has
taken beyond what the process had before.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
from kazoo.client import KazooClient

from embedded.hdfs import Hdfs
from embedded.zookeeper import ZooKeeperServer, create_all
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import connected
from walferry.hbase.layout import ZNodes
from walferry.hbase.values import PBUF
from walferry.replication.source.cluster import SourceCluster

SERVERS = [int(n) for n in os.environ.get("WALFERRY_BENCH_PLAN_SERVERS", "10,100,500,1000").split(",")]
HDFS_SERVERS = int(os.environ.get("WALFERRY_BENCH_PLAN_HDFS", "10"))
WALS = 100  # a server
PEERS = ("one", "two", "three")
TASKS = 4  # that are run, of a job's
VALUE_BYTES = 70_000  # a file is longer than what planning would look into for entries
LINKS = 30_000  # names that one file may have
READS = ("GetData", "GetChildren", "GetChildren2", "Exists")
FILE_CALLS = ("stat", "open", "pread", "scandir", "listdir")
HDFS_CALLS = ("info", "ls", "open")
HDFS_CLIENT_CALLS = ("list_status",)
HEADER = f"{'znodes':>30}   seconds       CPU   peak MB    ZooKeeper reads   a znode    writes    file calls\n{'-' * 108}"


@dataclass(frozen=True)
class Measured:
    """Of one step: seconds, CPU-seconds, bytes of memory beyond the process's own, and calls that left the process."""

    step: str
    znodes: int  # of the queues that the step is about
    seconds: float
    cpu: float
    memory: int
    reads: int
    writes: int
    files: int

    def line(self, servers: int, where: str) -> str:
        """A row of the table."""
        took = f"{self.znodes:10,} {self.seconds:9.1f} {self.cpu:9.1f} {self.memory / 1e6:9.0f}"
        calls = f"{self.reads:18,} {self.reads / self.znodes:9.1f} {self.writes:9,} {self.files:13,}"
        return f"{servers:5} {where:5} {self.step:9}{took} {calls}"


def server_name(number: int) -> str:
    """The nth RegionServer."""
    return f"rs-{number:04}.example.org,16020,{1_700_000_000_000 + number}"


def wal_names(server: str) -> list[str]:
    """Its WALs, oldest first."""
    return [f"{server.replace(',', '%2C')}.{1_700_000_100_000 + 1000 * i}" for i in range(WALS)]


def wal_file() -> bytes:
    """A closed WAL with one entry of one cell."""
    row, family = b"row", b"f"
    key = len(row).to_bytes(2) + row + bytes([len(family)]) + family + b"q" + (1_700_000_000_000).to_bytes(8) + bytes([4])
    value = bytes(VALUE_BYTES)
    cell = b"".join(n.to_bytes(4) for n in (8 + len(key) + len(value), len(key), len(value))) + key + value
    wal_key = pb.WALKey(
        encoded_region_name=b"0123456789abcdef0123456789abcdef", table_name=b"t", log_sequence_number=1,
        write_time=1_700_000_000_000, following_kv_count=1,
        scopes=[pb.FamilyScope(family=family, scope_type=pb.REPLICATION_SCOPE_GLOBAL)],
    )  # fmt: skip
    codec = "org.apache.hadoop.hbase.regionserver.wal.WALCellCodec"
    header = pb.WALHeader(writer_cls_name="ProtobufLogWriter", cell_codec_cls_name=codec)
    return b"PWAL" + _delimited(header) + _delimited(wal_key) + cell + bytes(4) + b"LAWP"


def _delimited(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    length = b""
    rest = len(data)
    while rest > 0x7F:
        length += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return length + bytes([rest]) + data


class Cluster:
    """A source cluster of so many servers, each with a queue of each peer: znodes in `zookeeper`, files under `url`."""

    def __init__(self, zookeeper: ZooKeeperServer, url: str, servers: int, peers: Sequence[str] = PEERS) -> None:
        self.peers = peers
        self.name = f"/hbase-{servers}-{uuid4().hex[:6]}"
        self.servers = [server_name(i) for i in range(servers)]
        self.source = SourceCluster(quorum=zookeeper.quorum, wal_root=url, znode_parent=self.name, root=f"/walferry{self.name}")

    def make_znodes(self) -> None:
        """As HBase does, with the WALs of all servers queued for each peer."""
        nodes, peer_cluster = ZNodes(self.name), ZNodes(f"{self.name}-peer-cluster")
        with connected(self.source.quorum) as zk:
            for cluster in (nodes, peer_cluster):
                for path in (cluster.rs, cluster.peers, cluster.queues):
                    zk.ensure_path(path)
                zk.create(cluster.hbaseid, PBUF + pb.ClusterId(cluster_id=str(uuid4())).SerializeToString())
            for peer in self.peers:
                cluster_key = f"{self.source.quorum}:{peer_cluster.base}"
                config = pb.ReplicationPeer(clusterkey=cluster_key, replicate_all=False, namespaces=[b"none"])
                config.configuration.add(name="walferry.managed", value="true")
                zk.create(nodes.peer(peer), PBUF + config.SerializeToString())
                state = pb.ReplicationState(state=pb.ReplicationState.DISABLED)
                zk.create(nodes.peer_state(peer), PBUF + state.SerializeToString())
            create_all(zk, ((path, b"") for path in self._queue_paths(nodes)))
            # There is no Master. With a RegionServer of HBase 1, Walferry asks none.
            release = pb.VersionInfo(version="1.7.2", url="", revision="", user="", date="", src_checksum="")
            zk.set(f"{nodes.rs}/{self.servers[0]}", PBUF + pb.RegionServerInfo(version_info=release).SerializeToString())

    def _queue_paths(self, nodes: ZNodes) -> Iterator[str]:
        for server in self.servers:
            yield f"{nodes.rs}/{server}"
            yield nodes.queue_server(server)
            for peer in self.peers:
                yield nodes.queue(server, peer)
                yield from (nodes.wal(server, peer, wal) for wal in wal_names(server))

    def make_files(self) -> None:
        """The newest WAL of each server in its own folder, the others archived."""
        folder = Path(self.source.wal_root.removeprefix("file://"))
        (folder / "oldWALs").mkdir(parents=True)
        data, made, original = wal_file(), 0, folder
        for server in self.servers:
            (folder / "WALs" / server).mkdir(parents=True)
            for path in _places(folder, server):
                if made % LINKS == 0:
                    path.write_bytes(data)
                    original = path
                else:
                    path.hardlink_to(original)
                made += 1

    def make_files_on_hdfs(self) -> None:
        """The same on HDFS, where no file has two names."""
        system, data = fsspec.core.url_to_fs(self.source.wal_root)[0], wal_file()
        for server in self.servers:
            for path in _places(Path("/hbase"), server):
                with system.open(str(path), "wb") as file:
                    file.write(data)


def _places(folder: Path, server: str) -> Iterator[Path]:
    *archived, newest = wal_names(server)
    yield folder / "WALs" / server / newest
    for wal in archived:
        yield folder / "oldWALs" / wal


def measure(step: str, source: SourceCluster, servers: int) -> Measured:
    """Run a step in this process."""
    counts = _counted()
    from walferry.replication.source.session import open_session
    from walferry.runs.steps import batch
    from walferry.shipping.group import ship_group  # compiles what it needs: not a part of what is measured
    from walferry.shipping.group_job import GroupJob
    from walferry.shipping.plan import groups_to_ship

    def plan() -> None:
        planned = batch.plan(source, PEERS[0], "bench")
        assert planned.wals == servers * (WALS - 1), planned

    def driver() -> None:
        with open_session(source) as session:
            places.update(groups_to_ship(session, PEERS[1]))

    def task(server: str) -> None:
        group = server.replace(",", "%2C")
        summary = ship_group(GroupJob(
            source=source, peer_id=PEERS[1], group=group, place=places[group], run_id="bench", holder="bench",
            deadline=time.time() + 600,
        ))  # fmt: skip
        assert summary.completedLogs == WALS - 1, summary

    def tasks() -> None:
        for i in range(TASKS):
            task(server_name(i * (servers - 1) // TASKS))

    places: dict[str, Any] = {}
    znodes = servers * (1 + WALS)
    if step == "plan":
        return _measured(step, znodes, counts, [(plan, 1)])
    driver()
    task(server_name(servers - 1))
    return _measured(step, znodes, counts, [(driver, 1), (tasks, servers / TASKS)])


def _measured(step: str, znodes: int, counts: Counter[str], parts: Sequence[tuple[Callable[[], None], float]]) -> Measured:
    """The figures of a step's parts, each of them multiplied."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, cpu, total = 0.0, 0.0, Counter[str]()
    for part, times in parts:
        counts.clear()
        began, cpu_began = time.monotonic(), time.process_time()
        part()
        seconds += (time.monotonic() - began) * times
        cpu += (time.process_time() - cpu_began) * times
        total.update({name: round(number * times) for name, number in counts.items()})
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return Measured(step, znodes, seconds, cpu, memory, total["reads"], total["writes"], total["files"])


def _counted() -> Counter[str]:
    """What is counted from now on: requests to ZooKeeper and to file systems."""
    counts: Counter[str] = Counter()
    send = KazooClient._call

    def call(self: KazooClient, request: Any, result: Any) -> Any:
        counts["reads" if type(request).__name__ in READS else "writes"] += 1
        return send(self, request, result)

    KazooClient._call = call
    from hdfs_native import Client
    from hdfs_native.fsspec import HdfsFileSystem

    for owner, names in ((os, FILE_CALLS), (HdfsFileSystem, HDFS_CALLS), (Client, HDFS_CLIENT_CALLS)):
        for name in names:
            setattr(owner, name, _counting(getattr(owner, name), counts))
    return counts


def _counting(function: Callable[..., Any], counts: Counter[str]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        counts["files"] += 1
        return function(*args, **kwargs)

    return counted


def _measure_apart(step: str, cluster: Cluster) -> Measured:
    command = [sys.executable, "-m", "bench.plan", step, cluster.source.to_json(), str(len(cluster.servers))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def _hdfs(folder: Path) -> Iterator[str]:
    hdfs = Hdfs(folder)
    try:
        hdfs.start()
        yield hdfs.url
    finally:
        hdfs.kill()


def main() -> None:
    """Make the clusters one by one, measure each, print."""
    print(HEADER)
    with tempfile.TemporaryDirectory(prefix="walferry-bench-plan-") as folder:
        for servers in SERVERS:
            here = Path(folder) / str(servers)
            with ZooKeeperServer(here / "zookeeper", heap="1g") as zookeeper:
                cluster = Cluster(zookeeper, f"file://{here}/hbase", servers)
                cluster.make_znodes()
                cluster.make_files()
                _print(cluster, "local")
        if HDFS_SERVERS:
            here = Path(folder) / "on-hdfs"
            with _hdfs(here / "hdfs") as url, ZooKeeperServer(here / "zookeeper", heap="1g") as zookeeper:
                cluster = Cluster(zookeeper, f"{url}/hbase", HDFS_SERVERS)
                cluster.make_znodes()
                cluster.make_files_on_hdfs()
                _print(cluster, "hdfs")


def _print(cluster: Cluster, where: str) -> None:
    for step in ("plan", "tasks"):
        print(_measure_apart(step, cluster).line(len(cluster.servers), where), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(asdict(measure(sys.argv[1], SourceCluster.from_json(sys.argv[2]), int(sys.argv[3])))))
    else:
        main()
