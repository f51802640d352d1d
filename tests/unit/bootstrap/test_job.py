"""Which regions a later run of a first copy leaves to the one before it, and which tables count as empty."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.bootstrap import job, targets
from walferry.bootstrap.choice import ChosenTable
from walferry.bootstrap.manifest import SnapshotRegion
from walferry.bootstrap.records import RegionRecord, Way
from walferry.bootstrap.region_copy import RegionTask
from walferry.bootstrap.targets import MadeTarget
from walferry.protos import hbase_pb2 as pb

REGION = SnapshotRegion("t", "abc", b"", b"", ())
COPIED = RegionRecord(Way.FILES, families=(b"f".hex(),))


class Kept:
    """Records in memory."""

    def __init__(self) -> None:
        self.of_region = {"abc": COPIED}

    def begin_table(self, table: str) -> None:
        return

    def begin_table_anew(self, table: str) -> None:
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
    ("made", "has_rows", "left"), [(False, lambda *_: True, 0), (False, lambda *_: False, 1), (True, no_look, 1)]
)
def test_regions_count_as_copied_only_while_their_table_at_the_slave_has_rows(monkeypatch, made, has_rows, left):
    """The refusal of a table that is not empty says to drop or truncate it, also between two runs of one copy."""
    monkeypatch.setattr(job, "read_manifest", lambda *_: None)
    monkeypatch.setattr(job, "regions_of", lambda *_: [REGION])
    monkeypatch.setattr(job, "active_master", lambda *_: None)
    monkeypatch.setattr(job.master, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(job, "make_target", lambda *_: MadeTarget(made))
    monkeypatch.setattr(job, "has_rows", has_rows)
    slave: Any = SimpleNamespace(zk=None, nodes=None, login=None)
    request: Any = SimpleNamespace(source=SimpleNamespace(login=None, root_dir="file:/x", wal_root=""), say=print)
    records: Any = Kept()
    chosen = ChosenTable("t", (b"f",), pb.TableSchema())
    tasks = job._Copy(None, None, slave, request, SimpleNamespace(attempt="a"))._begin(records, chosen, lambda table: "snapshot")  # type: ignore[arg-type]
    assert len(list(job._Done(records, tasks).left())) == left


def test_what_earlier_tries_have_left_is_deleted_even_if_the_region_was_split_since(monkeypatch):
    """Otherwise a task of a run that was overtaken could still have the slave load files from there."""
    deleted: list[RegionRecord] = []
    monkeypatch.setattr(job, "clean", lambda place, record, root: deleted.append(record))
    records: Any = Kept()
    begun = RegionRecord(staging="hdfs://slave/staging/token")
    records.of_region["of a region that was split"] = begun
    slave: Any = SimpleNamespace(place=lambda table: None)
    nothing: Any = None
    request: Any = SimpleNamespace(source=SimpleNamespace(root_dir="file:/x", wal_root=""))
    job._Copy(nothing, nothing, slave, request, nothing)._clean(records, "t")
    assert deleted == [begun]
    assert records.of_region == {"abc": COPIED}


def test_delete_markers_count_as_rows(monkeypatch):
    """They would hide rows of the copy that are older."""

    class Tables:
        def scan(self, table: str, spec: Any) -> list[list[str]]:
            return [["a delete marker"]] if spec.raw else []

    has_rows = targets.has_rows
    assert has_rows(Tables(), "t")  # type: ignore[arg-type]
