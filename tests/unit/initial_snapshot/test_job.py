"""Which regions a later run of an initial snapshot leaves to the one before it, and which tables count as empty."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.records import decode, encode
from walferry.hbase.tables.snapshots import SnapshotRegion
from walferry.initial_snapshot import beginning, job, targets
from walferry.initial_snapshot.beginning import BegunTable
from walferry.initial_snapshot.region_copy import RegionTask
from walferry.initial_snapshot.targets import MadeTarget
from walferry.load.copied_tables import ChosenTable
from walferry.load.copy_records import CopyWay, RegionRecord, TableRecord
from walferry.load.earlier_loads import LoadedBefore
from walferry.load.errors import CopyRefused
from walferry.load.records import Load

REGION = SnapshotRegion("t", "abc", b"", b"", ())
COPIED = RegionRecord(CopyWay.FILES, families=(b"f".hex(),))


class Kept:
    """Records in memory."""

    def __init__(self) -> None:
        self.of_region = {"abc": COPIED}

    def begin_table(self, table: str, record: TableRecord) -> None:
        return

    def begin_table_anew(self, table: str, record: TableRecord) -> None:
        self.of_region.clear()

    def forget_region(self, table: str, name: str) -> None:
        del self.of_region[name]

    def names(self, table: str) -> list[str]:
        return list(self.of_region)

    def regions(self, table: str, names: list[str]) -> dict[str, RegionRecord]:
        return {name: self.of_region[name] for name in names}


@pytest.mark.parametrize(
    ("record", "families", "left"),
    [
        (COPIED, (b"f",), 0),
        (replace(COPIED, families=(b"f".hex(), b"g".hex())), (b"f",), 0),
        (COPIED, (b"f", b"g"), 1),  # the peer gets a family more since then
        (replace(COPIED, way=""), (b"f",), 1),
        (replace(COPIED, families=()), (b"f",), 1),
    ],
)
def test_a_region_is_done_only_with_all_families_of_this_run(record, families, left):
    records = Kept()
    records.of_region["abc"] = record
    done = job._Done(records, [RegionTask(REGION, families)])  # type: ignore[arg-type]
    assert len(list(done.left())) == left


def no_look(*_: object) -> bool:
    pytest.fail("a table that was just made is scanned, which takes a while if it has many regions")


@pytest.mark.parametrize(
    ("made", "fresh", "has_rows", "left"),
    [
        (False, False, lambda *_: True, 0), (False, False, lambda *_: False, 1), (True, False, no_look, 1),
        (False, True, no_look, 1),  # of an earlier life of the table
    ],
)  # fmt: skip
def test_regions_count_as_copied_only_while_their_table_at_the_peer_cluster_has_rows(monkeypatch, made, fresh, has_rows, left):
    """The refusal of a table that is not empty says to drop or truncate it, also between two runs of one copy."""
    monkeypatch.setattr(job, "read_manifest", lambda *_: None)
    monkeypatch.setattr(job, "regions_of", lambda *_: [REGION])
    monkeypatch.setattr(job, "active_master", lambda *_: None)
    monkeypatch.setattr(job.master, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(job, "make_target", lambda *_: MadeTarget(made))
    monkeypatch.setattr(job, "has_rows", has_rows)
    peer_cluster: Any = SimpleNamespace(zk=None, nodes=None, login=None)
    request: Any = SimpleNamespace(source=SimpleNamespace(login=None, hbase_root="file:/x"))
    records: Any = Kept()
    chosen = ChosenTable("t", (b"f",), pb.TableSchema())
    copy = job._Copy(None, None, peer_cluster, request, SimpleNamespace(attempt="a", peer_version=0))  # type: ignore[arg-type]
    tasks = copy._begin(records, BegunTable(chosen, "snapshot", TableRecord("life", "border"), fresh))
    assert len(list(job._Done(records, tasks).left())) == left


def test_what_earlier_tries_have_left_is_deleted_even_if_the_region_was_split_since(monkeypatch):
    """Otherwise a task of a run that was overtaken could still have the peer cluster load files from there."""
    deleted: list[RegionRecord] = []
    monkeypatch.setattr(job, "clean", lambda place, record, *_: deleted.append(record))
    records: Any = Kept()
    begun = RegionRecord(staging="hdfs://peer/staging/token")
    records.of_region["of a region that was split"] = begun
    peer_cluster: Any = SimpleNamespace(place=lambda table: None)
    nothing: Any = None
    request: Any = SimpleNamespace(source=SimpleNamespace(hbase_root="file:/x"))
    job._Copy(nothing, nothing, peer_cluster, request, nothing)._clean(records, "t")
    assert deleted == [begun]
    assert records.of_region == {"abc": COPIED}


def test_delete_markers_count_as_rows(monkeypatch):
    """They would hide rows of the copy that are older."""

    class Tables:
        def scan(self, table: str, spec: Any) -> list[list[str]]:
            return [["a delete marker"]] if spec.raw else []

    has_rows = targets.has_rows
    assert has_rows(Tables(), "t")  # type: ignore[arg-type]


@pytest.mark.parametrize(("attributes", "refused"), [({b"NEW_VERSION_BEHAVIOR": b"TRUE"}, True), ({b"VERSIONS": b"3"}, False)])
def test_families_of_the_peer_cluster_with_new_version_behavior_are_refused(monkeypatch, attributes, refused):
    there = pb.TableSchema()
    for name in (b"f", b"of others"):
        family = there.column_families.add(name=name)
        for key, value in attributes.items() if name == b"f" else ():
            family.attributes.add(first=key, second=value)
    monkeypatch.setattr(targets, "table_schemas", lambda *_: {"t": there})
    chosen, nothing = ChosenTable("t", (b"f",), pb.TableSchema()), SimpleNamespace()
    expected: Any = pytest.raises(CopyRefused, match="family f of table t at the peer cluster has") if refused else nullcontext()
    with expected:
        targets.check_target(nothing, nothing, chosen, may_have_rows=True)  # type: ignore[arg-type]


class Source:
    """A source whose tables have lives, and whose WALs are rolled before a copy; `lives` are what look after look finds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lives: dict[str, str], **records: TableRecord) -> None:
        self.reported: list[str] = []
        self.lives = list(lives)
        self.records = records
        monkeypatch.setattr(beginning, "lives", self._look)
        monkeypatch.setattr(beginning, "find_border", self._border)
        monkeypatch.setattr(job, "active_master", lambda *_: None)
        monkeypatch.setattr(job.master, "connect", lambda *_, **__: nullcontext())

    def _look(self, *_: object) -> dict[str, str]:
        self.reported.append("look")
        return self.lives.pop(0)

    def _border(self, *_: object) -> Load:
        self.reported.append("border")
        return Load("run", {}, initial_snapshot=True)

    def _take(self, table: str) -> str:
        self.reported.append(table)
        return f"snapshot {len(self.reported)}"

    def begin(self, *tables: str) -> dict[str, tuple[str, str, str, bool]]:
        """Begin a copy. Returns the snapshot of each table, its life and border, and whether it is begun anew."""
        borders = iter(range(1, 10))
        records: Any = SimpleNamespace(table=self.records.get, add_border=lambda *_: f"border {next(borders)}")
        peer_and_cluster: Any = SimpleNamespace(id="p", zk=None, nodes=None, login=None)
        request: Any = SimpleNamespace(run_id="run")
        nothing: Any = None
        copy = job._Copy(nothing, peer_and_cluster, peer_and_cluster, request, nothing)
        chosen, known = [ChosenTable(table, (b"f",), pb.TableSchema()) for table in tables], partial(copy._known, records)
        begun = beginning.begin_tables(peer_and_cluster, "p", "run", records, chosen, self._take, known)
        assert len(begun) == len(tables)
        return {each.table.name: (each.snapshot, each.record.life, each.record.border, each.fresh) for each in begun}


def test_a_border_is_set_before_the_snapshots_of_tables_that_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(monkeypatch, {"t": "1", "u": "1"}, {"t": "1", "u": "1"})
    assert source.begin("t", "u") == {"t": ("snapshot 3", "1", "border 1", True), "u": ("snapshot 4", "1", "border 1", True)}
    assert source.reported == ["look", "border", "t", "u", "look"]


def test_a_table_with_which_the_copy_goes_on_keeps_its_border_which_is_older_than_all_of_its_snapshots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source(monkeypatch, {"t": "1", "u": "1"}, {"t": "1", "u": "1"}, t=TableRecord("1", "first"))
    assert source.begin("t", "u") == {"t": ("snapshot 3", "1", "first", False), "u": ("snapshot 4", "1", "border 1", True)}
    source = Source(monkeypatch, {"t": "1"}, {"t": "1"}, t=TableRecord("1", "first"))
    assert source.begin("t") == {"t": ("snapshot 2", "1", "first", False)}
    assert source.reported == ["look", "t", "look"]  # no server has to roll


def test_a_table_that_becomes_another_one_before_its_snapshot_is_taken_again_behind_a_new_border(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = [{"t": "1", "u": "1"}, {"t": "2", "u": "1"}, {"t": "2", "u": "1"}, {"t": "2", "u": "1"}]
    source = Source(monkeypatch, *seen)
    assert source.begin("t", "u") == {"t": ("snapshot 8", "2", "border 2", True), "u": ("snapshot 4", "1", "border 1", True)}
    source = Source(monkeypatch, *({"t": str(i)} for i in range(2 * beginning.BEGIN_TRIES)))
    with pytest.raises(CopyRefused, match="table t was disabled or dropped at the source while"):
        source.begin("t")


def test_a_table_that_is_gone_at_each_look_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there when the tables were chosen, and there may be a snapshot of it between two looks."""
    source = Source(monkeypatch, *({"u": "1"} for _ in range(2 * beginning.BEGIN_TRIES)))
    with pytest.raises(CopyRefused, match="table t was disabled or dropped"):
        source.begin("t", "u")
    source = Source(monkeypatch, {}, {}, {"t": "1"}, {"t": "1"})
    assert source.begin("t") == {"t": ("snapshot 7", "1", "border 2", True)}


@pytest.mark.parametrize("at_peer_cluster", ["rows", "no rows", "no table"])
def test_a_table_of_another_life_is_begun_anew_only_if_the_peer_cluster_has_no_rows_of_the_earlier_one(
    monkeypatch: pytest.MonkeyPatch, at_peer_cluster: str
) -> None:
    monkeypatch.setattr(job.master, "table_schemas", lambda *_: {} if at_peer_cluster == "no table" else {"t": None})
    monkeypatch.setattr(job, "has_rows", lambda *_: at_peer_cluster == "rows")
    source = Source(monkeypatch, {"t": "2"}, {"t": "2"}, t=TableRecord("1", "first"))
    if at_peer_cluster == "rows":
        with pytest.raises(CopyRefused, match="table t was disabled at the source since its copy began"):
            source.begin("t")
    else:
        assert source.begin("t") == {"t": ("snapshot 3", "2", "border 1", True)}


def test_a_table_counts_as_whole_only_if_it_is_still_the_one_whose_copy_began(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: dict[str, TableRecord] = {}
    records: Any = SimpleNamespace(begin_table=noted.__setitem__)
    monkeypatch.setattr(job, "lives", lambda *_: {"done": "1", "begun": "1", "truncated": "2"})
    nothing: Any = None
    begun = [
        BegunTable(ChosenTable(name, (b"f", b"g"), pb.TableSchema()), "snapshot", TableRecord("1", "border"), fresh=False)
        for name in ("done", "begun", "truncated", "dropped")
    ]
    errors = job._Copy(nothing, nothing, nothing, nothing, nothing)._end_all(records, begun, {"begun"})
    assert noted == {"done": TableRecord("1", "border", whole=True, families=("f", "g"))}
    assert [error.partition(" was disabled at the source since")[0] for error in errors] == ["table truncated", "table dropped"]


def test_whoever_ships_the_peer_s_queues_is_waited_for_between_the_note_of_the_copy_and_its_border(monkeypatch):
    """Who begins after the note sees it; who began before is waited for."""
    reported: list[str] = []

    class Begun(Exception):
        """The copy has begun."""

    def begin_tables(*_: object) -> None:
        raise Begun

    records = SimpleNamespace(begin=lambda run: reported.append("note"), tables=list)
    monkeypatch.setattr(job, "Records", lambda *_: records)
    monkeypatch.setattr(job, "await_quiet", lambda *_: reported.append("quiet"))
    monkeypatch.setattr(job, "begin_tables", begin_tables)
    nothing: Any = None
    request: Any = SimpleNamespace(run_id="r")
    peer: Any = SimpleNamespace(id="p")
    with pytest.raises(Begun):
        job._Copy(nothing, peer, nothing, request, nothing).run([], nothing, nothing)
    assert reported == ["note", "quiet"]


def test_what_earlier_runs_have_left_of_tables_that_are_given_up_is_deleted_too(monkeypatch):
    """Their tasks may live on, and would have the peer cluster load what they have copied, over what is shipped by then."""
    deleted: list[RegionRecord] = []

    class Begun(Exception):
        """The copy has begun."""

    def begin_tables(*_: object) -> None:
        raise Begun

    records: Any = Kept()
    begun = RegionRecord(staging="hdfs://peer/staging/token")
    records.of_region["of a table that is not asked for any more"] = begun
    records.begin, records.tables = lambda run: None, lambda: ["given up"]
    monkeypatch.setattr(job, "Records", lambda *_: records)
    monkeypatch.setattr(job, "await_quiet", lambda *_: None)
    monkeypatch.setattr(job, "clean", lambda place, record, root, patience: deleted.append(record))
    monkeypatch.setattr(job, "begin_tables", begin_tables)
    peer_cluster: Any = SimpleNamespace(place=lambda table: None)
    nothing: Any = None
    request: Any = SimpleNamespace(run_id="r", source=SimpleNamespace(hbase_root="file:/x"))
    peer: Any = SimpleNamespace(id="p")
    with pytest.raises(Begun):
        job._Copy(nothing, peer, peer_cluster, request, nothing).run([], nothing, nothing)
    assert deleted == [begun]


@pytest.mark.parametrize("family", [b"f", "famille d'été".encode(), b"\xe9t\xe9", b"\xff", b"a,b"])
def test_edits_of_before_the_copy_are_left_out_whatever_bytes_a_family_s_name_has(monkeypatch, family):
    kept: dict[str, TableRecord] = {}
    monkeypatch.setattr(job, "lives", lambda *_: {"t": "17"})
    records = SimpleNamespace(begin_table=kept.__setitem__)
    begun = BegunTable(ChosenTable("t", (family,), pb.TableSchema()), "snapshot", TableRecord("17", "border"), fresh=True)
    copy = job._Copy(*[None] * 5)  # type: ignore[arg-type]
    assert copy._end_all(records, [begun], ()) == []  # type: ignore[arg-type]
    load = Load("run", {"rs%2C1%2C1": "rs%2C1%2C1.5"}, done=True, tables={"t": kept["t"].families}, initial_snapshot=True)
    read = decode(Load, encode(load))
    assert read is not None
    assert LoadedBefore([read]).families("rs%2C1%2C1.4", initial_snapshot=True) == {b"t": frozenset({family})}
