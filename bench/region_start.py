"""The cold start of a cluster of HBase 1.7.2, by its own HMaster and by Walferry as its master, in turn on the same files.

    PYTHONPATH=plugins python -m bench.region_start     WALFERRY_BENCH_REGIONS (1000), WALFERRY_BENCH_ROUNDS (3)

Before each start the master is killed and all RegionServers are stopped in order. Then all are started together. A start counts
from when all RegionServers are there until each region is open: served by the one server that hbase:meta names, and no longer in
transition. Both masters begin as soon as all servers are there. Both make hbase:meta's region available first.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient

from embedded.client import LOCAL, ClientJvm, even_splits
from embedded.masterless import MasterlessCluster
from walferry.base.zk.client import connected
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.master import startup
from walferry.master.calls import CalledServers
from walferry.master.role import Candidate, acting_as_master
from walferry.master.role_loop import Cluster, Master

REGIONS = int(os.environ.get("WALFERRY_BENCH_REGIONS", "1000"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_ROUNDS", "3"))
SERVERS = 3
TABLE = "bench"
SYSTEM_REGIONS = 2  # hbase:meta and hbase:namespace
TIMEOUT_SECONDS = 300
POLL_SECONDS = 0.1
NO_WAIT = {
    "hbase.master.wait.on.regionservers.mintostart": str(SERVERS),
    "hbase.master.wait.on.regionservers.maxtostart": str(SERVERS),
}


@dataclass(frozen=True)
class Site:
    """The cluster, and what it takes to look at its regions."""

    cluster: MasterlessCluster
    zk: KazooClient
    seen: Cluster

    def stop_all(self) -> None:
        """Kill the master, if there is one, and stop the RegionServers in order, side by side."""
        if self.cluster.master is not None and self.cluster.master.alive:
            self.cluster.kill_master()
        with ThreadPoolExecutor(SERVERS) as pool:
            list(pool.map(lambda _: self.cluster.stop_regionserver(), range(len(self.cluster.regionservers))))
        wait(lambda: not self._live(), "all RegionServers are gone")

    def launch_regionservers(self) -> None:
        for _ in range(SERVERS):
            self.cluster.launch_regionserver()

    def seconds(self) -> float:
        """Wait until all servers are there, and then until all regions are open. Returns how long the latter took."""
        wait(lambda: len(self._live()) == SERVERS, "all RegionServers are there")
        began = time.monotonic()
        wait(self._all_open, "all regions are open")
        return time.monotonic() - began

    def _live(self) -> frozenset[object]:
        return frozenset(live_servers(self.zk, self.seen.nodes))

    def _all_open(self) -> bool:
        if self.zk.get_children(self.seen.nodes.in_transition):  # a look would take time from those at work
            return False
        view, read = self.seen.look()
        if not read.complete or len(view.regions) != REGIONS + SYSTEM_REGIONS:
            return False
        return all(region.served_by == {region.last_server} and region.znode is None for region in view.regions.values())


def wait(done: Callable[[], bool], what: str) -> None:
    """Wait until it is so."""
    give_up = time.monotonic() + TIMEOUT_SECONDS
    while not done():
        if time.monotonic() > give_up:
            raise RuntimeError(f"not within {TIMEOUT_SECONDS} s: {what}")
        time.sleep(POLL_SECONDS)


def by_hmaster(on: Site) -> float:
    """Start the cluster with a real HMaster."""
    on.cluster.launch_master()
    on.launch_regionservers()
    return on.seconds()


def by_walferry(on: Site) -> float:
    """Start the cluster with Walferry as its master."""
    with at_work(on):
        on.launch_regionservers()
        return on.seconds()


@contextmanager
def at_work(on: Site) -> Iterator[None]:
    """Walferry as the cluster's master, in a thread with a session of its own."""
    stop = threading.Event()
    root = on.seen.wal_root
    candidate = Candidate("bench", root, settings={"hbase.rootdir": root, "fs.defaultFS": "file:///"})

    def work() -> None:
        with connected(on.cluster.address.quorum) as zk, acting_as_master(zk, on.seen.nodes, on.seen.own, candidate) as role:
            cluster = Cluster(zk, on.seen.nodes, on.seen.own, CalledServers(), root)
            master = Master(cluster, role, tell=lambda line: None)
            master.start(SERVERS)
            master.run(stop)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            yield
        finally:
            stop.set()
        working.result()


WAYS: dict[str, Callable[[Site], float]] = {"HMaster": by_hmaster, "Walferry": by_walferry}


@contextmanager
def site() -> Iterator[Site]:
    """A cluster with a table of many regions."""
    with (
        tempfile.TemporaryDirectory(prefix="walferry-bench-") as folder,
        ClientJvm(Path(folder) / "client") as jvm,
        MasterlessCluster(Path(folder), NO_WAIT) as cluster,
        connected(cluster.address.quorum) as zk,
    ):
        for _ in range(SERVERS):
            cluster.launch_regionserver()
        cluster.start_master()
        jvm.client(cluster.address).create_table(TABLE, {"f": LOCAL}, even_splits(REGIONS))
        nodes = ZNodes(cluster.address.znode_parent)
        seen = Cluster(zk, nodes, OwnZNodes("/walferry", nodes), CalledServers(), cluster.address.wal_root)
        yield Site(cluster, zk, seen)


def main() -> None:
    """Make the table, start the cluster in turns, print."""
    startup.WAIT_SECONDS = startup.SETTLED_SECONDS = 0.0  # as NO_WAIT for the HMaster
    with site() as on:
        print(f"{ROUNDS} rounds of {REGIONS:,} regions on {SERVERS} RegionServers", flush=True)
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for round_ in range(ROUNDS):
            for way in list(WAYS) if round_ % 2 == 0 else list(reversed(WAYS)):
                on.stop_all()
                seconds[way].append(WAYS[way](on))
                print(f"{way:9} {seconds[way][-1]:6.1f} s until all regions are open", flush=True)
    ratios = [hbase / walferry for hbase, walferry in zip(seconds["HMaster"], seconds["Walferry"], strict=True)]
    print(f"median of the rounds' ratios: Walferry is {statistics.median(ratios):.2f} times as fast")


if __name__ == "__main__":
    main()
