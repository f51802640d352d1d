"""Which files of two snapshots a range has, and what becomes of the snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.hbase.tables.test_snapshots import HFILE, manifest, region
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.files.errors import StoreError
from walferry.hbase.rpc.errors import RpcError
from walferry.verification import snapshots
from walferry.verification.job import TableRange
from walferry.verification.snapshots import with_files

ROOTS = ("hdfs://source/hbase", "hdfs://peer/hbase")
NOW_MS = int(time.time() * 1000)
OLD = f"walferry-verification-2-{NOW_MS - 90_000_000}-0"
FRESH = f"walferry-verification-2-{NOW_MS - 1000}-0"
OTHERS = ["walferry-verification-2-x-0", f"walferry-verification-22-{NOW_MS - 90_000_000}-0", "mine"]
FAMILY = {"VERSIONS": "3", "TTL": "forever"}
OURS = manifest(region(b"", b"m", {b"f": [HFILE], b"l": ["1"]}), region(b"m", b"", {b"f": [HFILE[::-1]]}))
THEIRS = manifest(region(b"", b"", {b"f": [HFILE]}))
PARTS = [TableRange("ns:t", (b"f",), b"", b"m"), TableRange("ns:t", (b"f",), b"m", b"")]


def schema(**attributes: str) -> pb.TableSchema:
    found = pb.TableSchema(table_name=pb.TableName(namespace=b"ns", qualifier=b"t"))
    found.column_families.add(
        name=b"f", attributes=[pb.BytesBytesPair(first=k.encode(), second=v.encode()) for k, v in (FAMILY | attributes).items()]
    )
    return found


def scanned(why: str) -> list[TableRange]:
    return [replace(part, why_scanned=why) for part in PARTS]


class Clusters:
    """Two clusters whose Masters know snapshots."""

    def __init__(self) -> None:
        self.snapshots: dict[str, list[str]] = {root: [OLD, FRESH, *OTHERS] for root in ROOTS}
        self.schemas = {root: schema() for root in ROOTS}
        self.refusing = ""
        self.said: list[str] = []
        self.listed: list[str] = []

    def take(self, root: str, name: str, table: str, kept_seconds: int) -> None:
        assert kept_seconds == snapshots.KEPT_SECONDS
        if root == self.refusing:
            raise RpcError("rs1:16000: no right to take a snapshot")
        assert table == "ns:t"
        self.snapshots[root].append(name)

    def delete(self, root: str, name: str) -> None:
        self.snapshots[root] = [each for each in self.snapshots[root] if each != name]

    def compare(self, parts: list[TableRange] = PARTS) -> list[TableRange]:
        sides: list[Any] = [
            SimpleNamespace(zk=None, nodes=None, login=SimpleNamespace(kerberos=None, root=root)) for root in ROOTS
        ]
        with with_files(parts, sides[0], ROOTS[0], sides[1], "2", self.said.append) as found:
            self.meanwhile = {
                root: [name for name in names if name not in (OLD, FRESH, *OTHERS)] for root, names in self.snapshots.items()
            }
            return list(found)


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    world = Clusters()

    def patched(name: str, call: Callable[..., Any]) -> None:
        monkeypatch.setattr(snapshots.master, name, call)

    monkeypatch.setattr(snapshots, "active_master", lambda *_: None)
    monkeypatch.setattr(snapshots, "_root_of", lambda *_: ROOTS[1])
    monkeypatch.setattr(snapshots, "list_folder", lambda folder, _: world.listed.append(folder))
    monkeypatch.setattr(snapshots, "read_manifest", lambda root, *_: dict(zip(ROOTS, (OURS, THEIRS), strict=True))[root])
    patched("connect", lambda _, login: nullcontext(login.root))
    patched("table_schemas", lambda root, tables: {name: world.schemas[root] for name in tables if root in world.schemas})
    patched("completed_snapshots", lambda root: list(world.snapshots[root]))
    patched("delete_snapshot", lambda root, name: world.delete(root, name))
    patched("take_snapshot", world.take)
    return world


def test_each_range_has_the_files_of_the_regions_that_it_meets_on_both_sides(clusters: Clusters) -> None:
    first, second = clusters.compare()
    assert clusters.said == []
    for part, start in ((first, b""), (second, b"m")):
        assert part.files is not None
        assert (part.files.source.root, part.files.peer_cluster.root) == ROOTS
        assert [each.start for each in part.files.source.regions] == [start]
        assert [each.start for each in part.files.peer_cluster.regions] == [b""]
        assert [file.family for each in part.files.source.regions for file in each.files] == [b"f"]


def test_the_snapshots_last_as_long_as_the_comparison_and_old_ones_of_killed_runs_go_with_them(clusters: Clusters) -> None:
    clusters.compare()
    assert [len(names) for names in clusters.meanwhile.values()] == [1, 1]
    assert list(clusters.snapshots.values()) == [[FRESH, *OTHERS]] * 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"VERSIONS": "1"}, "VERSIONS of family f is 1 and 3"),
        ({"TTL": "86400"}, "TTL of family f is 86400 and FOREVER"),
        ({"KEEP_DELETED_CELLS": "TTL"}, "KEEP_DELETED_CELLS of family f is FALSE and TTL"),
        ({"IS_MOB": "true"}, "IS_MOB of family f is FALSE and TRUE"),
    ],
)
def test_families_by_which_equal_cells_can_be_different_rows_are_scanned(
    clusters: Clusters, change: dict[str, str], why: str
) -> None:
    clusters.schemas[ROOTS[1]] = schema(**change)
    assert clusters.compare() == scanned(why)
    assert clusters.said == [f"table ns:t is scanned: {why}"]
    assert list(clusters.meanwhile.values()) == [[], []]


@pytest.mark.parametrize("attribute", ["NEW_VERSION_BEHAVIOR", "IS_MOB"])
def test_families_whose_files_do_not_tell_all_are_scanned(clusters: Clusters, attribute: str) -> None:
    for root in ROOTS:
        clusters.schemas[root] = schema(**{attribute: "true"})
    why = "family f has NEW_VERSION_BEHAVIOR or MOB files"
    assert clusters.compare() == scanned(why)
    assert why in clusters.said[0]


@pytest.mark.parametrize("refusing", ROOTS)
def test_a_cluster_that_takes_no_snapshot_is_scanned_and_the_other_one_s_is_deleted(clusters: Clusters, refusing: str) -> None:
    clusters.refusing = refusing
    assert clusters.compare() == scanned("rs1:16000: no right to take a snapshot")
    assert clusters.said == ["table ns:t is scanned: rs1:16000: no right to take a snapshot"]
    assert list(clusters.snapshots.values()) == [[FRESH, *OTHERS]] * 2


def test_a_table_that_has_just_been_dropped_is_left_to_scans(clusters: Clusters) -> None:
    del clusters.schemas[ROOTS[1]]
    assert clusters.compare() == scanned("it has just been dropped")
    assert clusters.compare([]) == []


def test_nothing_is_flushed_if_the_folders_may_not_be_read(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(folder: str, _: object) -> None:
        raise StoreError(f"{folder}: Permission denied")

    monkeypatch.setattr(snapshots, "list_folder", denied)
    why = "hdfs://source/hbase/.hbase-snapshot: Permission denied"
    assert clusters.compare() == scanned(why)
    assert clusters.said == [f"all tables are scanned: {why}"]
    assert list(clusters.meanwhile.values()) == [[], []]


def test_a_job_with_too_many_files_for_spark_scans_the_last_tables(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MOST_FILES", 3)
    assert clusters.compare() == scanned("there are more than 3 files to compare; name fewer tables")
