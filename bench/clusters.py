"""The two clusters of a benchmark, with a table and peers that all lead to the same peer cluster.

While a backlog is written all peers are DISABLED, so each of them has the same WALs queued, and each way of shipping drains a
queue of its own.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.processes import cpu_seconds
from embedded.client import GLOBAL, ClientJvm, JavaClient, even_splits
from embedded.distributed import ClusterOptions, DistributedCluster, DistributedClusters
from embedded.jars import codec_classpath
from embedded.spark_connect import ConnectServer
from walferry.replication.queues.rolling import roll
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session

COLUMNS = ("f:a", "f:b")
VALUE_BYTES = 100
ROW_BYTES = len(COLUMNS) * (VALUE_BYTES + 42)  # of a WAL without compression, about
REGIONS = 8
TABLE = "bench"
PLAIN_PEER = "hbase"
MANAGED_PEER = "walferry"
TIMEOUT_SECONDS = 1800
WAL = "hbase.regionserver.wal"
COMPRESSED = {
    f"{WAL}.enablecompression": "true",
    f"{WAL}.value.enablecompression": "true",
    f"{WAL}.value.compression.type": "snappy",
}


@dataclass(frozen=True)
class Setup:
    """What the clusters are like."""

    managed: Sequence[str] = (MANAGED_PEER,)  # ids of managed peers, besides the plain one
    regions: int = REGIONS
    compressed: bool = False  # whether the source compresses its WALs, with dictionaries and values with SNAPPY
    round_trip: float = 0.0  # seconds to the peer cluster's RegionServers
    source: dict[str, str] = field(default_factory=dict)  # more settings of the source
    source_heap: str = "1g"  # of each of its RegionServers

    @property
    def codecs(self) -> tuple[Path, ...]:
        """What a reader or a writer of the source's WALs needs besides HBase."""
        return tuple(codec_classpath()) if self.compressed else ()

    @property
    def options(self) -> dict[str, ClusterOptions]:
        # With 1 GB the peer cluster's servers run out of memory under HBase's own replication.
        # Of the embedded clusters' settings the first one would change HBase's own shipping: it is set back to HBase's default.
        # Shipped WALs are kept for those ways that need no queue.
        source = {
            "replication.source.sleepforretries": "1000",
            "hbase.master.logcleaner.ttl": "36000000",
            **(COMPRESSED if self.compressed else {}),
            **self.source,
        }
        return {
            "source": ClusterOptions(source, regionserver_heap=self.source_heap, regionserver_jvm=(), classpath=self.codecs),
            "peer_cluster": ClusterOptions(regionserver_heap="3g", regionserver_jvm=(), round_trip=self.round_trip),
        }


class Bench:
    """The clusters with their table and peers."""

    def __init__(self, clusters: DistributedClusters, jvm: ClientJvm, folder: Path, setup: Setup, stack: ExitStack) -> None:
        self.source_cluster, self.peer_hbase, self.hdfs = clusters["source"], clusters["peer_cluster"], clusters.hdfs
        self.setup = setup
        self.folder = folder
        self.log = folder / "spark.log"
        self._stack = stack
        self._connect: ConnectServer | None = None
        self._runs = 0
        address = self.source_cluster.address
        self.source = SourceCluster(quorum=address.quorum, wal_root=address.wal_root, znode_parent=address.znode_parent)
        self.client: JavaClient = jvm.client(address)
        self.peer_cluster: JavaClient = jvm.client(self.peer_hbase.address)
        for client in (self.client, self.peer_cluster):
            client.switch_balancer(False)
        self._create_tables(setup.regions)
        key = self.peer_hbase.address.cluster_key
        self.client.add_peer(PLAIN_PEER, key, enabled=False)
        for peer in setup.managed:
            self.client.add_managed_peer(peer, key)

    def _create_tables(self, regions: int) -> None:
        # The peer cluster is as fast as it can be, but writes to the source survive a server that is killed.
        for client, async_wal in ((self.client, False), (self.peer_cluster, True)):
            client.create_table(TABLE, {"f": GLOBAL}, even_splits(regions), async_wal=async_wal)

    def resplit(self, regions: int) -> None:
        """Make the tables anew, with so many regions each."""
        for client in (self.client, self.peer_cluster):
            client.drop_table(TABLE)
        self._create_tables(regions)

    @property
    def peers(self) -> list[str]:
        """All peers, each with a queue of the same WALs."""
        return [PLAIN_PEER, *self.setup.managed]

    def write(self, rows: int) -> None:
        """Write this many rows into the source's table."""
        self.client.put_many(TABLE, rows, COLUMNS, first=0, value_bytes=VALUE_BYTES)

    def roll(self) -> None:
        """Have all RegionServers of the source begin new WALs."""
        with open_session(self.source) as session:
            rolled = roll(session, self.setup.managed)
        if rolled.failures:
            raise RuntimeError(f"not rolled: {rolled.failures}")

    def next_run(self) -> int:
        """A number for a run, each time another."""
        self._runs += 1
        return self._runs

    def connect(self) -> ConnectServer:
        """The Spark Connect server, which stays up from the first call on."""
        if self._connect is None:
            self._connect = self._stack.enter_context(ConnectServer(self.folder))
        return self._connect


@contextmanager
def bench(setup: Setup | None = None) -> Iterator[Bench]:
    """Both clusters with table and peers. Their files are kept only if something fails."""
    setup = setup or Setup()
    folder = Path(tempfile.mkdtemp(prefix="walferry-bench-"))
    with (
        DistributedClusters(folder, setup.options) as clusters, ClientJvm(folder / "client") as jvm, ExitStack() as stack
    ):  # fmt: skip
        yield Bench(clusters, jvm, folder, setup, stack)
    shutil.rmtree(folder)


def region_servers_cpu(cluster: DistributedCluster) -> float:
    """CPU seconds of a cluster's running RegionServers so far."""
    return cpu_seconds(server.process.pid for server in cluster.regionservers)


def wait(done: Callable[[], bool], what: str, *, pause: float = 0.2) -> None:
    """Poll until `done`."""
    give_up = time.monotonic() + TIMEOUT_SECONDS
    while not done():
        if time.monotonic() > give_up:
            raise RuntimeError(f"not within {TIMEOUT_SECONDS} s: {what}")
        time.sleep(pause)
