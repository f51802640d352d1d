"""A task of a batch for a lake, over a WAL in a local folder. The session with ZooKeeper is a stand-in that says nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.unit.hbase.wal.encoder import Entry, encode_wal
from tests.unit.replication.sinks.iceberg.lake import catalog_in, entry, put
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.files.quarantine import BrokenWals
from walferry.hbase.files.store import WalStore
from walferry.hbase.names import parse_wal_name
from walferry.load.earlier_loads import NOTHING_LOADED
from walferry.replication.filters.rules import FilterRules
from walferry.replication.queues.queue import QueuedWal
from walferry.replication.sinks.iceberg import data_files
from walferry.replication.sinks.iceberg.commits import Position
from walferry.replication.sinks.iceberg.data_files import DataFiles, Target
from walferry.replication.sinks.iceberg.tables import table_of
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.candidates import Candidate
from walferry.shipping.group_job import GroupJob
from walferry.shipping.lake import reading
from walferry.shipping.lake.reading import LakeGroup, LakeJob, read_lake_group

SERVER, GROUP = "rs1,16020,1", "rs1%2C16020%2C1"
WAL = f"{GROUP}.1700000000000"


class Site:
    """A source with one WAL, and a lake."""

    def __init__(self, folder: Path) -> None:
        self.wals = folder / "hbase" / "WALs" / SERVER
        self.wals.mkdir(parents=True)
        (folder / "quarantine").mkdir()
        self.source = SourceCluster(
            quorum="zk:2181", wal_root=f"file://{folder}/hbase", quarantine=f"file://{folder}/quarantine"
        )  # fmt: skip
        self.catalog: SqlCatalog = catalog_in(folder)
        self.session = SimpleNamespace(store=WalStore(self.source.wal_root, look_only=True), source=self.source)

    def write(self, entries: Sequence[Entry], data: bytes | None = None) -> None:
        (self.wals / WAL).write_bytes(encode_wal(entries) if data is None else data)

    def targets(self, *names: str) -> dict[str, Target]:
        return {name: Target.of(table_of(self.catalog, ("default", f"{name}_changes"))) for name in names}

    def read(
        self,
        *tables: str,
        behind: Mapping[str, Position] | None = None,
        policy: BrokenWals = BrokenWals.STOP,
        live: bool = True,
        refused: Mapping[str, str] | None = None,
    ) -> LakeGroup:
        job = GroupJob(
            source=self.source, peer_id="p", run_id="r", deadline=time.time() + 60, group=GROUP, holder="h", broken_wals=policy
        )  # fmt: skip
        wal = Candidate(QueuedWal(parse_wal_name(WAL), f"/q/{WAL}", 0), live, ())
        rules = FilterRules(UUID(int=5), UUID(int=6))
        lake_job = LakeJob(
            job=job, server=SERVER, queue_id="p", queued=1, wals=(wal,), rules=rules, behind=behind or {}, refused=refused or {},
            peer_cluster="lake",
        )  # fmt: skip
        return LakeGroup.from_json(read_lake_group(self.targets(*tables), {}, lake_job).to_json())


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    site = Site(tmp_path)

    @contextmanager
    def no_zookeeper(source: SourceCluster) -> Iterator[Any]:
        yield site.session

    monkeypatch.setattr(reading, "open_session", no_zookeeper)
    monkeypatch.setattr(reading, "initial_snapshots", lambda *_: NOTHING_LOADED)
    monkeypatch.setattr(reading, "permission_for", lambda *_: None)
    monkeypatch.setattr(reading, "why_stopped", lambda *_: None)
    monkeypatch.setattr(reading, "write_group", lambda *_: None)
    logging.disable(logging.CRITICAL)
    yield site
    logging.disable(logging.NOTSET)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry is a WAL batch of its own."""
    read = reading.QueuedWals.batches

    def batches(self: Any, wal: int) -> Iterator[Any]:
        for batch, path in read(self, wal):
            for number in range(len(batch.index)):
                yield batch.chosen(slice(number, number + 1)), path

    monkeypatch.setattr(reading.QueuedWals, "batches", batches)


def rows(found: LakeGroup) -> int:
    return sum(file.rows for file in found.files)


def status(found: LakeGroup) -> tuple[Status, str]:
    summary = GroupSummary.from_json(found.summary)
    return summary.status, summary.error or ""


def test_a_wal_is_read_to_its_end(site: Site) -> None:
    site.write([entry(put(b"r%d" % n)) for n in range(5)])
    found = site.read("t")
    assert status(found) == (Status.DONE, "")
    assert (found.wals, rows(found)) == (1, 5)
    assert found.ends == {"0": len(encode_wal([entry(put(b"r0"))] * 5)) - 8}


def test_what_a_table_already_has_is_left_out(site: Site) -> None:
    site.write([entry(put(b"r%d" % n)) for n in range(5)])
    start = len(encode_wal([entry(put(b"r0"))] * 3)) - 8
    assert rows(site.read("t", behind={"t": (WAL, start)})) == 2
    assert rows(site.read("t", behind={"t": (f"{GROUP}.1700000000001", 0)})) == 0
    assert rows(site.read("t", behind={"t": (f"{GROUP}.1600000000000", 10**9)})) == 5


def test_tables_that_nobody_knew_are_named_and_nothing_else_counts(site: Site) -> None:
    site.write([entry(put(b"a")), entry(put(b"b"), table=b"ns:new"), entry(put(b"c"))])
    found = site.read("t")
    assert (found.unknown, found.wals, found.offset, found.files, found.ends) == (["ns:new"], 0, 0, [], {})


def test_a_table_that_is_no_name_ends_the_reading_before_it_and_tables_met_before_are_not_forgotten(
    site: Site, one_by_one: None
) -> None:
    size = len(encode_wal([entry(put(b"a"))])) - len(encode_wal([]))
    site.write([entry(put(b"a")), entry(put(b"b"), table=b"new"), entry(put(b"c"), table=b"new/../x")])
    assert site.read("t").unknown == ["new"]
    found = site.read("t", "new")
    assert found.unknown == []
    assert status(found)[0] is Status.FAILED
    assert "new/../x is not the name of a table" in status(found)[1]
    assert rows(found) == 2
    assert found.offset > size


@pytest.mark.parametrize("failing", [1, 2])
def test_a_file_that_cannot_be_written_leaves_nothing_that_counts(
    site: Site, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    site.write([entry(put(b"%05d" % n, b"x" * 500), table=b"tu"[n % 2 : n % 2 + 1]) for n in range(40)])
    monkeypatch.setattr(reading, "DataFiles", lambda targets: DataFiles(targets, memory_bytes=5000))
    changes_of = reading.changes_of
    monkeypatch.setattr(reading, "changes_of", lambda *given: changes_of(*given, batch_bytes=2000))
    write, calls = data_files.write_file, list[int]()

    def flaky(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == failing:
            raise OSError("No space left on device")
        return write(*given)

    monkeypatch.setattr(data_files, "write_file", flaky)
    found = site.read("t", "u")
    assert (found.wals, found.offset, found.files, found.ends) == (0, 0, [], {})
    assert status(found)[0] is Status.FAILED
    assert "No space left on device" in status(found)[1]


def test_with_many_files_a_task_stops_and_says_that_there_is_more(
    site: Site, one_by_one: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_FILES", 2)
    entries = [entry(put(b"r"), write_time=day * 86_400_000) for day in range(9)]
    site.write(entries)
    found = site.read("t")
    assert (found.more, found.wals, len(found.files)) == (True, 0, 3)
    assert found.offset == len(encode_wal(entries[:3])) - 8


def test_write_times_of_too_many_days_stop_the_group(site: Site) -> None:
    site.write([entry(put(b"r"), write_time=day * 86_400_000) for day in range(reading.MOST_DAYS + 1)])
    found = site.read("t")
    assert status(found)[0] is Status.FAILED
    assert f"were written on {reading.MOST_DAYS + 1} days" in status(found)[1]
    assert (found.offset, found.files) == (0, [])


def test_cells_with_labels_stop_the_group_before_them(site: Site) -> None:
    labelled = put(b"b")
    labelled = type(labelled)(b"b", b"f", b"q", 1, 4, b"v", b"\x00\x02\x02\x01")
    site.write([entry(put(b"a")), entry(labelled), entry(put(b"c"))])
    found = site.read("t")
    assert status(found)[0] is Status.FAILED
    assert "it has visibility labels, which nobody there heeds" in status(found)[1]
    assert rows(found) == 1


@pytest.mark.parametrize("policy", [BrokenWals.STOP, BrokenWals.QUARANTINE])
def test_of_two_broken_entries_those_before_the_first_one_are_taken(site: Site, policy: BrokenWals) -> None:
    """A wrong region name is found by another check than wrong scopes, and later."""
    entries = [entry(put(b"%02d" % n)) for n in range(12)]
    entries[5].key.encoded_region_name = b"\xff\xfe" * 16
    entries[10].key.scopes[0].family = b"\xff" * 3
    data = encode_wal(entries).replace(b"\x0a\x03\xff\xff\xff", b"\x0a\x7f\xff\xff\xff")
    site.write(entries, data)
    found = site.read("t", policy=policy)
    assert rows(found) == 5
    assert (found.wals == 1) == (policy is BrokenWals.QUARANTINE)


def test_a_table_that_is_refused_stops_the_group_at_its_first_edit(site: Site) -> None:
    site.write([entry(put(b"a")), entry(put(b"b"), table=b"u"), entry(put(b"c"))])
    found = site.read("t", refused={"u": "it has other columns"})
    assert status(found)[0] is Status.FAILED
    assert "it has other columns" in status(found)[1]
    assert rows(found) == 1


def test_only_what_was_added_counts_as_shipped(site: Site) -> None:
    site.write([entry(put(b"r%d" % n)) for n in range(5)])
    start = len(encode_wal([entry(put(b"r0"))] * 3)) - 8
    summary = GroupSummary.from_json(site.read("t", behind={"t": (WAL, start)}).summary)
    assert (summary.shippedOps, summary.shippedCells) == (2, 2)
    assert summary.logEditsRead == 5


def test_secrets_of_the_catalog_do_not_travel_to_tasks(site: Site) -> None:
    (target,) = site.targets("t").values()
    assert target.properties == {}
    assert "sqlite" not in repr(target)
