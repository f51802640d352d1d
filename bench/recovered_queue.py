"""One dead RegionServer's queue, drained by HBase's own recovered source and by Walferry in turn: see bench.drains.

    PYTHONPATH=plugins python -m bench.recovered_queue    WALFERRY_BENCH_RECOVERED_MB (1000), WALFERRY_BENCH_RECOVERED_ROUNDS (2)

A RegionServer that has all regions of the table is written to and killed; HBase recovers its regions and claims its queues of
both peers at once. Each round has a server of its own to lose, and begins when the clusters have come to rest.
"""

from __future__ import annotations

import os
import time

from bench.drains import TABLE, Backlog, Bench, bench, measure, region_servers_cpu, wait
from embedded.distributed import RegionServer
from walferry.hbase.cluster import live_servers
from walferry.queues.reading import read_queues
from walferry.shipping.plan import plan_peer
from walferry.source.session import open_session

MEGABYTES = int(os.environ.get("WALFERRY_BENCH_RECOVERED_MB", "1000"))
ROUNDS = int(os.environ.get("WALFERRY_BENCH_RECOVERED_ROUNDS", "2"))
ROW_BYTES = 275  # of WAL, a little less than are written
PEERS = ("hbase", "walferry")
REST_SECONDS = 2.0
RESTING = 0.2  # of a core


def write_backlog(on: Bench, rows: int) -> Backlog:
    """Write `rows` rows to one RegionServer and kill it: a backlog in one queue that HBase has claimed."""
    victim = on.source_cluster.regionservers[-1]
    on.client.empty_table(TABLE)
    on.slave.empty_table(TABLE)
    for region in on.client.regions(TABLE):
        if region.server != victim.server_name:
            on.client.move_region(region.encoded_name, victim.server_name)
    wait(lambda: {region.server for region in on.client.regions(TABLE)} == {victim.server_name}, "all regions are on one server")
    on.write(rows)
    on.source_cluster.kill_regionserver(len(on.source_cluster.regionservers) - 1)
    wait(lambda: all(_claimed(on, peer, victim) for peer in PEERS), "HBase has claimed the queues")
    if on.client.count_rows(TABLE) != rows:
        raise RuntimeError("the source has not recovered all rows")
    on.source_cluster.start_regionserver()  # the next to be lost
    _rest(on)
    return Backlog(rows, *_size(on, victim))


def _claimed(on: Bench, peer_id: str, victim: RegionServer) -> bool:
    """Whether the queue of a dead server lies under a live one."""
    with open_session(on.source) as session:
        alive = set(map(str, live_servers(session.zk, session.nodes)))
        queues = read_queues(session, peer_id)
    return any(queue.server in alive and victim.server_name in queue.id.dead_servers for queue in queues)


def _size(on: Bench, victim: RegionServer) -> tuple[int, tuple[str, ...]]:
    """The bytes and names of the WAL groups in a dead server's queue."""
    with open_session(on.source) as session:
        plan = plan_peer(session, "walferry")
    groups = [group for group in plan.groups if victim.server_name in group.queue_id]
    return sum(group.bytes_left for group in groups), tuple(group.group for group in groups)


def _rest(on: Bench) -> None:
    """Wait until the RegionServers have finished their compactions."""

    def resting() -> bool:
        before = [region_servers_cpu(cluster) for cluster in (on.source_cluster, on.slave_cluster)]
        time.sleep(REST_SECONDS)
        after = [region_servers_cpu(cluster) for cluster in (on.source_cluster, on.slave_cluster)]
        return sum(after) - sum(before) < RESTING * REST_SECONDS

    wait(resting, "the RegionServers come to rest")


def main() -> None:
    """Start the clusters, warm up, drain, print."""
    with bench({"replication.sleep.before.failover": "100"}) as both:
        measure(both, write_backlog, "a dead server's queue", MEGABYTES * 1_000_000 // ROW_BYTES, ROUNDS)


if __name__ == "__main__":
    main()
