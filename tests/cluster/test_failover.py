"""RegionServers die again and again under write load: the peer cluster gets every acknowledged write, and each WAL is in one
queue."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.failover import Failover, failover
from walferry.hbase.names import parse_queue_id

ROUNDS = 10
REMOTE_CALL_SECONDS = 0.25  # a little less than it takes the master to have a RegionServer claim
AT_ONCE_MS, FEW_SECONDS_MS, LATE_MS = 100, 5000, 30_000  # HBase waits this long after it has recovered a dead server's regions
Start = Callable[[int, int], Failover]
Round = Callable[[Failover], None]


def hbase_claims_first(site: Failover) -> None:
    """Our claim finds the queues that HBase has moved under a live server."""
    victim = site.lose_one()
    site.await_hbase(victim)
    site.drain(site.claim(victim).queues)


def hbase_claims_and_its_claimer_dies_too(site: Failover) -> None:
    """HBASE-2611: the server that should recover a dead server's queue dies."""
    first = site.lose_one()
    second = site.await_hbase(first).server
    site.kill(second)
    site.await_death(second)
    third = site.await_hbase(f"{first}-{second}").server
    assert third not in (first, second)
    queues = site.claim(second).queues
    assert sorted(len(parse_queue_id(queue.queue_id).dead_servers) for queue in queues) == [1, 2]
    site.drain(queues)


def hbase_claims_and_its_claimer_dies_while_we_drain(site: Failover) -> None:
    first = site.lose_one()
    holder = site.await_hbase(first).server
    second = site.drain_killing(site.claim(first).queues, lambda: holder)
    site.await_death(second)
    site.await_hbase(second)
    site.drain(site.claim(second).queues)


def we_claim_first(site: Failover) -> None:
    victim = site.lose_one()
    claimed = site.claim(victim)
    assert claimed.moved == 1
    site.drain(claimed.queues)


def we_claim_and_another_dies_while_we_drain(site: Failover) -> None:
    first = site.lose_one()
    second = site.drain_killing(site.claim(first).queues, site.victim)
    site.await_death(second)
    site.drain(site.claim(second).queues)


def we_claim_from_two_that_die_at_once(site: Failover) -> None:
    site.write_bulk()
    first = site.victim()
    site.kill(first)
    second = site.victim()
    site.kill(second)
    for server in (first, second):
        site.await_death(server)
    claims = list(site.pool.map(site.claim, (first, second)))
    assert [claim.moved for claim in claims] == [1, 1]
    site.drain(queue for claim in claims for queue in claim.queues)


def we_drain_what_no_master_has_recovered_yet(site: Failover) -> None:
    """The WALs lie in -splitting. The newest is as its writer left it: open on HDFS, with an unknown length."""
    site.write_bulk()
    victim, unclean = site.victim(), site.unclean
    site.kill_master()
    site.kill(victim)
    site.await_death(victim)
    site.begin_splitting(victim)
    site.drain(site.claim(victim).queues)
    assert site.unclean == unclean + 1
    site.cluster.start_master()


def both_claim(site: Failover) -> None:
    """Both claim at nearly the same moment. Walferry drains the queue where it is, whoever was faster."""
    before = site.claims_begun_by_hbase()
    victim = site.lose_one()
    site.until(lambda: site.claims_begun_by_hbase() > before, f"HBase begins to claim the queue of {victim}")
    time.sleep(random.uniform(0, REMOTE_CALL_SECONDS))
    site.drain(site.claim(victim).queues)


HBASE_FIRST = (hbase_claims_first, hbase_claims_and_its_claimer_dies_too, hbase_claims_and_its_claimer_dies_while_we_drain)
WE_FIRST = (we_claim_first, we_claim_and_another_dies_while_we_drain, we_claim_from_two_that_die_at_once)


@pytest.fixture
def start(cluster_folder: Path, java_client, unique) -> Iterator[Start]:
    """`start(regionservers, sleep before HBase claims)`."""
    with contextlib.ExitStack() as stack:
        folder = cluster_folder / unique("failover")
        yield lambda servers, sleep_ms: stack.enter_context(
            failover(folder, java_client, regionservers=servers, sleep_before_failover_ms=sleep_ms)
        )


def report(site: Failover) -> str:
    return (
        f"{len(site.dead)} dead, {len(site.found)} queues, {site.moved} moved by us; {site.completed} WALs shipped, "
        f"{site.unclean} without a trailer; {site.watch.looks} looks, a WAL was pinned for {site.watch.longest_pinned_s:.0f} s; "
        f"{site.load.status()}"
    )


def run(site: Failover, rounds: Iterable[Round]) -> None:
    for number, round_ in enumerate(rounds):
        round_(site)
        site.await_replacements()
        site.batch()
        site.clean_up()
        print(f"round {number}, {round_.__name__}: {report(site)}")
        assert site.watch.wrong == []
    site.finish()
    site.check()


@pytest.mark.capability("failover")
def test_one_death_each_way_loses_nothing(start: Start) -> None:
    run(start(2, FEW_SECONDS_MS), [we_claim_first, hbase_claims_first])


def test_a_death_before_there_is_a_master_again_loses_nothing(start: Start) -> None:
    run(start(2, FEW_SECONDS_MS), [we_drain_what_no_master_has_recovered_yet])


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("sleep_ms", "kinds"),
    [(AT_ONCE_MS, HBASE_FIRST), (LATE_MS, WE_FIRST), (0, [both_claim])],
    ids=["hbase first", "we first", "race"],
)
def test_ten_rounds_of_deaths_lose_nothing(start: Start, sleep_ms: int, kinds: Sequence[Round]) -> None:
    site = start(3, sleep_ms)
    run(site, itertools.islice(itertools.cycle(kinds), ROUNDS))
    if HBASE_FIRST[1] in kinds:
        assert site.watch.longest_chain >= 2
