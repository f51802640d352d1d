"""Walferry ships edits from one real HBase to another."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded.client import JavaClientError
from embedded.wire import put
from tests.cluster.walferry_runs import BOTH_SINKS, Shipping, plan, positions, roll, ship, ship_one
from walferry.engine.summary import Status
from walferry.hbase.files.store import WalLocation, WalStore
from walferry.hbase.names import parse_wal_name
from walferry.replication.peers.settings import PeerSettings

pytestmark = BOTH_SINKS
WAIT_SECONDS = 60


def eventually(done: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < give_up, f"not within {WAIT_SECONDS} s: {what}"
        time.sleep(0.1)


def located(sides, wal: str) -> WalLocation | None:
    return WalStore(sides.at.wal_root).locate(parse_wal_name(wal))


def archive(sides, wals: list[str]) -> None:
    """Let HBase move these WALs to oldWALs, by flushing all edits in them and beginning a newer WAL."""
    tables: set[str] = set()

    def readable() -> bool:
        try:
            tables.update(entry.table for wal in wals for entry in sides.source.read_wal(located(sides, wal).url))
        except JavaClientError:  # HBase names a WAL's successor before it has written the WAL's last bytes
            return False
        return True

    eventually(readable, f"{wals} are closed")
    for table in tables:
        if sides.source.table_exists(table):
            sides.source.flush(table)

    def archived() -> bool:
        sides.source.roll_wals()
        return all((at := located(sides, wal)) and at.archived for wal in wals)

    eventually(archived, f"{wals} are archived")


@pytest.mark.capability("requests, by both sinks")
def test_global_families_arrive_and_local_ones_do_not(sides, both, peer):
    table = both()
    sides.source.put_many(table, 2000, ["f:a", "f:b", "l:c"], batch=50)
    summary = ship_one(sides.at, peer)
    assert summary.status is Status.DONE, summary.error
    assert summary.shippedOps == 2000
    assert summary.shippedCells == 4000
    assert summary.cellsFiltered == 2000
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
    assert sides.peer_cluster.scan_all(table, ["l"]) == []
    assert not plan(sides.at, peer).to_ship


def test_a_second_batch_ships_only_what_is_new(sides, both, peer):
    table = both()
    sides.source.write(table, [put("r1", {"f:a": b"1"})])
    assert ship_one(sides.at, peer).shippedCells == 1
    sides.source.write(table, [put("r2", {"f:a": b"2"})])
    assert ship_one(sides.at, peer, run_id="second").shippedCells == 1
    assert sides.source.compare(table, sides.peer_cluster).same


def test_the_wal_that_is_being_written_stays_queued(sides, both, peer):
    table = both()
    sides.source.write(table, [put("r1", {"f:a": b"1"})])
    ship(sides.at, peer)
    (newest,) = positions(sides.at, peer)
    sides.source.write(table, [put("r2", {"f:a": b"2"})])
    assert ship(sides.at, peer, roll_first=False) == []
    assert positions(sides.at, peer) == {newest: 0}


def test_a_wal_that_was_archived_after_the_plan_is_found(sides, both, peer):
    table = both()
    sides.source.put_many(table, 500, ["f:a"])
    roll(sides.at, peer)
    (group,) = plan(sides.at, peer).groups
    names = [wal.name for wal in group.wals]
    assert not any(located(sides, name).archived for name in names)
    archive(sides, names)
    summary = ship_one(sides.at, peer, roll_first=False, groups=[group.group])
    assert (summary.status, summary.shippedCells) == (Status.DONE, 500), summary.error
    assert sides.source.compare(table, sides.peer_cluster).same


def test_a_wal_that_is_archived_between_finding_and_opening_is_found_again(sides, both, peer, monkeypatch):
    table = both()
    sides.source.put_many(table, 500, ["f:a"])
    roll(sides.at, peer)
    (group,) = plan(sides.at, peer).groups
    names = [wal.name for wal in group.wals]
    vanished = []
    open_ = WalStore.open

    def open_after_archiving(store: WalStore, location: WalLocation, **options: float):
        if not vanished:
            archive(sides, names)
            vanished.append(location.url)
        return open_(store, location, **options)

    monkeypatch.setattr(WalStore, "open", open_after_archiving)
    summary = ship_one(sides.at, peer, roll_first=False, groups=[group.group])
    assert (summary.status, summary.shippedCells) == (Status.DONE, 500), summary.error
    assert not Path(vanished[0].removeprefix("file:")).exists()
    assert sides.source.compare(table, sides.peer_cluster).same


def test_a_wal_that_is_archived_while_it_is_read_is_read_to_its_end(sides, both, proxied, proxied_peer):
    table = both()
    sides.source.put_many(table, 12_000, ["f:a"], value_bytes=1000)  # more than the reader reads at once
    roll(sides.at, proxied_peer)
    names = [wal.name for group in plan(sides.at, proxied_peer).groups for wal in group.wals]
    proxied.sink.answers.lock()
    small = PeerSettings(shipment_bytes=64 << 10, buffer_bytes=256 << 10)
    with Shipping(sides.at, proxied_peer, roll_first=False, settings=small) as shipping:
        eventually(lambda: proxied.sink.requests.passed > 64 << 10, "a first shipment is on its way")
        archive(sides, names)
        proxied.sink.answers.let_go()
        summary = shipping.summary()
    assert (summary.status, summary.shippedCells) == (Status.DONE, 12_000), summary.error
    assert sides.source.compare(table, sides.peer_cluster).same


@pytest.mark.parametrize("senders", [1, 4])
def test_a_run_whose_time_is_over_leaves_the_rest_queued(sides, both, proxied, proxied_peer, senders):
    """A peer cluster that accepts everything, but not fast enough, is not a failure."""
    table = both()
    sides.source.put_many(table, 40_000, ["f:a"])
    roll(sides.at, proxied_peer)
    (wal,) = [wal for group in plan(sides.at, proxied_peer).groups for wal in group.wals if wal.bytes_left]
    proxied.sink.requests.speed = (1 << 18) / senders
    small = PeerSettings(shipment_bytes=64 << 10, buffer_bytes=1 << 20)
    summary = ship_one(sides.at, proxied_peer, roll_first=False, settings=small, senders=senders, deadline=8)
    proxied.sink.requests.speed = math.inf
    assert summary.status is Status.DEADLINE, summary.error
    assert 0 < positions(sides.at, proxied_peer)[wal.name] < wal.bytes_left
    rest = ship_one(sides.at, proxied_peer, run_id="rest")
    assert rest.status is Status.DONE, rest.error
    assert sides.source.compare(table, sides.peer_cluster).same
