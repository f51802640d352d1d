"""An initial snapshot between real clusters: files copied and loaded, scans for the other regions, and its remains."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from embedded import wire
from embedded.client import GLOBAL, LOCAL, even_splits
from embedded.processes import wait_until
from tests.cluster.conftest import Sides
from tests.cluster.copies import MIXED, Copies, copies, source_table
from tests.cluster.test_bulkload_targets import COPROCESSOR
from tests.cluster.walferry_runs import ship
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.cluster import master as active_master
from walferry.hbase.rpc import bulk_load, master
from walferry.initial_snapshot import files_copy
from walferry.initial_snapshot.region_copy import RegionOutcome, RegionTask, copy_regions
from walferry.load.copy_records import Records, under_way
from walferry.load.errors import CopyRefused, CopyUnderWay
from walferry.replication.source.session import open_session

__all__ = ["copies", "source_table"]  # fixtures


def test_a_table_is_made_and_copied_and_the_queue_brings_the_rest(sides: Sides, copies: Copies, source_table):
    table = source_table(splits=even_splits(4), versions=3)
    sides.source.put_many(table, 2000, ["f:a", "f:b", "l:x"])
    sides.source.flush(table)
    sides.source.put_many(table, 500, ["f:a"], first=1000)  # in memory until the snapshot flushes it
    copied = copies.run(table)
    assert not copied.errors
    assert (copied.state.regions, copied.state.complete, copied.state.by_scan) == (4, True, ())
    assert copied.state.bytes > 0
    assert sides.source.compare(table, sides.peer_cluster, families=["f"], raw=True).same
    assert sides.peer_cluster.count_rows(table) == 2000
    assert not sides.peer_cluster.scan_all(table, ["l"]), "a family that the peer does not get was copied"
    assert [(r.start_key, r.end_key) for r in sides.peer_cluster.regions(table)] == [
        (r.start_key, r.end_key) for r in sides.source.regions(table)
    ]
    assert not copies.snapshots()
    sides.source.put_many(table, 100, ["f:a"], first=5000)
    assert all(not summary.failed for summary in ship(sides.at, copies.peer))
    assert sides.source.compare(table, sides.peer_cluster, families=["f"], raw=True).same


def test_of_cells_with_equal_keys_the_last_written_one_counts_at_the_peer_cluster_too(sides: Sides, copies: Copies, source_table):
    table = source_table({"f": GLOBAL})
    for value in (b"oldest", b"the one in the middle, which has the largest file", b"newest"):
        sides.source.write(table, [wire.put("row", {"f:q": value}, timestamp=5)])
        sides.source.flush(table)
    assert not copies.run(table).errors
    assert [cell.value for cell in sides.peer_cluster.scan_all(table)] == [b"newest"]


def test_links_of_a_cloned_table_bulk_loads_and_namespaces_are_copied_as_files(
    sides: Sides, copies: Copies, source_table, unique, tmp_path
):
    table, namespace = source_table({"f": GLOBAL}, splits=[b"r5"], versions=3), unique("ns")
    sides.source.write(table, MIXED)
    sides.source.bulk_load(table, [wire.put("r6", {"f:q": b"loaded"})], tmp_path.as_uri())
    sides.source.create_namespace(namespace)
    clone = f"{namespace}:{table}"
    sides.source.clone_table(table, clone)
    copied = copies.run(clone)
    assert not copied.errors
    assert copied.state.by_scan == ()
    assert sides.source.compare(clone, sides.peer_cluster, raw=True).same
    assert sides.peer_cluster.count_rows(clone) == 4


def test_a_table_is_made_with_what_may_travel_and_values_in_mob_files_are_scanned(sides: Sides, copies: Copies, source_table):
    table = source_table({"f": GLOBAL, "m": GLOBAL})
    sides.source.alter_family(table, "f", {"TTL": "86400", "DATA_BLOCK_ENCODING": "FAST_DIFF", "COMPRESSION": "GZ"})
    sides.source.alter_family(table, "m", {"IS_MOB": "true", "MOB_THRESHOLD": "10"})
    sides.source.write(table, [wire.put("r", {"f:q": b"v", "m:q": b"m" * 100})])
    sides.source.flush(table)
    described = sides.source.describe(table)
    sides.source.alter_table(table, {"coprocessor$1": f"|{COPROCESSOR}|5|", "DURABILITY": "ASYNC_WAL"})
    copied = copies.run(table)
    assert not copied.errors
    assert "lie in MOB files" in copied.state.by_scan[0]
    assert sides.peer_cluster.describe(table) == described
    assert sides.source.compare(table, sides.peer_cluster).same


def test_files_of_all_encodings_and_codecs_are_copied_as_they_are(sides: Sides, copies: Copies, source_table):
    attributes: dict[str, dict[str, str]] = {
        "a": {"DATA_BLOCK_ENCODING": "FAST_DIFF", "COMPRESSION": "GZ"},
        "b": {"DATA_BLOCK_ENCODING": "DIFF", "BLOOMFILTER": "ROWCOL"},
        "c": {"DATA_BLOCK_ENCODING": "PREFIX", "BLOCKSIZE": "1024"},
        "d": {"DATA_BLOCK_ENCODING": "ROW_INDEX_V1", "BLOOMFILTER": "NONE"},
    }
    table = source_table(dict.fromkeys(attributes, GLOBAL))
    for family, changed in attributes.items():
        sides.source.alter_family(table, family, changed)
    for first in (0, 100):  # of several files of a family, the order must be known
        sides.source.put_many(table, 200, [f"{family}:q" for family in attributes], first=first)
        sides.source.flush(table)
    copied = copies.run(table)
    assert not copied.errors
    assert copied.state.by_scan == ()
    assert sides.peer_cluster.describe(table) == sides.source.describe(table)
    assert sides.source.compare(table, sides.peer_cluster, raw=True).same


def test_tables_without_rows_are_made_and_files_without_cells_are_left_out(sides: Sides, copies: Copies, source_table):
    never_written, emptied = source_table({"f": GLOBAL}), source_table({"f": GLOBAL}, splits=[b"r5"])
    sides.source.write(emptied, [wire.put("r1", {"f:q": b"v"}), wire.put("r7", {"f:q": b"v"})])
    sides.source.write(emptied, [wire.delete_row("r1")])
    sides.source.flush(emptied)
    sides.source.major_compact(emptied)  # leaves a file without cells
    wait_until(lambda: len(sides.source.scan_all(emptied, raw=True)) == 1, "the compaction", processes=[], timeout=60)
    copied = copies.run(never_written, emptied)
    assert not copied.errors
    assert (copied.state.regions, copied.state.by_scan) == (3, ())
    assert sides.peer_cluster.count_rows(never_written) == 0
    assert sides.source.compare(emptied, sides.peer_cluster, raw=True).same


def test_a_snapshot_that_a_killed_job_has_only_begun_is_waited_for_and_deleted(sides: Sides, copies: Copies, source_table):
    table = source_table({"f": GLOBAL}, splits=even_splits(4))
    sides.source.put_many(table, 100, ["f:a"])
    begun = pb.SnapshotDescription(
        name=f"walferry-initial-snapshot-{copies.peer}-1-0", table=table, type=pb.SnapshotDescription.FLUSH
    )
    with open_session(sides.at) as session, master.connect(active_master(session.zk, session.nodes)) as source:
        source.call("Snapshot", pb.SnapshotRequest(snapshot=begun), pb.SnapshotResponse)
    assert not copies.run(table).errors
    assert not copies.snapshots()


def test_a_table_with_rows_at_the_peer_cluster_is_refused_by_name(sides: Sides, copies: Copies, both):
    table = both({"f": GLOBAL})
    sides.peer_cluster.write(table, [wire.put("there", {"f:q": b"v"})])
    with pytest.raises(CopyRefused, match=f"table {table} at the peer cluster is not empty"):
        copies.run(table)
    with open_session(sides.at) as session:
        assert under_way(session, copies.peer) is None, "a copy that was refused stops all batches"
    assert not copies.run(table, allow_not_empty=True).errors


def test_a_table_whose_rows_were_deleted_is_refused_because_the_markers_would_hide_the_copy(sides: Sides, copies: Copies, both):
    table = both({"f": GLOBAL})
    sides.source.write(table, [wire.put("row", {"f:q": b"v"})])
    sides.peer_cluster.write(table, [wire.put("row", {"f:q": b"other"})])
    sides.peer_cluster.write(table, [wire.delete_row("row")])
    assert not sides.peer_cluster.scan_all(table)
    with pytest.raises(CopyRefused, match=f"table {table} at the peer cluster is not empty"):
        copies.run(table)


@pytest.mark.parametrize("again", ["dropped", "truncated"])
def test_a_table_that_was_emptied_between_two_runs_is_copied_as_a_whole(sides: Sides, copies: Copies, source_table, again):
    table = source_table({"f": GLOBAL}, splits=even_splits(4))
    sides.source.put_many(table, 400, ["f:a"])
    copies.run(table, spread=lambda tasks: copies.spread(tasks[:2]))
    if again == "dropped":
        sides.peer_cluster.drop_table(table)
    else:
        sides.peer_cluster.empty_table(table)
    assert copies.run(table, run="another").state.complete
    assert sides.source.compare(table, sides.peer_cluster, raw=True).same


def test_a_family_that_the_peer_gets_only_since_the_first_run_is_copied_too(sides: Sides, copies: Copies, source_table):
    table = source_table({"f": GLOBAL, "g": LOCAL}, splits=even_splits(2))
    sides.source.put_many(table, 100, ["f:a", "g:a"])
    copies.run(table, spread=lambda tasks: copies.spread(tasks[:1]))
    sides.source.alter_family(table, "g", {"REPLICATION_SCOPE": "1"})
    assert copies.run(table, run="another").state.complete
    assert sides.source.compare(table, sides.peer_cluster, raw=True).same


def test_a_copy_that_was_interrupted_goes_on_and_the_queue_waits_for_it(sides: Sides, copies: Copies, source_table):
    table = source_table({"f": GLOBAL}, splits=even_splits(4))
    sides.source.put_many(table, 400, ["f:a"])

    class Killed(Exception):
        pass

    def half(tasks: Sequence[RegionTask]) -> list[RegionOutcome]:
        copies.spread(tasks[:2])
        raise Killed

    with pytest.raises(Killed):
        copies.run(table, spread=half)
    with open_session(sides.at) as session:
        assert isinstance(under_way(session, copies.peer), CopyUnderWay)
        assert len(Records(session, copies.peer).names(table)) == 2
    left: list[RegionTask] = []

    def rest(tasks: Sequence[RegionTask]) -> list[RegionOutcome]:
        left.extend(tasks)
        return copies.spread(tasks)

    assert not copies.run(table, spread=rest, run="another").errors
    assert len(left) == 2
    assert sides.source.compare(table, sides.peer_cluster, raw=True).same
    with open_session(sides.at) as session:
        assert under_way(session, copies.peer) is None
        assert not Records(session, copies.peer).names(table)


@pytest.mark.parametrize(("module", "name"), [(files_copy, "copy_file"), (bulk_load, "load")])
def test_a_task_that_was_paused_in_mid_copy_until_another_run_was_through_loads_nothing(
    sides: Sides, copies: Copies, source_table, monkeypatch, module, name
):
    """The task's files would count as newer than the edits that the queue has brought meanwhile."""
    table = source_table({"f": GLOBAL})

    def write(value: bytes) -> None:
        sides.source.write(table, [wire.put("row", {"f:q": value}, timestamp=5)])

    for value in (b"oldest", b"older"):
        write(value)
        sides.source.flush(table)
    paused, others_are_through = threading.Event(), threading.Event()
    outcomes: list[RegionOutcome] = []
    threads: list[threading.Thread] = []
    original = getattr(module, name)

    def late(*arguments: object) -> object:
        here = threading.current_thread()
        if (here in threads or here.name.startswith("write-files")) and not paused.is_set():
            paused.set()
            assert others_are_through.wait(300)
        return original(*arguments)

    class SessionLost(Exception):
        pass

    def pausing(tasks: Sequence[RegionTask]) -> list[RegionOutcome]:
        threads.append(threading.Thread(target=lambda: outcomes.extend(copy_regions(sides.at, copies.peer, tasks)), daemon=True))
        threads[0].start()
        assert paused.wait(60)
        raise SessionLost

    monkeypatch.setattr(module, name, late)
    with pytest.raises(SessionLost):
        copies.run(table, spread=pausing)
    assert copies.run(table, run="another").state.complete
    write(b"newest")
    assert all(not summary.failed for summary in ship(sides.at, copies.peer))
    others_are_through.set()
    threads[0].join(300)
    assert [cell.value for cell in sides.peer_cluster.scan_all(table)] == [b"newest"]
    assert "another run has taken over the initial snapshot" in outcomes[0].error
    staging = Path(sides.peer_hbase.address.wal_root.removeprefix("file:")) / "staging"
    assert not [left for left in staging.iterdir() if f"__{table}__" in left.name]
