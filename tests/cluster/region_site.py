"""A cluster of HBase 1.7.2 whose HMaster was killed, with Walferry as its master, and the checks after each flow."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kazoo.client import KazooClient

from embedded.client import LOCAL, JavaClient
from embedded.distributed import FileSystem
from embedded.hbase import ClusterAddress
from embedded.masterless import MasterlessCluster
from embedded.wire import Cell
from tests.cluster.classic_failover import tried_again
from tests.cluster.walferry_runs import source_of
from walferry.base.errors import WalferryError
from walferry.base.zk.client import connected
from walferry.hbase.cluster import live_servers
from walferry.hbase.files.store import SPLITTING, WALS
from walferry.hbase.files.systems import list_entries
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.master.calls import CalledServers
from walferry.master.catalog import CatalogRead, table_of
from walferry.master.plans import read_plans
from walferry.master.reconcile import ClusterView
from walferry.master.role import Candidate, Role, acting_as_master
from walferry.master.role_loop import Cluster, Locality, Master, no_locality
from walferry.master.tables import TableState, read_state
from walferry.master.znodes import META_ENCODED_NAME

TABLE = "t"
SPLITS = [b"%x" % digit for digit in range(2, 16, 2)]
ROWS = 100  # per round of writes
WAIT_SECONDS = 180
RUN = "tests"  # all masters of the tests are attempts of one run, so a killed one is replaced at once


@dataclass
class Site:
    """The cluster, and the rows that were written to it."""

    cluster: MasterlessCluster
    client: JavaClient
    zk: KazooClient
    nodes: ZNodes
    own: OwnZNodes
    rows: int = 0
    cells: list[Cell] = field(default_factory=list)

    @property
    def root(self) -> str:
        return self.cluster.address.wal_root

    @property
    def regions(self) -> Cluster:
        return Cluster(self.zk, self.nodes, self.own, CalledServers(), self.root)

    def candidate(self) -> Candidate:
        return Candidate("the test", self.root, RUN)

    @property
    def live(self) -> frozenset[ServerName]:
        return live_servers(self.zk, self.nodes)

    def look(self) -> tuple[ClusterView, CatalogRead]:
        return self.regions.look()

    def write(self) -> None:
        """Write rows to all regions, which are not flushed."""
        tried_again(lambda: self.client.put_many(TABLE, ROWS, ["f:q"], first=self.rows))
        self.rows += ROWS
        self.cells = tried_again(lambda: self.client.scan_all(TABLE))
        assert len(self.cells) == self.rows

    def start_servers(self, number: int) -> list[ServerName]:
        """Start RegionServers, which need a master to start."""
        started = [self.cluster.launch_regionserver() for _ in range(number)]
        wait_for(lambda: all(server.is_serving for server in started), "RegionServers start with us as their master")
        names = [ServerName.parse(server.server_name) for server in started]
        wait_for(lambda: self.live >= set(names), "they have sessions")
        return names

    def kill(self, server: ServerName) -> None:
        self.cluster.kill_regionserver(self._index(server))

    def kill_all(self) -> None:
        self.cluster.kill_all_regionservers()

    @contextmanager
    def stopped(self, server: ServerName) -> Iterator[None]:
        """Stop a server (SIGSTOP) for the length of a block. It may be killed within."""
        process = self.cluster.regionservers[self._index(server)].process
        os.kill(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if process.alive:
                os.kill(process.pid, signal.SIGCONT)

    def _index(self, server: ServerName) -> int:
        names = [each.server_name for each in self.cluster.regionservers]
        return names.index(str(server))

    def state_of(self, encoded: str) -> str:
        region = self.look()[0].regions[encoded]
        return "" if region.znode is None else region.znode.state.name

    def amiss(self, *, closed: bool = False) -> list[str]:
        """Return why the cluster is not whole: each region must be open once, where hbase:meta says, with no leftovers.

        With `closed` the table's regions must be open nowhere.
        """
        view, read = self.look()
        found = [f"{server} is silent" for server in view.silent] + [str(each) for each in (*view.broken, *read.broken)]
        if not read.complete:
            return [*found, "hbase:meta cannot be read"]
        wanted = read_state(self.zk, self.nodes, TABLE).state
        if wanted is not (TableState.DISABLED if closed else TableState.ENABLED):
            found.append(f"the table is {wanted.name}")
        for encoded, region in view.regions.items():
            if region.znode is not None:
                found.append(f"{encoded} is {region.znode.state.name}")
            if region.wanted and region.served_by != {region.last_server}:
                found.append(f"{encoded} is served by {region.served_by}, hbase:meta says {region.last_server}")
            if not region.wanted and region.served_by:
                found.append(f"{encoded} is served by {region.served_by}, but its table is disabled")
        served = {encoded for names in view.online.values() for encoded in names}
        found += [f"{encoded} is served, but not in hbase:meta" for encoded in served - view.catalog.keys()]
        if len(view.catalog) < 3:
            found.append(f"hbase:meta has only {len(view.catalog)} regions")
        plans, broken = read_plans(self.zk, self.own)
        left = [*plans, *map(str, broken.values()), *self.zk.get_children(self.nodes.split_tasks)]
        left += [entry.name for entry in list_entries(f"{self.root}/{WALS}") if entry.name.endswith(SPLITTING)]
        return found + [f"left over: {each}" for each in left]

    def load(self) -> Counter[ServerName]:
        """Return how many regions of the catalog each live server serves, without hbase:meta."""
        view, _ = self.look()
        return Counter({server: len(names - {META_ENCODED_NAME}) for server, names in view.online.items()})

    def meta_at(self) -> ServerName:
        view, _ = self.look()
        (server,) = view.regions[META_ENCODED_NAME].served_by
        return server

    def table_regions(self) -> list[str]:
        """The encoded names of the table's regions, in the order of their keys."""
        view, _ = self.look()
        its = {encoded: known for encoded, known in view.catalog.items() if table_of(known.info) == TABLE}
        return sorted(its, key=lambda encoded: its[encoded].info.start_key)

    def await_regions(self, why: Callable[[], str] = str) -> None:
        """Wait until nothing is amiss, without reading rows. HBase's client would wait for a stopped server."""
        wait_for_nothing(self.amiss, why)

    def await_whole(self, why: Callable[[], str] = str) -> None:
        """Wait until nothing is amiss and compare all rows."""
        self.await_regions(why)
        assert tried_again(lambda: self.client.scan_all(TABLE)) == self.cells

    def hand_over(self) -> None:
        """Let a real HMaster take over, check everything with HBase's own tool, and kill that HMaster again."""
        self.cluster.start_master()
        report = self.cluster.hbck()
        assert report.inconsistencies == 0, report.text
        assert tried_again(lambda: self.client.scan_all(TABLE)) == self.cells
        self.cluster.kill_master()


@contextmanager
def region_site(
    folder: Path,
    client_of: Callable[[ClusterAddress], JavaClient],
    *,
    servers: int = 2,
    files: FileSystem | None = None,
    splits: Sequence[bytes] = SPLITS,
) -> Iterator[Site]:
    """Yield a cluster with a table whose rows are not flushed; its HMaster was killed."""
    with MasterlessCluster(folder, files=files) as cluster:
        for _ in range(servers):
            cluster.launch_regionserver()
        cluster.start_master()
        at = source_of(cluster.address)
        with connected(at.quorum) as zk:
            client = client_of(cluster.address)
            client.create_table(TABLE, {"f": LOCAL}, splits)
            cluster.kill_master()
            site = Site(cluster, client, zk, at.nodes, OwnZNodes("/walferry", at.nodes))
            site.write()
            yield site


@dataclass
class Charge:
    """A master at work in this process."""

    role: Role
    master: Master
    reported: list[str]

    def story(self) -> str:
        return "\n".join(self.reported[-40:])


@contextmanager
def in_charge(
    site: Site, *, start_with: int = 0, balance_seconds: float | None = None, locality: Locality = no_locality
) -> Iterator[Charge]:
    """Run Walferry's master for the length of a block. With `start_with` it first waits for that many servers."""
    stop = threading.Event()
    with acting_as_master(site.zk, site.nodes, site.own, site.candidate()) as role, ThreadPoolExecutor(1) as pool:
        reported: list[str] = []
        master = Master(site.regions, role, tell=reported.append, locality=locality)
        future = pool.submit(_work, master, stop, start_with, balance_seconds)
        try:
            yield Charge(role, master, reported)
        except BaseException:
            print("\n".join(reported))
            raise
        finally:
            stop.set()
            _end(future)


def _work(master: Master, stop: threading.Event, start_with: int, balance_seconds: float | None) -> None:
    if start_with:
        master.start(start_with)
    master.run(stop, balance_seconds)


def _end(future: Future[None]) -> None:
    error = future.exception(WAIT_SECONDS)
    if error is not None:
        raise error


def wait_for(done: Callable[[], bool], what: str) -> None:
    wait_for_nothing(lambda: [] if done() else [what])


def wait_for_nothing(amiss: Callable[[], list[str]], why: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            found = amiss()
        except WalferryError as error:
            found = [str(error)]
        if not found:
            return
        assert time.monotonic() < deadline, "\n".join([f"not within {WAIT_SECONDS} s:", *found, why()])
        time.sleep(0.3)
