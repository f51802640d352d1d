"""What the benchmarks of shipping share: two clusters, two peers with the same WALs queued, and a drain of each.

Two peers of one source lead to the same slave: `hbase`, a plain one, and `walferry`, a managed one. While a backlog is written
both are DISABLED, so both have the same WALs queued. Then one of them drains it, the slave's table is emptied, and the other
does. They take turns at beginning a round. Both drain a small backlog first, so that neither starts cold.

A drain counts from when it is asked for until the peer's queues name no WAL with an unshipped entry, or, of a queue that no
server adds to, no WAL at all; after it the slave's rows are counted. For Walferry the start of the Spark job (JVM, Python
workers, library) is shown apart.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import TreeUsage, cpu_seconds
from embedded.client import GLOBAL, ClientJvm, JavaClient, even_splits
from embedded.distributed import ClusterOptions, DistributedCluster, DistributedClusters
from embedded.spark import submit
from walferry.airflow.steps import batch
from walferry.queues.reading import read_queues
from walferry.shipping.plan import plan_peer
from walferry.source.cluster import SourceCluster
from walferry.source.session import open_session

COLUMNS = ("f:a", "f:b")
VALUE_BYTES = 100
REGIONS = 8
TABLE = "bench"
TIMEOUT_SECONDS = 900
MB, GB = 1e6, 1e9
HEADER = (
    "                                                    CPU-seconds a GB            peak MB\n"
    "           seconds    start     MB/s    cells/s      own      job    slave       job    worker"
)
RULE = "-" * 96


@dataclass(frozen=True)
class Backlog:
    """What is queued for both peers. `groups` are the WAL groups that hold it; empty means all."""

    rows: int
    bytes: int
    groups: tuple[str, ...] = ()

    @property
    def cells(self) -> int:
        return self.rows * len(COLUMNS)

    @property
    def options(self) -> tuple[str, ...]:
        """Arguments that make the Spark job ship this and nothing else."""
        return tuple(part for group in self.groups for part in ("--group", group))


@dataclass(frozen=True)
class Drain:
    """One drain of a backlog. Sizes are in bytes, times in seconds."""

    by: str
    seconds: float
    start: float  # of the Spark job, not in `seconds`
    bytes: int  # of WAL entries
    cells: int
    own_cpu: float  # HBase: the source's RegionServers; Walferry: its Python processes while they ship
    job_cpu: float  # the whole Spark job with its start, 0 for HBase
    slave_cpu: float  # the slave's RegionServers
    peak: int  # resident memory of the Spark job's processes
    peak_python: int

    def line(self) -> str:
        """A row of the table of all drains."""
        per_gb = [seconds / self.bytes * GB for seconds in (self.own_cpu, self.job_cpu, self.slave_cpu)]
        figures = [
            f"{self.seconds:8.1f} {self.start:8.1f} {self.bytes / MB / self.seconds:8.1f} {self.cells / self.seconds:10,.0f}",
            *(f"{figure:8.1f}" for figure in per_gb),
            *(f"{size / MB:9.0f}" for size in (self.peak, self.peak_python)),
        ]
        return f"{self.by:9} {' '.join(figures)}"


class Bench:
    """The clusters with their table and peers."""

    def __init__(self, clusters: DistributedClusters, jvm: ClientJvm, folder: Path) -> None:
        self.source_cluster, self.slave_cluster = clusters["source"], clusters["slave"]
        address = self.source_cluster.address
        self.source = SourceCluster(quorum=address.quorum, wal_root=address.wal_root, znode_parent=address.znode_parent)
        self.client: JavaClient = jvm.client(address)
        self.slave: JavaClient = jvm.client(self.slave_cluster.address)
        self.log = folder / "spark.log"
        # The slave is as fast as it can be, but writes to the source survive a server that is killed.
        for client, async_wal in ((self.client, False), (self.slave, True)):
            client.create_table(TABLE, {"f": GLOBAL}, even_splits(REGIONS), async_wal=async_wal)
            client.switch_balancer(False)
        key = self.slave_cluster.address.cluster_key
        self.client.add_peer("hbase", key, enabled=False)
        self.client.add_managed_peer("walferry", key)

    def write(self, rows: int) -> None:
        """Write this many rows into the source's table."""
        self.client.put_many(TABLE, rows, COLUMNS, first=0, value_bytes=VALUE_BYTES)

    def in_turn(self, backlog: Backlog, round_: int) -> list[Drain]:
        """Drain a backlog both ways, and print both drains."""
        drains = []
        for by in ("hbase", "walferry") if round_ % 2 == 0 else ("walferry", "hbase"):
            self.slave.empty_table(TABLE)
            drain = self._by_hbase(backlog) if by == "hbase" else self._by_walferry(backlog, f"bench-{backlog.rows}-{round_}")
            self._check(backlog)
            print(drain.line(), flush=True)
            drains.append(drain)
        return drains

    def _drained(self, peer_id: str, backlog: Backlog) -> bool:
        """Whether all closed WALs of the peer are shipped, or nothing is left in the queue of the groups named."""
        with open_session(self.source) as session:
            if backlog.groups:
                queued = {wal.name.group for queue in read_queues(session, peer_id) for wal in queue.wals}
                return queued.isdisjoint(backlog.groups)
            return not plan_peer(session, peer_id).to_ship

    def _by_hbase(self, backlog: Backlog) -> Drain:
        """Enable the plain peer until it has nothing left."""
        before, slave_before = region_servers_cpu(self.source_cluster), region_servers_cpu(self.slave_cluster)
        began = time.monotonic()
        self.client.enable_peer("hbase")
        wait(lambda: self._drained("hbase", backlog), "HBase's own replication drains its queues")
        seconds = time.monotonic() - began
        own = region_servers_cpu(self.source_cluster) - before
        slave = region_servers_cpu(self.slave_cluster) - slave_before
        self.client.disable_peer("hbase")
        return Drain("hbase", seconds, 0.0, backlog.bytes, backlog.cells, own, 0.0, slave, 0, 0)

    def _by_walferry(self, backlog: Backlog, run_id: str) -> Drain:
        """Drain the backlog by one Spark job."""
        slave_before = region_servers_cpu(self.slave_cluster)
        began = time.monotonic()
        with self.log.open("ab") as log:
            job = submit(self.source, "walferry", run_id, out=log, args=backlog.options)
            usage = TreeUsage(job.pid)
            code = job.wait(TIMEOUT_SECONDS)
        total, used = time.monotonic() - began, usage.stop()
        slave = region_servers_cpu(self.slave_cluster) - slave_before
        if code or not self._drained("walferry", backlog):
            raise RuntimeError(f"the Spark job ended with code {code}:\n{self.log.read_text()[-4000:]}")
        groups = batch.summaries(self.source, "walferry", run_id)
        seconds = max(g.seconds for g in groups)
        own = sum(g.cpuSeconds for g in groups)
        return Drain(
            "walferry", seconds, total - seconds, backlog.bytes, backlog.cells, own, used.cpu_seconds, slave, used.peak_bytes,
            used.peak_python_bytes,
        )  # fmt: skip

    def _check(self, backlog: Backlog) -> None:
        """Check that the slave has all rows."""
        found = self.slave.count_rows(TABLE)
        if found != backlog.rows:
            raise RuntimeError(f"the slave has {found} of {backlog.rows} rows")


@contextmanager
def bench(conf: Mapping[str, str] | None = None) -> Iterator[Bench]:
    """Both clusters with table and peers; `conf` adds to the source's settings. Their files are kept only if something fails."""
    folder = Path(tempfile.mkdtemp(prefix="walferry-bench-"))
    # With 1 GB the slave's servers run out of memory under HBase's own replication.
    # Of the embedded clusters' settings this one would change HBase's own shipping: it is set back to HBase's default.
    conf = {"replication.source.sleepforretries": "1000", **(conf or {})}
    options = {"source": ClusterOptions(conf, regionserver_heap="1g"), "slave": ClusterOptions(regionserver_heap="3g")}
    with DistributedClusters(folder, options) as clusters, ClientJvm(folder / "client") as jvm:
        yield Bench(clusters, jvm, folder)
    shutil.rmtree(folder)


def region_servers_cpu(cluster: DistributedCluster) -> float:
    """CPU seconds of a cluster's running RegionServers so far."""
    return cpu_seconds(server.process.pid for server in cluster.regionservers)


def wait(done: Callable[[], bool], what: str) -> None:
    """Poll until `done`."""
    give_up = time.monotonic() + TIMEOUT_SECONDS
    while not done():
        if time.monotonic() > give_up:
            raise RuntimeError(f"not within {TIMEOUT_SECONDS} s: {what}")
        time.sleep(0.2)


def measure(on: Bench, write_backlog: Callable[[Bench, int], Backlog], what: str, rows: int, rounds: int) -> None:
    """Warm up, drain, print."""
    print(f"{what}: {rounds} rounds of {rows:,} rows, {len(COLUMNS)} cells of {VALUE_BYTES} bytes each; a small one to warm up")
    print(HEADER, flush=True)
    on.in_turn(write_backlog(on, max(1000, rows // 10)), 0)
    print(RULE, flush=True)
    drains = [drain for round_ in range(rounds) for drain in on.in_turn(write_backlog(on, rows), round_)]
    print(RULE)
    print(verdict(drains))


def verdict(drains: list[Drain]) -> str:
    """Medians and the ratio of each round."""
    by = {who: [d for d in drains if d.by == who] for who in ("hbase", "walferry")}
    ratios = [h.seconds / w.seconds for h, w in zip(by["hbase"], by["walferry"], strict=True)]
    with_start = [h.seconds / (w.seconds + w.start) for h, w in zip(by["hbase"], by["walferry"], strict=True)]
    own = statistics.median(d.own_cpu / d.bytes * GB for d in by["walferry"])
    return (
        f"Walferry / HBase throughput: {_spread(ratios)}; with the Spark job's start in it: {_spread(with_start)}\n"
        f"Walferry's own CPU-seconds a GB, while it ships: {own:.1f} (median)"
    )


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} (median; {', '.join(f'{v:.2f}' for v in values)})"
