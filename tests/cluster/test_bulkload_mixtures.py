"""Edits that cannot be loaded as files go by requests in the same run, with the edits that belong before or behind them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from embedded import wire
from embedded.client import GLOBAL
from embedded.wire import Mutation, put
from tests.cluster.dead_queues import DeadQueue, record
from tests.cluster.loads import folders_left, records_left
from tests.cluster.local_spread import LocalSpread
from tests.cluster.peer_changes import only, reconfigure, table_of
from tests.cluster.test_bad_input import flipped
from tests.cluster.test_bulkload_targets import COPROCESSOR
from tests.cluster.test_peers_that_change import with_bandwidth
from tests.cluster.walferry_runs import plan, positions, ship, ship_one, source_of
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.files.quarantine import BrokenWals
from walferry.hbase.rpc import bulk_load
from walferry.load import numbered
from walferry.replication.peers.settings import SinkKind
from walferry.shipping.bulkload import loading
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.loading import ShareOutcome
from walferry.shipping.bulkload.shares import Share
from walferry.shipping.bulkload.survey import WalSurvey

pytestmark = pytest.mark.parametrize("sink", [SinkKind.HFILES], indirect=True)
ROWS = 20
LOADED = "loaded"  # a key of logEditsFiltered
SPLITS = [b"row10"]


@pytest.fixture
def make(both: Callable[..., str]) -> Callable[[], str]:
    """Makes a table with two regions."""
    return lambda: both({"f": GLOBAL, "g": GLOBAL}, splits=SPLITS, versions=100)


def edits(text: str) -> list[Mutation]:
    """Return a put of each row. The puts of all texts have the same cells and timestamp, so that only their order counts."""
    return [put(f"row{i:02}", {"f:q": text.encode(), "g:q": text.encode()}, timestamp=5) for i in range(ROWS)]


def by_requests(summary: GroupSummary) -> str:
    """Return why some of the group was shipped by requests, which have done it."""
    assert (summary.status, summary.sink) == (Status.DONE, SinkKind.DIRECT), summary.error
    assert summary.notLoaded
    print(summary.notLoaded)
    return summary.notLoaded


def as_files(summary: GroupSummary) -> None:
    assert (summary.status, summary.sink, summary.notLoaded) == (Status.DONE, SinkKind.HFILES, None), summary


def check_same(sides, *tables: str) -> None:
    for table in tables:
        compared = sides.source.compare(table, sides.peer_cluster)
        assert compared.same, compared.examples
        assert compared.left >= ROWS


def check_nothing_left(sides, peer: str, *tables: str) -> None:
    assert records_left(sides.at, peer) == []
    assert folders_left(sides.peer_hbase.address, *tables) == {}


def test_tables_that_are_unfit_are_shipped_beside_those_that_are_loaded(sides, peer, make) -> None:
    fit, watched, ordered = tables = [make() for _ in range(3)]
    sides.peer_cluster.alter_table(watched, {"coprocessor$1": f"|{COPROCESSOR}|5|"})
    for client in (sides.source, sides.peer_cluster):
        client.alter_family(ordered, "f", {"NEW_VERSION_BEHAVIOR": "true"})
    for text in ("first", "second"):
        for table in tables:
            sides.source.write(table, edits(text))
            sides.source.write(table, [wire.delete_column("row03", "f:q", timestamp=7)])
        sides.source.roll_wals()
    summary = ship_one(sides.at, peer)
    why = by_requests(summary)
    assert f"table {watched} go by requests: it has the coprocessor" in why
    assert f"table {ordered} go by requests: family f has NEW_VERSION_BEHAVIOR" in why
    assert fit not in why
    assert summary.logEditsFiltered[LOADED] > 0
    assert summary.shippedCells == 3 * 2 * (2 * ROWS + 1)
    check_same(sides, *tables)
    check_nothing_left(sides, peer, *tables)


def test_a_peer_gets_the_families_that_it_names_as_files(sides, peer, make) -> None:
    table, other = make(), make()
    reconfigure(sides.source_cluster.address, peer, only(table_of(table, "g")))
    for each in (table, other):
        sides.source.write(each, edits("value"))
    as_files(ship_one(sides.at, peer))
    assert {cell.family for cell in sides.peer_cluster.scan_all(table)} == {b"g"}
    assert sides.source.compare(table, sides.peer_cluster, families=["g"]).same
    assert sides.peer_cluster.scan_all(other) == []
    check_nothing_left(sides, peer, table)


def test_a_load_is_known_among_what_comes_into_its_region_beside_it(sides, peer, make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load flushes the region, so a file without a number comes at the same time. Each region is still loaded once."""
    table, calls = make(), []
    sides.peer_cluster.write(table, edits("older"))
    sides.source.write(table, edits("newer"))
    load = bulk_load.load
    monkeypatch.setattr(numbered.bulk_load, "load", lambda *args: calls.append(args[1]) or load(*args))
    as_files(ship_one(sides.at, peer))
    assert len(calls) == len(set(calls)) == 2
    check_same(sides, table)
    check_nothing_left(sides, peer, table)


def test_what_is_loaded_at_a_peer_cluster_that_replicates_back_does_not_come_back(sides, peer, make, managed_peer) -> None:
    table = make()
    back = managed_peer(sides.peer_hbase.address, sides.source_cluster.address)
    at_peer_cluster = source_of(sides.peer_hbase.address, SinkKind.HFILES)
    sides.source.write(table, edits("value"))
    sides.peer_cluster.write(table, [put("own", {"f:q": b"value"})])
    there, returned = ship_one(sides.at, peer), ship_one(at_peer_cluster, back)
    assert [(s.status, s.sink, s.notLoaded) for s in (there, returned)] == 2 * [(Status.DONE, "hfiles", None)]
    assert (there.shippedCells > 1, returned.shippedCells) == (True, 1)
    assert ship_one(sides.at, peer, run_id="again").shippedCells == 0
    check_same(sides, table)
    check_nothing_left(sides, peer, table)


def test_a_table_that_the_peer_cluster_lacks_stops_the_queue_and_what_is_loaded_is_not_shipped_again(sides, peer, make) -> None:
    here, missing = make(), make()
    sides.peer_cluster.drop_table(missing)
    for table in (missing, here):
        sides.source.write(table, edits("value"))
    failed = ship_one(sides.at, peer, run_id="first")
    assert failed.status is Status.FAILED
    assert f"table {missing} does not exist there" in failed.error
    check_same(sides, here)
    assert len(records_left(sides.at, peer)) == 1
    sides.source.write(here, edits("newer"))
    sides.peer_cluster.create_table(missing, {"f": GLOBAL, "g": GLOBAL})
    done = ship_one(sides.at, peer, run_id="second")
    assert done.status is Status.DONE, done.error
    assert done.logEditsFiltered[LOADED] > 0
    assert done.shippedCells == 2 * 2 * ROWS  # the missing table's edits, and the other table's newer edits
    check_same(sides, here, missing)
    check_nothing_left(sides, peer, here, missing)


def test_a_table_that_is_dropped_in_mid_load_does_not_keep_others_from_being_loaded(
    sides, peer, make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "LOADED_AT_ONCE", 1)
    here, dropped = make(), make()
    sides.source.write(here, edits("value"))
    for text in ("first", "second"):  # its regions are loaded before those of the smaller table
        sides.source.write(dropped, edits(text * 100))

    class Dropped(LocalSpread):
        def load(self, job: LoadJob, share: Share) -> ShareOutcome:
            sides.peer_cluster.drop_table(dropped)
            return super().load(job, share)

    failed = ship_one(sides.at, peer, run_id="first", spread=lambda: Dropped(most_tasks=1))
    assert failed.status is Status.FAILED
    assert f"table {dropped} does not exist there" in failed.error
    assert here not in failed.notLoaded
    assert failed.logEditsFiltered[LOADED] > 0
    check_same(sides, here)
    sides.peer_cluster.create_table(dropped, {"f": GLOBAL, "g": GLOBAL})
    assert ship_one(sides.at, peer, run_id="second").status is Status.DONE
    check_same(sides, here, dropped)
    check_nothing_left(sides, peer, here, dropped)


def test_a_table_that_began_anew_between_edits_is_shipped_in_the_order_of_the_wals(sides, peer, make) -> None:
    anew, other = make(), make()
    for table in (anew, other):
        for number in range(10):
            sides.source.write(table, edits(f"old {number}"))
    sides.source.empty_table(anew)
    for table in (anew, other):
        sides.source.write(table, edits("newest"))
    # The regions of a table that began anew have other names, and senders keep the order of each region by itself, as HBase does.
    why = by_requests(ship_one(sides.at, peer, senders=1))
    assert f"table {anew} go by requests: " in why
    assert other not in why
    check_same(sides, anew, other)
    assert {cell.value for cell in sides.peer_cluster.scan_all(anew)} == {b"newest"}
    check_nothing_left(sides, peer, anew, other)


def test_what_follows_a_broken_wal_waits_until_it_is_dealt_with(sides, peer, make, tmp_path: Path) -> None:
    at = replace(sides.at, quarantine=f"file://{tmp_path}/aside")
    before, broken, after = [record(sides.source, make(), ROWS) for _ in range(3)]
    queue = DeadQueue(sides.at, sides.source, peer)
    half = broken.entries[broken.entries.index(broken.puts[ROWS // 2]) - 1].end
    wals = [queue.add(content) for content in (before.content, flipped(broken.content, half + 1), after.content)]
    (failed,) = ship(at, peer, roll_first=False, groups=[queue.group], run_id="first")
    assert failed.status is Status.FAILED
    assert f"file://{wals[1]} at byte " in failed.error
    assert f"in the entry that begins at byte {half}" in failed.error
    assert f"a WAL and those after it in its group go by requests: file://{wals[1]}" in failed.notLoaded
    assert failed.logEditsFiltered[LOADED] >= ROWS  # in the first WAL
    assert queue.positions() == {wals[1].name: half, wals[2].name: 0}
    check_same(sides, before.table)
    assert len(sides.peer_cluster.scan_all(broken.table)) == ROWS // 2
    assert sides.peer_cluster.scan_all(after.table) == []

    (done,) = ship(at, peer, roll_first=False, groups=[queue.group], run_id="second", broken_wals=BrokenWals.QUARANTINE)
    assert (done.status, done.quarantinedLogs) == (Status.DONE, 1), done.error
    assert queue.positions() == {}
    assert sides.source.compare(after.table, sides.peer_cluster).same
    assert (tmp_path / "aside" / wals[1].name).exists()
    check_nothing_left(sides, peer, before.table)


def test_a_dead_servers_queue_is_loaded_and_deleted(sides, peer, make) -> None:
    recordings = [record(sides.source, make(), ROWS) for _ in range(2)]
    queue = DeadQueue(sides.at, sides.source, peer)
    for recording in recordings:
        queue.add(recording.content)
    (summary,) = ship(sides.at, peer, roll_first=False, groups=[queue.group])
    as_files(summary)
    assert (summary.completedLogs, queue.positions()) == (2, {})
    assert queue.group not in {group.group for group in plan(sides.at, peer).groups}
    check_same(sides, *(recording.table for recording in recordings))
    check_nothing_left(sides, peer, *(recording.table for recording in recordings))


def test_a_bandwidth_is_kept_to_by_requests(sides, peer, make) -> None:
    table = make()
    reconfigure(sides.source_cluster.address, peer, with_bandwidth(10_000_000))
    sides.source.write(table, edits("value"))
    assert "the peer has a bandwidth" in by_requests(ship_one(sides.at, peer))
    check_same(sides, table)
    check_nothing_left(sides, peer, table)


def test_wals_are_copied_to_the_archive_though_their_edits_are_loaded(sides, peer, make, tmp_path: Path) -> None:
    table = make()
    sides.source.write(table, edits("value"))
    queued = positions(sides.at, peer)
    summary = ship_one(replace(sides.at, archive=f"file://{tmp_path}/archive"), peer)
    assert summary.status is Status.DONE, summary.error
    assert summary.logEditsFiltered[LOADED] > 0
    assert summary.shippedCells == 2 * ROWS
    copied = {path.name for path in (tmp_path / "archive").rglob("*") if path.is_file()}
    assert copied >= queued.keys()
    check_same(sides, table)
    check_nothing_left(sides, peer, table)


class LateBefore(LocalSpread):
    """The deadline comes before the tasks."""

    def survey(self, job: LoadJob, number: int) -> WalSurvey:
        time.sleep(max(0.0, job.deadline - time.time()) + 0.1)
        return super().survey(job, number)


class LateBetween(LocalSpread):
    """The deadline comes between two tasks that load."""

    def load(self, job: LoadJob, share: Share) -> ShareOutcome:
        done = super().load(job, share)
        assert done.loaded.files or time.time() > job.deadline
        time.sleep(max(0.0, job.deadline - time.time()) + 0.1)
        return done


@pytest.mark.parametrize("late", [LateBefore, LateBetween])
def test_what_is_not_loaded_before_the_deadline_is_left_to_the_next_run(sides, peer, make, late: type[LocalSpread]) -> None:
    table = make()
    for text in ("first", "second"):
        sides.source.write(table, edits(text))
        sides.source.roll_wals()
    queued = positions(sides.at, peer)
    failed = ship_one(sides.at, peer, run_id="first", deadline=4, spread=late)
    assert failed.status is not Status.DONE
    assert positions(sides.at, peer).keys() >= queued.keys()
    as_files(ship_one(sides.at, peer, run_id="second"))
    check_same(sides, table)
    check_nothing_left(sides, peer, table)
