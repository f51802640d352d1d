"""One backlog, drained by HBase's own replication and by Walferry in turn, on the same clusters in the same run.

    PYTHONPATH=plugins python -m bench.replication        WALFERRY_BENCH_ROWS (1000000), WALFERRY_BENCH_ROUNDS (3)

Two peers of one source lead to the same slave: `hbase`, a plain one, and `walferry`, a managed one. While a backlog is written
both are DISABLED, so both have the same WALs queued. Then one of them drains it, the slave's table is emptied, and the other
does; who begins changes from round to round. A small backlog is drained by both before, so that nobody starts cold.

A drain counts from when it is asked for until the peer's queues name no WAL with an unshipped entry; after it the slave's rows
are counted. For Walferry the start of the Spark job (JVM, Python workers, library) is shown apart.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.processes import TreeUsage, cpu_seconds
from embedded.client import GLOBAL, ClientJvm, JavaClient, even_splits
from embedded.distributed import ClusterOptions, DistributedCluster, DistributedClusters
from embedded.spark import submit
from walferry.airflow import batch
from walferry.plan import plan_peer
from walferry.source import SourceCluster
from walferry.storage import WalStore
from walferry.zk.client import connected

ROWS = int(os.environ.get("WALFERRY_BENCH_ROWS", "1000000"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_ROUNDS", "3"))
COLUMNS = ("f:a", "f:b")
VALUE_BYTES = 100
REGIONS = 8
TABLE = "bench"
DRAIN_TIMEOUT_S = 900
MB, GB = 1e6, 1e9


@dataclass(frozen=True)
class Drain:
    """One backlog drained once. Sizes in bytes, times in seconds."""

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


HEADER = (
    "                                                    CPU-seconds a GB            peak MB\n"
    "           seconds    start     MB/s    cells/s      own      job    slave       job    worker"
)


class Bench:
    """The clusters with their table and peers."""

    def __init__(self, clusters: DistributedClusters, jvm: ClientJvm, folder: Path) -> None:
        self.source_cluster, self.slave_cluster = clusters["source"], clusters["slave"]
        address = self.source_cluster.address
        self.source = SourceCluster(quorum=address.quorum, wal_root=address.wal_root, znode_parent=address.znode_parent)
        self.client: JavaClient = jvm.client(address)
        self.slave: JavaClient = jvm.client(self.slave_cluster.address)
        self.log = folder / "spark.log"
        for client in (self.client, self.slave):
            client.create_table(TABLE, {"f": GLOBAL}, even_splits(REGIONS), async_wal=True)
            client.switch_balancer(False)
        key = self.slave_cluster.address.cluster_key
        self.client.add_peer("hbase", key, enabled=False)
        self.client.add_managed_peer("walferry", key)

    def write_backlog(self, rows: int) -> int:
        """Write `rows` rows and roll; the bytes that lie in closed WALs."""
        self.client.empty_table(TABLE)
        self.slave.empty_table(TABLE)
        self.client.put_many(TABLE, rows, COLUMNS, first=0, value_bytes=VALUE_BYTES)
        rolled = batch.roll(self.source, "walferry")
        if rolled.failures:
            raise RuntimeError(f"not rolled: {rolled.failures}")
        return int(batch.plan(self.source, "walferry", "bench")["bytes"])

    def drained(self, peer_id: str) -> bool:
        """Whether all closed WALs of the peer are shipped."""
        with connected(self.source.quorum) as zk:
            return not plan_peer(zk, self.source.nodes, WalStore(self.source.wal_root), peer_id).to_ship

    def by_hbase(self, rows: int, size: int) -> Drain:
        """Enable the plain peer until it has nothing left."""
        before, slave_before = _region_servers_cpu(self.source_cluster), _region_servers_cpu(self.slave_cluster)
        began = time.monotonic()
        self.client.enable_peer("hbase")
        _wait(lambda: self.drained("hbase"), "HBase's own replication drains its queues")
        seconds = time.monotonic() - began
        own = _region_servers_cpu(self.source_cluster) - before
        slave = _region_servers_cpu(self.slave_cluster) - slave_before
        self.client.disable_peer("hbase")
        return Drain("hbase", seconds, 0.0, size, rows * len(COLUMNS), own, 0.0, slave, 0, 0)

    def by_walferry(self, rows: int, size: int, run_id: str) -> Drain:
        """One Spark job."""
        slave_before = _region_servers_cpu(self.slave_cluster)
        began = time.monotonic()
        with self.log.open("ab") as log:
            job = submit(self.source, "walferry", run_id, out=log)
            usage = TreeUsage(job.pid)
            code = job.wait(DRAIN_TIMEOUT_S)
        total, used = time.monotonic() - began, usage.stop()
        slave = _region_servers_cpu(self.slave_cluster) - slave_before
        if code or not self.drained("walferry"):
            raise RuntimeError(f"the Spark job ended with code {code}:\n{self.log.read_text()[-4000:]}")
        groups = batch.summaries(self.source, "walferry", run_id)
        seconds = max(g.seconds for g in groups)
        own = sum(g.cpuSeconds for g in groups)
        return Drain(
            "walferry", seconds, total - seconds, size, rows * len(COLUMNS), own, used.cpu_seconds, slave, used.peak_bytes,
            used.peak_python_bytes,
        )  # fmt: skip

    def check(self, rows: int) -> None:
        """The slave has all rows."""
        found = self.slave.count_rows(TABLE)
        if found != rows:
            raise RuntimeError(f"the slave has {found} of {rows} rows")


def _region_servers_cpu(cluster: DistributedCluster) -> float:
    return cpu_seconds(server.process.pid for server in cluster.regionservers)


def _wait(done: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + DRAIN_TIMEOUT_S
    while not done():
        if time.monotonic() > give_up:
            raise RuntimeError(f"not within {DRAIN_TIMEOUT_S} s: {what}")
        time.sleep(0.2)


def run(bench: Bench, rows: int, rounds: int) -> list[Drain]:
    """All drains, in their order."""
    drains = []
    for round_ in range(rounds):
        size = bench.write_backlog(rows)
        who = ("hbase", "walferry") if round_ % 2 == 0 else ("walferry", "hbase")
        for by in who:
            bench.slave.empty_table(TABLE)
            drain = bench.by_hbase(rows, size) if by == "hbase" else bench.by_walferry(rows, size, f"bench-{rows}-{round_}")
            bench.check(rows)
            print(drain.line(), flush=True)
            drains.append(drain)
    return drains


def main() -> None:
    """Start the clusters, warm up, drain, print."""
    folder = Path(tempfile.mkdtemp(prefix="walferry-bench-"))
    # With 1 GB the slave's servers run out of memory under HBase's own replication.
    options = {"source": ClusterOptions(regionserver_heap="1g"), "slave": ClusterOptions(regionserver_heap="3g")}
    with DistributedClusters(folder, options) as clusters, ClientJvm(folder / "client") as jvm:
        bench = Bench(clusters, jvm, folder)
        print(f"{ROUNDS} rounds of {ROWS:,} rows, {len(COLUMNS)} cells of {VALUE_BYTES} bytes each; a small one to warm up")
        print(HEADER, flush=True)
        run(bench, max(1000, ROWS // 10), 1)
        print("-" * 96)
        drains = run(bench, ROWS, ROUNDS)
    print("-" * 96)
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


if __name__ == "__main__":
    main()
