"""One dead RegionServer's queue, drained by HBase's own recovered source and by Walferry on 1, 2 and 4 cores in turns.

    PYTHONPATH=plugins python -m bench.recovered_queue    WALFERRY_BENCH_RECOVERED_MB (1000), WALFERRY_BENCH_RECOVERED_ROUNDS (2),
                                                          WALFERRY_BENCH_CORES (1,2,4)

A RegionServer that has all regions of the table is written to and killed; HBase recovers its regions and claims its queues of
all peers at once. Each round has a server of its own to lose, and begins when the clusters have come to rest.

Walferry's processes, Spark's driver among them, have only so many of the machine's cores, and Spark runs as many tasks at once;
the clusters have all cores. Of more cores than the machine has, only Spark's tasks are as many: the row says so. The jobs go
through spark-submit. See bench.drains for the columns.
"""

from __future__ import annotations

import os
import time

from bench.clusters import ROW_BYTES, TABLE, Bench, Setup, bench, region_servers_cpu, wait
from bench.drains import measure, warm_up
from bench.ways import HBASE, Backlog, Way, walferry, ways
from embedded.distributed import RegionServer
from walferry.hbase.cluster import live_servers
from walferry.replication.queues.reading import read_queues
from walferry.replication.source.session import open_session
from walferry.shipping.plan import plan_peer

MEGABYTES = int(os.environ.get("WALFERRY_BENCH_RECOVERED_MB", "1000"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_RECOVERED_ROUNDS", "2"))
CORES = [int(count) for count in os.environ.get("WALFERRY_BENCH_CORES", "1,2,4").split(",")]
SINKS = ("direct", "hfiles")
REST_SECONDS = 2.0
RESTING = 0.2  # of a core


def compared() -> list[Way]:
    """HBase's way, and each sink on each number of cores."""
    return [ways()[HBASE], *(_on_cores(sink, cores) for sink in SINKS for cores in CORES)]


def _on_cores(sink: str, cores: int) -> Way:
    there = sorted(os.sched_getaffinity(0))
    what = f"{cores} of {len(there)} cores" if cores <= len(there) else f"{cores} slots/{len(there)} cores"
    return walferry(f"{sink}, {what}", sink, connect=False, cores=there[:cores], slots=cores)


def write_backlog(on: Bench, rows: int) -> Backlog:
    """Write `rows` rows to one RegionServer and kill it: a backlog in one queue that HBase has claimed."""
    victim = on.source_cluster.regionservers[-1]
    on.client.empty_table(TABLE)
    for region in on.client.regions(TABLE):
        if region.server != victim.server_name:
            on.client.move_region(region.encoded_name, victim.server_name)
    wait(lambda: {region.server for region in on.client.regions(TABLE)} == {victim.server_name}, "all regions are on one server")
    on.write(rows)
    on.source_cluster.kill_regionserver(len(on.source_cluster.regionservers) - 1)
    wait(lambda: all(_claimed(on, peer, victim) for peer in on.peers), "HBase has claimed the queues")
    if on.client.count_rows(TABLE) != rows:
        raise RuntimeError("the source has not recovered all rows")
    on.source_cluster.start_regionserver()  # the next to be lost
    _rest(on)
    return _backlog(on, rows, victim)


def _claimed(on: Bench, peer_id: str, victim: RegionServer) -> bool:
    """Whether the queue of a dead server lies under a live one."""
    with open_session(on.source) as session:
        alive = set(map(str, live_servers(session.zk, session.nodes)))
        queues = read_queues(session, peer_id)
    return any(queue.server in alive and victim.server_name in queue.id.dead_servers for queue in queues)


def _backlog(on: Bench, rows: int, victim: RegionServer) -> Backlog:
    """What lies in a dead server's queue."""
    with open_session(on.source) as session:
        plan = plan_peer(session, on.setup.managed[0])
    groups = [group for group in plan.groups if victim.server_name in group.queue_id]
    wals = {wal.name: wal.size or 0 for group in groups for wal in group.wals}
    return Backlog(rows, wals, tuple(group.group for group in groups))


def _rest(on: Bench) -> None:
    """Wait until the RegionServers have finished their compactions."""

    def resting() -> bool:
        before = [region_servers_cpu(cluster) for cluster in (on.source_cluster, on.peer_hbase)]
        time.sleep(REST_SECONDS)
        after = [region_servers_cpu(cluster) for cluster in (on.source_cluster, on.peer_hbase)]
        return sum(after) - sum(before) < RESTING * REST_SECONDS

    wait(resting, "the RegionServers come to rest")


def main() -> None:
    """Start the clusters, warm up, drain, print."""
    theirs = compared()
    managed = [way.peer for way in theirs if way.peer]
    rows = MEGABYTES * 1_000_000 // ROW_BYTES
    with bench(Setup(managed, source={"replication.sleep.before.failover": "100"})) as on:
        warm_up(on, write_backlog, theirs, max(1000, rows // 10))
        measure(on, write_backlog, theirs, "a dead server's queue", rows, ROUNDS, ())


if __name__ == "__main__":
    main()
