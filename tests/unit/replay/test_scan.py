"""The edits of an interval in one WAL: by table, and by the times that its server had each region."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from tests.growth import LINEAR, growth
from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, encode_wal, entry
from tests.unit.replay.wal_batches import stay
from walferry.hbase.files.listing import WalFile, WalPlace
from walferry.hbase.files.store import WalStore
from walferry.hbase.names import parse_wal_name
from walferry.hbase.wal.errors import WalTruncatedError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replay.holes import IntervalGone
from walferry.replay.interval import Interval
from walferry.replay.scan import IntervalScan, Scanned, Stay, TableCount, scan_wal
from walferry.replay.store import StoreWithArchive, begins_with_opening
from walferry.replication.filters.rules import FilterRules, Reason
from walferry.replication.retention.archive import WalArchive
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping import closed_wal

NAME = "h%2C1%2C1.5"
RULES = FilterRules(UUID(int=1), UUID(int=2))
ALL = Interval(0, 1000)
REGIONS = [b"a" * 32, b"b" * 32]


def edit(region: int, number: int, written: int, table: bytes = b"t", family: bytes = b"f") -> Entry:
    made = entry(
        Cell(b"r", family, b"q", 1, PUT, b"v" * 10), region=REGIONS[region], table=table, sequence_id=number, write_time=written
    )
    made.key.scopes.add(family=b"f", scope_type=1)
    return made


def event(region: int, number: int, written: int, what: bytes = b"HBASE::REGION_EVENT::REGION_OPEN") -> Entry:
    cell = Cell(b"r", b"METAFAMILY", what, 1, PUT, b"")
    return entry(cell, region=REGIONS[region], table=b"t", sequence_id=number, write_time=written)


def wal_of(folder: Path, data: bytes) -> tuple[WalStore, WalFile]:
    (folder / "oldWALs").mkdir(exist_ok=True)
    file = folder / "oldWALs" / NAME
    file.write_bytes(data)
    store = StoreWithArchive(SourceCluster(quorum="", wal_root=f"file://{folder}"))
    return store, WalFile(parse_wal_name(NAME), f"file://{file}", len(data), None, WalPlace.OLD)


def scanned(folder: Path, *entries: Entry, interval: Interval = ALL, rules: FilterRules = RULES) -> Scanned:
    return scan_wal(*wal_of(folder, encode_wal(entries)), interval, rules, None, ends_torn=False)


def test_only_the_interval_s_edits_that_the_peer_gets_are_counted(tmp_path: Path):
    found = scanned(
        tmp_path, edit(0, 1, 9), edit(0, 2, 10), edit(1, 1, 15, b"ns:u"), edit(0, 3, 12, family=b"l"), edit(0, 4, 19),
        edit(0, 5, 20), interval=Interval(10, 20),
    )  # fmt: skip
    size = len(edit(0, 1, 1).cell_bytes())
    assert found.tables == {"t": TableCount(2, 2, 2 * size), "ns:u": TableCount(1, 1, size)}
    assert sorted((first, last) for _, first, last in found.stays) == [(1, 1), (2, 4)]


def test_edits_that_are_older_than_the_initial_snapshot_of_their_table_are_not_the_peer_s(tmp_path: Path):
    rules = RULES.without_copied({b"t": frozenset({b"f"})})
    found = scanned(tmp_path, edit(0, 1, 9), edit(0, 2, 9), edit(1, 1, 9, b"u"), edit(0, 3, 9, family=b"l"), rules=rules)
    assert (found.before_copy, set(found.tables), len(found.stays)) == (2, {"u"}, 1)


def test_a_region_s_stays_are_divided_by_its_openings_and_closings(tmp_path: Path):
    closing = event(0, 4, 1, b"HBASE::REGION_EVENT::REGION_CLOSE")
    away = [event(0, 1, 1), edit(0, 2, 1), edit(0, 3, 1), closing]
    found = scanned(tmp_path, *away, event(0, 9, 1), edit(0, 10, 1), edit(1, 7, 1))
    regions = {region for region, *_ in found.stays}
    assert len(regions) == 2
    assert sorted((first, last) for _, first, last in found.stays) == [(2, 3), (7, 7), (10, 10)]
    assert all(isinstance(each, Stay) for each in found.stays)


@pytest.mark.slow
def test_very_many_regions_that_open_take_time_in_proportion():
    def scanned_of(count: int) -> Callable[[], None]:
        regions = np.repeat(np.arange(count, dtype=np.uint64), 2)
        index = SimpleNamespace(
            region_hash=regions, sequence_id=np.arange(2 * count), table_start=np.zeros(2 * count, np.int64),
            table_len=np.ones(2 * count, np.int64),
        )  # fmt: skip
        kept = SimpleNamespace(
            cells=np.tile([0, 1], count), size=np.tile([0, 9], count),
            reason=np.tile([int(Reason.REGION_EVENT), int(Reason.SHIPPED)], count),
        )  # fmt: skip
        index = type("Index", (SimpleNamespace,), {"__len__": lambda self: 2 * count})(**vars(index))
        batch = SimpleNamespace(index=index, buf=np.frombuffer(b"t", np.uint8))

        def scan() -> None:
            found = IntervalScan()
            found.add(batch, kept)  # type: ignore[arg-type]
            assert len(found.result().stays) == count

        return scan

    assert growth(scanned_of, 100_000) < LINEAR


def test_a_wal_that_was_cut_off_ends_there_only_if_it_may(tmp_path: Path):
    store, wal = wal_of(tmp_path, encode_wal([edit(0, 1, 1), edit(0, 2, 1)], trailer=b"")[:-5])
    assert scan_wal(store, wal, Interval(0, 9), RULES, None, ends_torn=True).tables["t"].edits == 1
    with pytest.raises(WalTruncatedError):
        scan_wal(store, wal, Interval(0, 9), RULES, None, ends_torn=False)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([event(0, 1, 1), edit(0, 2, 1)], True),
        ([event(0, 1, 1, b"HBASE::REGION_EVENT")], True),
        ([edit(0, 2, 1), event(0, 1, 1)], False),
        ([event(0, 1, 1, b"HBASE::FLUSH")], False),
        ([], None),
    ],
    ids=["opening", "of HBase 1", "edit", "flush", "none"],
)
def test_a_server_s_first_wal_begins_with_the_opening_of_a_region(tmp_path: Path, entries: list[Entry], expected: bool | None):
    assert begins_with_opening(*wal_of(tmp_path, encode_wal(entries)), None) is expected


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("to", ["archive", "nowhere"])
def test_a_wal_that_moves_while_it_is_read_is_counted_once_and_one_that_is_gone_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, to: str
) -> None:
    """The file system says at the next read that there is no such file. Each batch has one entry."""
    edits = [edit(0, number, 1) for number in range(4)]
    _, wal = wal_of(tmp_path, encode_wal(edits))
    archive = f"file://{tmp_path}/archive"
    store = StoreWithArchive(SourceCluster(quorum="", wal_root=f"file://{tmp_path}", archive=archive))
    file, copy = (Path(url.removeprefix("file://")) for url in (wal.url, WalArchive(archive).url_of(wal.name)))
    copy.parent.mkdir(parents=True)
    read = closed_wal.read_wal_batches

    def one_by_one(*arguments: Any, **options: Any) -> Iterator[WalBatch]:
        for number, batch in enumerate(read(*arguments, wal_batch_bytes=1, **options)):
            if number == after and file.exists():
                file.rename(copy) if to == "archive" else file.unlink()
                raise FileNotFoundError(file)
            yield batch

    monkeypatch.setattr(closed_wal, "read_wal_batches", one_by_one)
    if to == "nowhere":
        with pytest.raises(IntervalGone):
            scan_wal(store, wal, ALL, RULES, None, ends_torn=False)
    else:
        found = scan_wal(store, wal, ALL, RULES, None, ends_torn=False)
        assert found.tables["t"].edits == 4
        assert [(first, last) for _, first, last in found.stays] == [(0, 3)]


def test_what_was_scanned_travels_as_json_with_hashes_of_64_bits() -> None:
    stays = [stay((1 << 64) - 1, 0, (1 << 63) - 1), stay(0, 5, 6)]
    found = Scanned({"ns:t": TableCount(1, 2, 3)}, stays, 1, "")
    assert Scanned.from_json(found.to_json()) == found
    assert Scanned.from_json(Scanned(error="gone").to_json()).error == "gone"
    for change in (('"0000000000000000", 5', "0, 5"), ('"0000000000000000", 5', '"x", 5'), ('"cells": 2', '"cells": "2"')):
        with pytest.raises(ValueError):  # noqa: PT011
            Scanned.from_json(found.to_json().replace(*change))
