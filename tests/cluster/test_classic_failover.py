"""HBase 1.7.2: Walferry's claim races its RegionServers' claims. Without multi these lock, copy and delete as Walferry does.

Seen from outside, round after round: each WAL of a dead server ends in one queue of its peer, at its position, whoever moved it.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.cluster.classic_failover import BOTH_LAYOUTS, FAILOVER_SLEEP_MS, Death, Site, classic_site, tried_again
from tests.sessions import session_of
from walferry.replication.queues.dead_servers import find_dead

Round = Callable[[Site, Death], int]  # how many queues our claims moved
SLEEP_SECONDS = FAILOVER_SLEEP_MS / 1000
ROUNDS = 20
PAUSE_SECONDS = 0.2  # at most, before each of our writes when we are slow


class Killed(Exception):
    """Our claimer died."""


def at_once(site: Site, death: Death) -> int:
    """Claim at once. The RegionServers wait a little before they claim, so we are first."""
    site.await_end_of_session(death.server)
    return site.claim(death.server, "at once")


def in_between(site: Site, death: Death) -> int:
    """Claim when the RegionServers have some queues already, or all."""
    site.await_end_of_session(death.server)
    left = random.randrange(len(death.queues))
    site.until(lambda: len(site.queues_of(death.server)) <= left, f"RegionServers claim until {left} queues are left")
    return site.claim(death.server, "in between")


def slowly(site: Site, death: Death) -> int:
    """Hold the lock for long, while the RegionServers try again and again to get it."""
    _when_they_begin(site, death)
    return site.claim(death.server, "slowly", lambda _: time.sleep(random.uniform(0, PAUSE_SECONDS)))


def two_of_ours(site: Site, death: Death) -> int:
    """Let two runs of ours race each other and the RegionServers."""
    _when_they_begin(site, death)
    runs = [site.pool.submit(site.claim, death.server, f"run {i}") for i in range(2)]
    return sum(run.result() for run in runs)


def ours_dies(site: Site, death: Death) -> int:
    """Let our claimer die between two writes. Our lock stays, and another run of ours takes over."""
    writes = itertools.count(1)
    last = random.randint(3, 12)

    def die(zk: KazooClient) -> None:
        if next(writes) == last:
            zk.stop()
        if not zk.connected:
            raise Killed

    _when_they_begin(site, death)
    try:
        moved = site.claim(death.server, "dies", die)
    except Killed:
        moved = 0
        site.notes.append(f"killed before write {last}")
    time.sleep(SLEEP_SECONDS)
    return moved + site.claim(death.server, "takes over")


def theirs_dies(site: Site, death: Death) -> int:
    """HBASE-2611, HBASE-16144: kill the RegionServer that holds the lock. No other one would ever get it, but Walferry does."""
    died = site.kill_lock_holder(death.server)
    if died is not None:
        site.replace()
        site.await_end_of_session(died.server)
        site.notes.append("its lock was left" if site.is_locked(death.server) else "it had unlocked")
    site.await_end_of_session(death.server)
    moved = site.claim(death.server, "theirs died")
    if died is not None:
        site.check(died, site.claim(died.server, "theirs died"))
    return moved


def _when_they_begin(site: Site, death: Death) -> None:
    """Wait until the RegionServers begin to claim queues. That is one to two sleeps after the session has ended."""
    site.await_end_of_session(death.server)
    time.sleep(random.uniform(0.5, 2.5) * SLEEP_SECONDS)


SHORT = (in_between, slowly, theirs_dies)
LONG = (at_once, in_between, slowly, two_of_ours, in_between, ours_dies, theirs_dies)


@pytest.fixture(params=BOTH_LAYOUTS)
def site(request: pytest.FixtureRequest, cluster_folder: Path, standalone_pair, java_client, unique) -> Iterator[Site]:
    folder, peer_cluster = cluster_folder / unique("classic"), standalone_pair.peer_cluster.address
    with classic_site(folder, peer_cluster, java_client, unique("load"), request.param) as site:
        yield site


def a_round(site: Site, number: int, kind: Round) -> None:
    site.fill_queues()
    # Every second time, queues that were claimed before are claimed again, under a longer name.
    victim = site.holding_most() if number % 2 else random.choice(site.serving())
    site.register_positions(victim)
    death = site.kill(victim)
    if random.random() < 0.5:
        site.replace()  # a RegionServer that starts looks for dead ones too
    site.check(death, kind(site, death))
    if not site.replacements:
        site.replace()
    site.await_replacements()
    site.check_queues()
    print(f"round {number}, {kind.__name__}: {death.wals} WALs; {site.report()}", flush=True)


def rounds(site: Site, kinds: list[Round]) -> None:
    began = time.monotonic()
    for number, kind in enumerate(kinds):
        a_round(site, number, kind)
    print(f"{len(kinds)} rounds in {time.monotonic() - began:.0f} s", flush=True)
    assert {dead.name for dead in find_dead(session_of(site.zk, site.at))} <= set(site.dead)
    assert any(site.expected.values())  # positions that were claimed with their queues
    began = time.monotonic()
    shipped = site.drain()
    print(f"{shipped} WALs drained in {time.monotonic() - began:.0f} s; {site.load.acknowledged} puts", flush=True)
    assert find_dead(session_of(site.zk, site.at)) == ()
    comparison = tried_again(lambda: site.source.compare(site.table, site.peer_cluster))
    assert comparison.same
    assert {cell.row for cell in site.peer_cluster.scan_all(site.table)} >= site.load.rows()
    print(f"{comparison.left} cells are the same")


@pytest.mark.capability("failover in the layout of HBase 1", cases=("without multi",))
def test_a_few_races_leave_each_wal_in_one_queue(site: Site) -> None:
    rounds(site, list(SHORT))


@pytest.mark.soak
def test_twenty_races_leave_each_wal_in_one_queue(site: Site) -> None:
    rounds(site, [kind for kind, _ in zip(itertools.cycle(LONG), range(ROUNDS), strict=False)])
    assert sum(outcome.ours for outcome in site.outcomes) > 0
    assert sum(outcome.theirs for outcome in site.outcomes) > 0
