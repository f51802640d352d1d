"""A source cluster under write load whose RegionServers are killed, and whose recovered queues are drained by the library."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from hdfs_native import Client
from kazoo.client import KazooClient

from embedded.client import GLOBAL, JavaClient, WriteLoad, even_splits
from embedded.distributed import ClusterOptions, DistributedCluster, DistributedClusters, RegionServer
from embedded.hbase import QUICK_LOG_CLEANER, ClusterAddress
from embedded.jars import HBASE_2, JarSet
from tests.claimed import ClaimedQueues, claim_and_find
from tests.cluster.queue_watch import QueueWatch
from tests.cluster.walferry_runs import await_progress, plan, positions, roll, ship, source_of
from tests.sessions import session_of
from walferry.base.zk.client import connected
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.cluster import live_servers
from walferry.hbase.files.store import WalStore
from walferry.hbase.names import parse_wal_name
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.queues.claims.claim import clean_up
from walferry.replication.queues.dead_servers import RecoveredQueue, find_dead, recovered_queues
from walferry.replication.source.cluster import SourceCluster

LOAD, BULK = "load", "bulk"  # tables
BULK_ROWS = 20_000  # of 1 kB, written before a kill so that the drain takes a while
WAIT_SECONDS = 240
COMMAND_SECONDS = 600
REGIONS = 6
PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
SLOW = PeerSettings(shipment_bytes=64 << 10, buffer_bytes=256 << 10)  # slow enough that a kill finds a drain under way


@dataclass
class Failover:
    """The clusters, the load, and the facts that a test has recorded."""

    cluster: DistributedCluster
    source: JavaClient
    peer_cluster: JavaClient
    at: SourceCluster
    peer: str
    zk: KazooClient
    load: WriteLoad
    watch: QueueWatch
    folder: Path
    dead: list[str] = field(default_factory=list)
    moved: int = 0  # queues that we claimed
    found: set[str] = field(default_factory=set)  # queues that our claims handed out, whoever had claimed them
    completed: int = 0  # WALs that our shipping took out of queues
    unclean: int = 0  # WALs among them without a trailer
    bulk_rows: int = 0
    replacements: list[Future[RegionServer]] = field(default_factory=list)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8))

    def write_bulk(self) -> None:
        self.source.put_many(BULK, BULK_ROWS, ["f:q"], first=self.bulk_rows, value_bytes=1000, batch=50)
        self.bulk_rows += BULK_ROWS

    def victim(self) -> str:
        """Return the server with the most regions of the bulk table, which has something to lose."""
        regions = [region.server for region in self.source.regions(BULK)]
        serving = [server.server_name for server in self.cluster.regionservers if server.is_serving]
        return max(serving, key=regions.count)

    def kill(self, server: str) -> None:
        """Kill the server (kill -9), and start another one in its place, which takes a while."""
        names = [each.server_name if each.is_serving else "" for each in self.cluster.regionservers]
        self.cluster.kill_regionserver(names.index(server))
        self.dead.append(server)
        self.replacements.append(self.pool.submit(self.cluster.start_regionserver))

    def lose_one(self) -> str:
        """Kill a server with much to ship, and wait until its ephemeral is gone. Returns the server."""
        self.write_bulk()
        server = self.victim()
        self.kill(server)
        self.await_death(server)
        return server

    def await_replacements(self) -> None:
        for server in self.replacements:
            server.result(WAIT_SECONDS)
        self.replacements.clear()
        assert all(server.process.alive for server in self.cluster.regionservers)

    def await_death(self, server: str) -> None:
        """Wait until the server's ephemeral is gone."""
        self.until(lambda: server not in map(str, live_servers(self.zk, self.at.nodes)), f"{server} is gone")

    def await_hbase(self, server: str) -> RecoveredQueue:
        """Wait until HBase has moved this dead server's queue under a live one. Returns the queue there."""

        def claimed() -> list[RecoveredQueue]:
            alive = set(map(str, live_servers(self.zk, self.at.nodes)))
            return [q for q in self.recovered() if q.server in alive and q.queue_id.endswith(f"-{server}")]

        self.until(lambda: bool(claimed()), f"HBase has claimed the queue of {server}")
        return claimed()[0]

    def kill_master(self) -> None:
        self.cluster.kill_master()

    def begin_splitting(self, server: str) -> None:
        """Do a master's first step with a dead server's WALs: from now on nobody can begin another WAL there."""
        root = urlsplit(self.at.wal_root)
        hdfs = Client(f"{root.scheme}://{root.netloc}")
        hdfs.rename(f"{root.path}/WALs/{server}", f"{root.path}/WALs/{server}-splitting")

    def recovered(self) -> tuple[RecoveredQueue, ...]:
        return recovered_queues(session_of(self.zk, self.at), self.peer)

    def claim(self, server: str) -> ClaimedQueues:
        """Claim as Walferry does, twice, like a task that is tried again."""
        assert server in {dead.name for dead in find_dead(session_of(self.zk, self.at))}
        found = claim_and_find(session_of(self.zk, self.at), server, run_id=f"failover-{server}", holder="test")
        again = claim_and_find(session_of(self.zk, self.at), server, run_id=f"failover-{server}", holder="test")
        assert again.moved == 0
        assert {q.ref for q in again.queues} == {q.ref for q in found.queues}
        self.moved += found.moved
        self.found |= {q.ref for q in found.queues}
        return found

    def drain(self, queues: Iterable[RecoveredQueue], *, slow: bool = False) -> None:
        """Ship all groups of these queues, and check that nothing of them is left."""
        groups = sorted({group for queue in queues for group in queue.groups})
        self.ship(groups, settings=SLOW if slow else None, senders=1 if slow else 2)
        left = [q for q in self.recovered() if set(q.groups) & set(groups)]
        assert left == []

    def drain_killing(self, queues: Iterable[RecoveredQueue], next_victim: Callable[[], str]) -> str:
        """Drain the queues, and kill another server in mid-shipment. Returns that server."""
        before = {wal: at for wal, at in positions(self.at, self.peer).items() if any(wal in q.wals for q in queues)}
        draining = self.pool.submit(self.drain, queues, slow=True)
        await_progress(self.at, self.peer, before)
        server = next_victim()
        under_way = not draining.done()
        self.kill(server)
        draining.result(WAIT_SECONDS)
        print(f"killed {server} {'while its predecessor was drained' if under_way else 'after the drain had ended'}")
        return server

    def batch(self) -> None:
        """Run an ordinary batch of the peer, which also ships live servers' rolled WALs."""
        roll(self.at, self.peer)
        self.ship([group.group for group in plan(self.at, self.peer).groups])

    def command(self, *words: str) -> tuple[int, str, str]:
        """Run `walferry …` on the source, in a process of its own. Returns its exit status, standard output and stderr."""
        extra = {"wal_root": self.at.wal_root, "znode_parent": self.at.nodes.base}
        arguments = ["--source", json.dumps({"host": self.at.quorum, "extra": extra}), *words]
        environment = {**os.environ, "PYTHONPATH": str(PLUGINS)}
        done = subprocess.run(
            [sys.executable, "-m", "walferry.cli", *arguments],
            env=environment, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def ship(self, groups: list[str], settings: PeerSettings | None = None, senders: int = 2) -> list[GroupSummary]:
        self.watch.shipping(groups)
        run_id = f"run-{time.monotonic_ns()}"
        summaries = ship(
            self.at, self.peer, run_id=run_id, groups=groups, roll_first=False, settings=settings, senders=senders,
            deadline=WAIT_SECONDS,
        )  # fmt: skip
        assert [s.error for s in summaries if s.status is not Status.DONE] == []
        self.completed += sum(s.completedLogs for s in summaries)
        self.unclean += sum(s.uncleanlyClosedLogs for s in summaries)
        return summaries

    def clean_up(self) -> None:
        """Check that under HBase's znodes no queue of dead servers is left except queues that HBase still works on."""
        for server in self.dead:
            clean_up(session_of(self.zk, self.at), server)
        assert find_dead(session_of(self.zk, self.at)) == ()

    def finish(self) -> None:
        """Stop the load and ship everything: the peer cluster then has every acknowledged put, and all rows of the source."""
        self.await_replacements()
        done = self.load.stop()
        print(f"load: {done}")
        assert done.failed == 0, done.errors
        while plan(self.at, self.peer).to_ship:
            self.batch()
        self.batch()  # ships the edits after the last roll, if the loop found nothing to do
        assert self.load.missing(self.peer_cluster, LOAD) == (0, ())
        for table in (LOAD, BULK):
            assert self.source.compare(table, self.peer_cluster).same
        assert self.peer_cluster.count_rows(BULK) == self.bulk_rows
        assert self.recovered() == ()

    def check(self) -> None:
        """Check what was observed: each WAL in one queue, none lost, no server aborted. Then the cleaner takes shipped WALs."""
        assert self.watch.wrong == []
        assert self.watch.looks > 10
        assert len(self.watch.seen - self.watch.queued) <= self.completed
        logs = sorted(self.folder.rglob("regionserver*.log"))
        assert len(logs) >= len(self.dead)
        assert [log for log in logs if "ABORTING" in log.read_text(errors="replace")] == []
        self.until(lambda: all(map(self.hbase_is_done_with, self.dead)), "the master has recovered the dead servers")
        shipped = [parse_wal_name(wal) for wal in self.watch.seen - self.watch.queued]
        of_the_dead = [wal for wal in shipped if str(wal.server) in self.dead]
        assert of_the_dead
        store = WalStore(self.at.wal_root)
        self.until(lambda: not any(store.locate(wal) for wal in of_the_dead), "the log cleaner has taken the dead servers' WALs")
        assert self.watch.wrong == []

    def master_log(self) -> str:
        """Return the logs of all masters, one after the other."""
        return "".join(log.read_text(errors="replace") for log in sorted(self.folder.glob("master*.log")))

    def claims_begun_by_hbase(self) -> int:
        begun = r"Initialized subprocedures=\[[^\]]*\.ClaimReplicationQueuesProcedure"
        return len(re.findall(begun, self.master_log()))

    def hbase_is_done_with(self, server: str) -> bool:
        """Return whether the master's procedure for a dead server has ended, including its claim of the queues."""
        ended = rf"Finished pid=\d+, state=SUCCESS[^;]*; ServerCrashProcedure {re.escape(server)}"
        return re.search(ended, self.master_log()) is not None

    def until(self, done: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + WAIT_SECONDS
        while not done():
            assert time.monotonic() < give_up, f"not within {WAIT_SECONDS} s: {what}"
            time.sleep(0.05)


@contextmanager
def failover(
    folder: Path,
    client_of: Callable[[ClusterAddress], JavaClient],
    *,
    regionservers: int,
    sleep_before_failover_ms: int,
    jars: JarSet = HBASE_2,
    conf: Mapping[str, str] | None = None,
) -> Iterator[Failover]:
    """Yield clusters, a managed peer and the load, all at work. HBase claims a queue one to two sleeps after it first could.

    `jars` and `conf` are those of the source.
    """
    conf = {**QUICK_LOG_CLEANER, "replication.sleep.before.failover": str(sleep_before_failover_ms), **(conf or {})}
    options: Mapping[str, ClusterOptions] = {
        "source": ClusterOptions(conf, regionservers=regionservers, jars=jars),
        "peer_cluster": ClusterOptions(regionservers=1),
    }
    with DistributedClusters(folder, options) as clusters:
        cluster = clusters["source"]
        assert cluster.master is not None
        assert "ReplicationLogCleaner" in cluster.master.log_text()
        source, peer_cluster = client_of(cluster.address), client_of(clusters["peer_cluster"].address)
        for client in (source, peer_cluster):
            for table in (LOAD, BULK):
                client.create_table(table, {"f": GLOBAL}, even_splits(REGIONS))
        peer, at = "2", source_of(cluster.address)
        if conf.get("hbase.replication.peer.storage.impl") == "filesystem":
            at = replace(at, peers_root=f"{at.wal_root}/peers")
        source.add_managed_peer(peer, peer_cluster.address.cluster_key)
        with connected(at.quorum) as zk, QueueWatch(at, peer) as watch:
            load = source.start_load(LOAD)
            try:
                yield Failover(cluster, source, peer_cluster, at, peer, zk, load, watch, folder / "source")
            finally:
                load.stop()
