"""Intervals are shipped again from the remaining WALs, wherever these lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from embedded.client import GLOBAL
from embedded.standalone import StandaloneCluster
from embedded.wire import put
from tests.cluster.replaying import now, ship_again
from tests.cluster.test_shipping import archive, located
from tests.cluster.walferry_runs import BOTH_SINKS, is_untouched, plan, positions, roll, ship_one, source_of
from tests.threads_backend import Threads, side_by_side
from walferry.engine.summary import Status
from walferry.hbase.errors import PeerError
from walferry.hbase.names import parse_wal_name
from walferry.replay.holes import IntervalGone
from walferry.replay.interval import Interval
from walferry.replication.retention.archive import WalArchive


@pytest.fixture(autouse=True)
def quick_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here WALs contain the entries of a fraction of a second, so a WAL that begins just after an interval does not count."""
    monkeypatch.setattr("walferry.replay.files.SLACK_MS", 5)


def rows(sides, table: str) -> list[str]:
    return sorted({cell.row.decode() if isinstance(cell.row, bytes) else cell.row for cell in sides.peer_cluster.scan_all(table)})


@pytest.fixture
def written(sides, both, peer) -> tuple[str, list[Interval]]:
    """A table with a row in each of three intervals, all in their own WALs; the peer cluster has no row of it."""
    table, times = both(), [now()]
    for i in range(3):
        sides.source.write(table, [put(f"r{i}", {"f:a": b"v", "l:b": b"v"}), put(f"s{i}", {"f:a": b"v"})])
        times.append(now())
        roll(sides.at, peer)
    return table, [Interval(start, end) for start, end in pairwise(times)]


def wals_of(sides, peer: str) -> list[str]:
    return [wal.name for group in plan(sides.at, peer).groups for wal in group.wals]


@BOTH_SINKS
def test_an_interval_s_rows_arrive_and_no_others_and_the_queue_stays_as_it_is(sides, peer, written, sink):
    table, intervals = written
    before = positions(sides.at, peer)
    done = ship_again(sides.at, peer, intervals[1])
    assert [(s.status, s.sink) for s in done] == [(Status.DONE, sink)], done
    assert rows(sides, table) == ["r1", "s1"]
    assert sides.peer_cluster.scan_all(table, ["l"]) == []
    assert done[0].tables[table][:2] == [1, 2]
    assert (done[0].shippedOps, done[0].shippedCells) == (2, 2)
    assert is_untouched(before, positions(sides.at, peer))
    for interval in intervals:
        ship_again(sides.at, peer, interval, run_id=str(interval))
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
    assert is_untouched(before, positions(sides.at, peer))


def test_a_dry_run_counts_and_ships_nothing(sides, peer, written):
    table, intervals = written
    whole = Interval(intervals[0].start, intervals[-1].end)
    (counted,) = ship_again(sides.at, peer, whole, dry_run=True)
    assert counted.tables[table][:2] == [3, 6]
    assert counted.tables[table][2] > 0
    assert rows(sides, table) == []


def test_only_the_chosen_tables_are_shipped(sides, both, peer, written):
    table, _ = written
    other = both()
    start = now()
    for name in (table, other):
        sides.source.write(name, [put("only", {"f:a": b"1"})])
    interval = Interval(start, now())
    roll(sides.at, peer)
    ship_again(sides.at, peer, interval, tables=frozenset([other]))
    assert rows(sides, other) == ["only"]
    assert rows(sides, table) == []
    with pytest.raises(PeerError, match="leaves out table hbase:meta"):
        ship_again(sides.at, peer, interval, tables=frozenset(["hbase:meta"]))


def test_shipped_wals_are_read_from_oldwals_and_then_from_the_archive(sides, peer, written, tmp_path):
    table, intervals = written
    names = wals_of(sides, peer)
    archive(sides, names)
    assert ship_one(sides.at, peer).status is Status.DONE
    whole = Interval(intervals[0].start, intervals[-1].end)
    sides.peer_cluster.empty_table(table)
    ship_again(sides.at, peer, whole, run_id="old")
    assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same

    copies = WalArchive(f"file://{tmp_path}/archive")
    aside = tmp_path / "aside"
    aside.mkdir()
    files = [Path(located(sides, name).url.removeprefix("file:")) for name in names]
    for name, file in zip(names, files, strict=True):
        copies.put(parse_wal_name(name), f"file://{file}")
        file.rename(aside / file.name)
    try:
        sides.peer_cluster.empty_table(table)
        (done,) = ship_again(dataclasses.replace(sides.at, archive=copies.root), peer, whole, run_id="archive")
        assert done.status is Status.DONE, done.error
        assert sides.source.compare(table, sides.peer_cluster, families=["f"]).same
    finally:
        for file in files:
            (aside / file.name).rename(file)


def test_a_wal_that_is_gone_is_named_and_the_rest_is_shipped_only_on_demand(sides, peer, written, tmp_path):
    table, intervals = written
    whole = Interval(intervals[0].start, intervals[-1].end)
    lost = next(name for name in wals_of(sides, peer) if parse_wal_name(name).timestamp > intervals[0].end - 1)
    file = Path(located(sides, lost).url.removeprefix("file:"))
    file.rename(tmp_path / file.name)
    try:
        with pytest.raises(IntervalGone) as gone:
            ship_again(sides.at, peer, whole)
        assert f"WAL {lost} with entries of " in str(gone.value)
        assert str(gone.value).endswith("Set what_is_there to ship the rest of it. Nothing was shipped")
        assert rows(sides, table) == []
        (done,) = ship_again(sides.at, peer, whole, what_is_there=True)
        assert done.status is Status.DONE, done.error
        left = rows(sides, table)
        assert 0 < len(left) < 6
    finally:
        (tmp_path / file.name).rename(file)


def test_a_retry_ships_nothing_again_that_is_done_and_another_run_all_of_it(sides, peer, written):
    table, intervals = written
    ship_again(sides.at, peer, intervals[0])
    sides.peer_cluster.empty_table(table)
    ship_again(sides.at, peer, intervals[0])
    assert rows(sides, table) == []
    ship_again(sides.at, peer, intervals[0], run_id="other")
    assert rows(sides, table) == ["r0", "s0"]


def test_a_wal_that_is_still_open_is_told(sides, both, peer):
    table, start = both(), now()
    sides.source.write(table, [put("r", {"f:a": b"1"})])
    (newest,) = [name for name in positions(sides.at, peer) if located(sides, name) and not located(sides, name).archived][-1:]
    with pytest.raises(IntervalGone, match=f"WAL {newest}, begun at .*, is still open: its entries cannot be read yet; run"):
        ship_again(sides.at, peer, Interval(start, now()))


@pytest.fixture
def two_servers(cluster_folder: Path) -> Iterator[StandaloneCluster]:
    """A source with two RegionServers."""
    with StandaloneCluster(cluster_folder / "moving", {"hbase.regionservers": "2"}, name="moving") as cluster:
        yield cluster


def backwards(function: Callable[[Any], Any], things: Sequence[Any]) -> list[Any]:
    """Ship the groups one after the other, the last one first."""
    return [function(thing) for thing in reversed(things)][::-1]


def test_a_region_s_edits_keep_their_order_over_its_moves_whichever_group_is_shipped_first(
    two_servers, sides, java_client, managed_peer, unique, monkeypatch
):
    source, table = java_client(two_servers.address), unique("t")
    for client in (source, sides.peer_cluster):
        client.create_table(table, {"f": GLOBAL})
    source.switch_balancer(False)
    peer, at = managed_peer(two_servers.address, sides.peer_hbase.address), source_of(two_servers.address)
    region, start = source.regions(table)[0], now()
    for number in range(4):  # equal timestamps: what is applied last wins
        source.write(table, [put("r", {"f:a": b"%d" % number}, timestamp=1000)])
        source.write(table, [put(f"only{number}", {"f:a": b"v"})])
        here = next(r.server for r in source.regions(table) if r.encoded_name == region.encoded_name)
        source.move_region(region.encoded_name, next(server for server in source.region_servers() if server != here))
    interval = Interval(start, now())
    roll(at, peer)
    for order in (side_by_side, backwards, lambda function, things: [function(thing) for thing in things]):
        sides.peer_cluster.empty_table(table)
        done = ship_again(at, peer, interval, run_id=unique("run"), on=Threads(order))
        assert [s.status for s in done] == [Status.DONE] * 5, done  # of two servers, and of three more stages
        assert sum(s.shippedOps for s in done) == 8
        assert source.compare(table, sides.peer_cluster).same
