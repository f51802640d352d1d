"""HBase 2.4.18: its Master dies, and what its servers do that those of 2.6 do not.

A RegionServer of 2.0 to 2.4 that starts adopts the queues of all servers that are not alive. Walferry's pseudo server, which has
the queues that Walferry claimed, is one of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedded.client import JavaClient
from embedded.jars import JAR_SETS
from tests.cluster.failover import Failover, failover
from tests.cluster.peer_changes import reconfigure
from tests.cluster.test_failover import FEW_SECONDS_MS, run
from tests.cluster.test_peers_that_change import with_bandwidth
from tests.cluster.walferry_runs import await_progress, is_untouched, positions, queues
from walferry.replication.queues.dead_servers import WALFERRY_SERVER

BYTES_A_SECOND = 200_000  # a drain takes longer than it takes a RegionServer to start and to adopt
REFUSED = "no master is active. Start one and try again"


def the_master_dies_while_batches_run(site: Failover) -> None:
    """A RegionServer dies before there is a Master again."""
    site.write_bulk()
    limit(site, BYTES_A_SECOND)
    all_may_be_shipped(site)
    before = positions(site.at, site.peer)
    batch = site.pool.submit(site.command, "ship", site.peer, "--json")
    await_progress(site.at, site.peer, before)
    site.kill_master()
    assert not batch.done()
    assert refused(site)
    assert report_of(site, batch.result())["totals"]["shippedBytes"] > 0
    queued = positions(site.at, site.peer)
    assert refused(site)
    assert is_untouched(queued, positions(site.at, site.peer))
    victim = site.lose_one()
    site.cluster.start_master()
    limit(site, 0)
    (drained,) = report_of(site, site.command("failover", victim, "--json"))["queues"]
    assert (drained["dead_server"], drained["state"]) == (victim, "complete")
    site.await_replacements()
    all_may_be_shipped(site)
    report_of(site, site.command("ship", site.peer, "--json"))


def a_starting_server_adopts_while_we_drain(site: Failover) -> None:
    limit(site, BYTES_A_SECOND)
    victim = site.lose_one()  # another server starts in its place
    drain = site.pool.submit(site.command, "failover", victim, "--json")
    claimed = f"{WALFERRY_SERVER}/{site.peer}-{victim}"
    site.until(lambda: [queue.ref for queue in site.recovered()] == [claimed], "Walferry has claimed the queue")
    site.watch.shipping(site.recovered()[0].groups)
    site.await_replacements()
    adopted = site.await_hbase(f"{victim}-{WALFERRY_SERVER}")
    before = positions(site.at, site.peer)
    assert not drain.done()
    await_progress(site.at, site.peer, {wal: before[wal] for wal in adopted.wals})
    assert not drain.done()
    report = report_of(site, drain.result())
    assert [(server["server"], server["moved"]) for server in report["servers"]] == [(victim, 1)]
    assert [(queue["queue"], queue["state"], queue["left"]) for queue in report["queues"]] == [(claimed, "complete", 0)]
    assert report["totals"]["completedLogs"] >= len(adopted.wals)
    assert site.recovered() == ()
    limit(site, 0)


def limit(site: Failover, bytes_a_second: int) -> None:
    reconfigure(site.cluster.address, site.peer, with_bandwidth(bytes_a_second))


def all_may_be_shipped(site: Failover) -> None:
    """Tell the watch that the WALs of all servers may leave their queues from now on."""
    site.watch.shipping({wal.name.group for queue in queues(site.at, site.peer) for wal in queue.wals})


def refused(site: Failover) -> bool:
    """Return whether a batch is refused because there is no Master, and ships nothing."""
    status, out, err = site.command("ship", site.peer)
    return (status, out) == (1, "") and REFUSED in err


def report_of(site: Failover, result: tuple[int, str, str]) -> dict[str, Any]:
    """Return the report of a command that has ended well."""
    status, out, err = result
    assert status == 0, out + err
    report: dict[str, Any] = json.loads(out)
    assert (report["ok"], report["failures"]) == (True, [])
    site.completed += report["totals"]["completedLogs"] + report.get("planned", {}).get("dequeued", 0)
    return report


@pytest.mark.timeout(1200)
def test_nothing_is_lost_when_the_master_dies_or_a_starting_server_adopts_queues(
    cluster_folder: Path, java_client: Callable[..., JavaClient], unique: Callable[[str], str]
) -> None:
    folder, jars = cluster_folder / unique("failover"), JAR_SETS["hbase-2.4.18"]
    with failover(folder, java_client, regionservers=2, sleep_before_failover_ms=FEW_SECONDS_MS, jars=jars) as site:
        run(site, [the_master_dies_while_batches_run, a_starting_server_adopts_while_we_drain])
