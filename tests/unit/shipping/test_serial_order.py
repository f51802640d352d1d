"""A serial peer gets a region's edits in the order in which they were written, wherever the region was, and all of them.

The model is compared with HBase's rules: what is handed out, HBase would push; where an attempt waits, HBase would wait.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.unit.shipping.serial_model import RULES, Attempt, Cluster, Entry, batch_of
from walferry.engine.in_flight import WalOffset
from walferry.hbase.tables.barriers import UNKNOWN, Barriers
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.rules import PeerTables
from walferry.replication.queues.last_pushed import NOTHING_PUSHED
from walferry.shipping.serial_order import SerialOrder

ACTIONS, ROUNDS = 60, 200


def life_of(seed: int) -> Cluster:
    """Let a cluster live and die at random while attempts ship it, and let attempts without kills ship the rest."""
    rng = random.Random(seed)
    cluster = Cluster(rng)
    attempts: list[Attempt] = []
    for _ in range(ACTIONS):
        cluster.act()
        if rng.random() < 0.2 and (free := [group for group in cluster.groups if not group.held]):
            attempts.append(Attempt(cluster, rng.choice(free)))
        for attempt in list(attempts):
            if rng.random() < 0.05:
                attempt.kill()
                attempts.remove(attempt)
            elif rng.random() < 0.8 and not attempt.step():
                attempts.remove(attempt)
    for attempt in attempts:
        attempt.kill()
    settle(cluster)
    return cluster


def settle(cluster: Cluster) -> None:
    """End all openings, close all WALs, and ship in rounds for as long as any group gets further."""
    for region in cluster.regions.values():
        if region.opening_on is not None:
            cluster.opened(region)
        if region.barrier is not None:
            cluster.write_barrier(region)
    for number in cluster.live:
        cluster.groups[number].wals.append([])
    for _ in range(ROUNDS):
        attempts = [Attempt(cluster, group) for group in cluster.groups]
        at_work = list(attempts)
        while at_work:
            attempt = cluster.rng.choice(at_work)
            if not attempt.step():
                at_work.remove(attempt)
        if not any(attempt.further for attempt in attempts):
            return
    raise AssertionError(f"the groups get further in each of {ROUNDS} rounds")


def check(seeds: range) -> None:
    for seed in seeds:
        cluster = life_of(seed)
        left = {region.name: len(region.entries) - region.delivered for region in cluster.regions.values()}
        assert not any(left.values()), f"seed {seed}: entries that never arrived: {left}"


@pytest.mark.parametrize("part", range(4))
def test_the_order_holds_and_nothing_is_stuck(part: int) -> None:
    check(range(100 * part, 100 * (part + 1)))


@pytest.mark.soak
def test_the_order_holds_in_any_of_20_000_lives() -> None:
    check(range(20_000))


class Regions:
    """Lookups of one region's barriers, which count how often they were asked."""

    def __init__(self, barriers: Barriers | None = UNKNOWN, pushed: int = NOTHING_PUSHED) -> None:
        self.found = barriers
        self.pushed = pushed
        self.asked: list[bytes] = []

    def barriers(self, table: str, row: bytes, encoded_name: bytes) -> Barriers | None:
        self.asked.append(encoded_name)
        return self.found

    def barriers_of(self, region: bytes) -> Barriers:
        raise AssertionError("no region here has parents")

    def last_pushed(self, encoded_name: str) -> int:
        return self.pushed

    def close(self) -> None:
        """Nothing is open."""


def entries(*ids: int, region: bytes = b"a" * 32) -> WalBatch:
    return batch_of([Entry(region, sequence_id, 0) for sequence_id in ids], 0)


def test_barriers_are_looked_up_once_for_each_wal() -> None:
    regions = Regions(Barriers((1,)))
    order = SerialOrder(regions)
    for wal in (0, 0, 1, 1):
        assert order.ready(wal, entries(2, 3, 5), RULES) == 3
    assert regions.asked == [b"a" * 32] * 2


def test_a_region_that_is_gone_is_looked_up_once() -> None:
    regions = Regions(UNKNOWN)
    order = SerialOrder(regions)
    for wal in (0, 1, 2):
        assert order.ready(wal, entries(2, 3, 5), RULES) == 3
    assert regions.asked == [b"a" * 32]


def test_an_attempt_that_has_to_end_hands_nothing_out_without_a_look() -> None:
    order = SerialOrder(Regions(None))
    assert order.ready(0, entries(2, 3), RULES) == 0
    assert order.out_of_order is None


def test_only_what_waits_is_named_and_no_other_region() -> None:
    """Region b is being opened, but its edit follows the last pushed one; region a waits for another server."""
    regions = Regions(Barriers((1, 100), opening=True), pushed=10)
    order = SerialOrder(regions)
    both = batch_of([Entry(b"a" * 32, 101, 0), Entry(b"b" * 32, 11, 0)], 0)
    assert order.ready(0, both, RULES) == 0
    assert order.out_of_order is not None
    assert (order.out_of_order.region, order.out_of_order.sequence_id, order.out_of_order.seen) == ("a" * 32, 101, 10)


def test_ids_of_edits_that_were_given_up_are_not_raised() -> None:
    regions = Regions(Barriers((1,)))
    order = SerialOrder(regions)
    assert order.ready(0, entries(2, 3, 5), RULES) == 3
    order.handing_out(0, entries(2, 3), RULES)
    assert order.pushed(WalOffset(0, 1)) == {"a" * 32: 2}
    order.given_up(0, 1)
    assert order.pushed(WalOffset(1, 0)) == {}
    regions.found, regions.pushed = Barriers((1, 4)), 2
    assert order.ready(1, entries(5), RULES) == 0, "what was handed out and given up finishes no range"


@pytest.mark.parametrize("region", [b"A" * 32, b"a/../../" * 4, b"\0" * 32])
def test_a_name_that_no_region_has_is_not_looked_up_and_has_no_id(region: bytes) -> None:
    regions = Regions(Barriers((1,)))
    order = SerialOrder(regions)
    assert order.ready(0, entries(2, 3, region=region), RULES) == 2
    order.handing_out(0, entries(2, 3, region=region), RULES)
    assert (regions.asked, order.pushed(WalOffset(1, 0))) == ([], {})


def test_entries_of_tables_that_the_peer_does_not_get_have_no_order() -> None:
    regions = Regions(Barriers((1, 100)))
    others = replace(RULES, tables=PeerTables(replicate_all=False, table_families={b"other": frozenset()}))
    order = SerialOrder(regions)
    assert order.ready(0, entries(200), others) == 1
    order.handing_out(0, entries(200), others)
    assert (regions.asked, order.pushed(WalOffset(1, 0))) == ([], {})


def test_what_waits_is_named_and_gets_another_look() -> None:
    regions = Regions(Barriers((1, 100)), pushed=98)
    order = SerialOrder(regions)
    assert order.ready(0, entries(101, 102), RULES) == 0
    behind = "the region's edits up to 99, from where it was before, are not shipped yet"
    assert str(order.out_of_order) == f"edit 101 of region {'a' * 32} of table t waits: {behind}"
    regions.pushed = 99
    assert order.ready(0, entries(101, 102), RULES) == 2
    assert order.pushed(WalOffset(1, 0)) == {}, "nothing was handed out yet"
    order.handing_out(0, entries(101, 102), RULES)
    assert order.pushed(WalOffset(0, 1)) == {"a" * 32: 101}
    assert order.pushed(WalOffset(1, 0)) == {"a" * 32: 102}
    assert order.pushed(WalOffset(1, 0)) == {}


def test_an_edit_that_follows_the_last_pushed_one_need_not_wait_for_an_opening_region() -> None:
    order = SerialOrder(Regions(Barriers((1,), opening=True), pushed=10))
    assert order.ready(0, entries(11, 12, 13, 15), RULES) == 3
    assert "edit 15 of region" in str(order.out_of_order)
    assert str(order.out_of_order).endswith("waits: the region is being opened on a server")
