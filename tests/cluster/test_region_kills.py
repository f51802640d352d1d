"""RegionServers of HBase 1.7.2 are killed under a write load while Walferry is their master: no acknowledged put is missing.

The files are on HDFS, because HBase does not promise that local files outlive a kill -9. In the end a real HMaster takes over.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.client import LOCAL, JavaClient, even_splits
from embedded.hbase import ClusterAddress
from embedded.hdfs import Hdfs
from embedded.masterless import MasterlessCluster
from tests.cluster.classic_failover import REGIONS, Load, tried_again
from tests.cluster.walferry_runs import source_of
from walferry.base.zk.client import connected
from walferry.hbase.layout import OwnZNodes
from walferry.hbase.names import ServerName
from walferry.master.calls import CalledServers
from walferry.master.reconcile import ClusterView
from walferry.master.role import Candidate, acting_as_master
from walferry.master.role_loop import Cluster, Master
from walferry.master.wal_splitting import servers_with_wals
from walferry.master.znodes import META_ENCODED_NAME

TABLE = "t"
SERVERS = 3
PUTS_A_ROUND = 200
BALANCE_SECONDS = 5.0  # so regions move all the time while servers die
PAUSE_SECONDS = 5.0  # at most, before a server is killed
WAIT_SECONDS = 240


@dataclass(frozen=True)
class Site:
    """The cluster, its Java client, and helpers that look at its regions."""

    cluster: MasterlessCluster
    client: JavaClient
    seen: Cluster

    def look(self) -> ClusterView | None:
        """Return all regions and their servers, never more than one per region; None while hbase:meta cannot be read."""
        view, read = self.seen.look()
        twice = [name for name, region in view.regions.items() if len(region.served_by) > 1]
        assert not twice, f"{twice[0]} is served by {sorted(map(str, view.regions[twice[0]].served_by))}"
        return view if read.complete else None

    def all_open(self) -> bool:
        """Return whether each region is open at one server, and no WAL of a dead server is left."""
        view = self.look()
        if view is None or view.silent or len(view.regions) < REGIONS + 2:
            return False
        regions = view.regions.values()
        is_open = all(region.znode is None and len(region.served_by) == 1 for region in regions)
        return is_open and servers_with_wals(self.seen.wal_root) <= view.servers.live

    def server_of_meta(self) -> ServerName:
        view = self.look()
        assert view is not None
        (server,) = view.regions[META_ENCODED_NAME].served_by
        return server

    def kill(self, server: str) -> None:
        """Kill -9. Another server is started in its place, and not waited for."""
        names = [each.server_name if each.is_serving else "" for each in self.cluster.regionservers]
        self.cluster.kill_regionserver(names.index(server))
        self.cluster.launch_regionserver()

    def serving(self) -> list[str]:
        return [server.server_name for server in self.cluster.regionservers if server.is_serving]


@contextmanager
def our_master(address: ClusterAddress, reported: list[str]) -> Iterator[None]:
    """Run Walferry as the cluster's master, in a thread, for the length of a block."""
    at = source_of(address)
    ready, stop = threading.Event(), threading.Event()

    def work() -> None:
        own, settings = OwnZNodes("/walferry", at.nodes), {"hbase.rootdir": address.wal_root}
        try:
            with (
                connected(at.quorum) as zk,
                acting_as_master(zk, at.nodes, own, Candidate("the test", address.wal_root, settings=settings)) as role,
            ):
                cluster = Cluster(zk, at.nodes, own, CalledServers(), address.wal_root)
                ready.set()
                Master(cluster, role, tell=reported.append).run(stop, BALANCE_SECONDS)
        finally:
            ready.set()

    with ThreadPoolExecutor(1, "our-master") as pool:
        working: Future[None] = pool.submit(work)
        try:
            ready.wait(WAIT_SECONDS)
            yield
        finally:
            stop.set()
        working.result(WAIT_SECONDS)


@pytest.fixture
def site(tmp_path: Path, java_client: Callable[[ClusterAddress], JavaClient]) -> Iterator[Site]:
    """A cluster with a table in six regions. Its HMaster has been killed."""
    hdfs = Hdfs(tmp_path / "hdfs")
    try:
        hdfs.start()
        with MasterlessCluster(tmp_path, files=hdfs) as cluster:
            for _ in range(SERVERS):
                cluster.launch_regionserver()
            cluster.start_master()
            client = java_client(cluster.address)
            client.create_table(TABLE, {"f": LOCAL}, even_splits(REGIONS))
            cluster.kill_master()
            at = source_of(cluster.address)
            with connected(at.quorum) as zk:
                own = OwnZNodes("/walferry", at.nodes)
                yield Site(cluster, client, Cluster(zk, at.nodes, own, CalledServers(), cluster.address.wal_root))
    finally:
        hdfs.kill()


def until(done: Callable[[], bool], what: str, reported: list[str]) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < give_up, "\n".join([f"not within {WAIT_SECONDS} s: {what}", *reported[-40:]])
        time.sleep(0.2)


def kill_under_load(site: Site, rounds: int, seed: int) -> None:
    """Kill one server per round, and sometimes a second one while the first one's WALs are being split."""
    chance, reported = random.Random(seed), list[str]()
    with our_master(site.cluster.address, reported):
        load = Load(site.client, TABLE)
        for number in range(rounds):
            acknowledged = load.acknowledged
            until(lambda: load.acknowledged >= acknowledged + PUTS_A_ROUND, "the load goes on", reported)  # noqa: B023
            time.sleep(chance.uniform(0, PAUSE_SECONDS))
            began = time.monotonic()
            victim = str(site.server_of_meta()) if number % 2 == 0 else chance.choice(site.serving())
            site.kill(victim)
            if number % 3 == 2:
                time.sleep(chance.uniform(0, PAUSE_SECONDS))
                site.kill(chance.choice(site.serving()))
            until(site.all_open, "every region is open", reported)
            print(f"round {number}: {victim} was killed, all regions open after {time.monotonic() - began:.1f} s")
        load.stop()
        check_rows(site, load)
    site.cluster.start_master()
    until(site.all_open, "every region is open with a real HMaster", reported)
    report = site.cluster.hbck()
    assert report.inconsistencies == 0, report.text
    check_rows(site, load)


def check_rows(site: Site, load: Load) -> None:
    there = {cell.row for cell in tried_again(lambda: site.client.scan_all(TABLE))}
    missing = load.rows() - there
    assert not missing, f"{len(missing)} of {load.acknowledged} acknowledged puts are missing, the first is {min(missing)!r}"


@pytest.mark.timeout(900)
def test_no_acknowledged_put_is_missing_after_the_death_of_servers(site: Site) -> None:
    kill_under_load(site, 2, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_acknowledged_put_is_missing_after_ten_rounds_of_deaths(site: Site) -> None:
    kill_under_load(site, 10, seed=2)
