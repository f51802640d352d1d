"""A region is loaded as it lies at the peer cluster now: whole, in parts after a split, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.hfiles.models import numbered, split_run
from tests.unit.hbase.wal.encoder import PUT, Cell
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.shipping.bulkload.jobs import SERVER, job, targets
from walferry.hbase.rpc.errors import ConnectionFailed, RemoteError, RpcTimeout
from walferry.hbase.tables.errors import RegionUnavailable
from walferry.hbase.tables.regions import Region
from walferry.load import file_loader
from walferry.load.errors import NotLoaded
from walferry.load.file_loader import TRIES
from walferry.shipping.bulkload import loading
from walferry.shipping.bulkload.job import PlannedRegion
from walferry.shipping.bulkload.loading import Loaded, RegionLoader, TooLate
from walferry.shipping.bulkload.region_files import RegionFiles

PLANNED = PlannedRegion(b"t", targets(b"t").tables[b"t"].regions[1])  # from m on
ROWS = [b"m", b"n", b"p", b"q", b"s", b"z"]


def regions(*starts: bytes, end: bytes = b"") -> list[Region]:
    ends = [*starts[1:], end]
    return [Region(b"t,%s,1.%s." % (start, start or b"x"), start, stop, SERVER) for start, stop in zip(starts, ends, strict=True)]


def run_of(rows: Sequence[bytes]) -> MemoryFile:
    return MemoryFile(b"".join(numbered(Cell(row, b"f", b"q", 1, PUT, b"v"), 1) for row in rows))


class PeerCluster:
    """Has regions, which may change between two looks."""

    def __init__(self, *looks: list[Region] | Exception) -> None:
        self.looks = list(looks)

    def place(self, table: str) -> Any:
        return SimpleNamespace(locate=self.locate)

    def locate(self, row: bytes) -> Region:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return next(region for region in look if region.has(row))


Load = Callable[..., tuple[Loaded, list[tuple[bytes, list[bytes]]]]]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """`load(peer_cluster, rows, *errors)` → what was loaded, and the rows of each part by its region's start."""
    monkeypatch.setattr(file_loader.Patience, "wait", lambda patience: True)

    def load(peer_cluster: PeerCluster, rows: Sequence[bytes] = ROWS, *errors: Exception | None, **fields: Any) -> Any:
        parts: list[tuple[bytes, list[bytes]]] = []
        left = list(errors)

        def load_part(self: RegionLoader, planned: PlannedRegion, target: Region, at: bytes, runs: Any, _: object) -> list[Any]:
            if left and (error := left.pop(0)) is not None:
                raise error
            between = [run for some in runs.values() for run in loading._between(some, planned.region, at, target.end)]
            cells = [cell.row for run in between for cell, _, _ in split_run(bytes(run.read_at(0, run.size)))]
            parts.append((target.start, cells))
            return [SimpleNamespace(end=SimpleNamespace(size=10), cells=len(cells))] if cells else []

        monkeypatch.setattr(RegionLoader, "_load_part", load_part)
        loader = RegionLoader(job(targets(b"t"), **fields), None, peer_cluster)  # type: ignore[arg-type]
        return loader.load(PLANNED, {b"f": [run_of(rows[::2]), run_of(rows[1::2])]}, RegionFiles()), parts

    return load


def test_a_region_that_is_as_it_was_is_loaded_at_once(load: Load) -> None:
    loaded, parts = load(PeerCluster(regions(b"", b"m")))
    assert (loaded, parts) == (Loaded(1, 10, 6), [(b"m", [b"m", b"p", b"s", b"n", b"q", b"z"])])


def test_a_region_that_was_merged_takes_the_same_rows(load: Load) -> None:
    assert load(PeerCluster(regions(b"")))[1] == [(b"", [b"m", b"p", b"s", b"n", b"q", b"z"])]


def test_a_region_that_was_split_is_loaded_part_by_part(load: Load) -> None:
    loaded, parts = load(PeerCluster(regions(b"", b"m", b"p", b"t")))
    assert parts == [(b"m", [b"m", b"n"]), (b"p", [b"p", b"s", b"q"]), (b"t", [b"z"])]
    assert loaded == Loaded(3, 30, 6)


def test_a_region_may_be_split_while_its_parts_are_loaded(load: Load) -> None:
    _, parts = load(PeerCluster(regions(b"", b"m", b"q"), regions(b"", b"m", b"q", b"s", b"t")))
    assert parts == [(b"m", [b"m", b"p", b"n"]), (b"q", [b"q"]), (b"s", [b"s"]), (b"t", [b"z"])]


def test_a_part_that_fails_is_loaded_again_from_where_it_begins(load: Load) -> None:
    errors = [None, ConnectionFailed("rs", "refused"), NotLoaded("no"), RpcTimeout("rs", "BulkLoadHFile", 9), None]
    _, parts = load(PeerCluster(regions(b"", b"m", b"q")), ROWS, *errors)
    assert parts == [(b"m", [b"m", b"p", b"n"]), (b"q", [b"s", b"q", b"z"])]


def test_a_region_that_nobody_has_is_waited_for(load: Load) -> None:
    assert len(load(PeerCluster(RegionUnavailable("moving"), regions(b"", b"m")))[1]) == 1


def test_files_that_the_peer_cluster_does_not_load_are_not_written_for_ever(load: Load) -> None:
    assert len(load(PeerCluster(regions(b"", b"m")), ROWS, *[NotLoaded("no")] * (TRIES - 1))[1]) == 1
    with pytest.raises(NotLoaded):
        load(PeerCluster(regions(b"", b"m")), ROWS, *[NotLoaded("no")] * TRIES)


def test_what_the_peer_cluster_refuses_for_good_is_not_tried_again(load: Load) -> None:
    with pytest.raises(RemoteError):
        load(PeerCluster(regions(b"", b"m")), ROWS, RemoteError("rs", "x.DoNotRetry", "no", do_not_retry=True))


def test_nothing_is_loaded_after_the_deadline(load: Load) -> None:
    with pytest.raises(TooLate, match="region t-1"):
        load(PeerCluster(regions(b"", b"m")), deadline=0.0)


@given(
    st.sets(st.sampled_from([b"", b"a", b"m", b"mm", b"n", b"o", b"q", b"z", b"zz"])), st.lists(st.sampled_from(ROWS), max_size=8)
)
def test_however_a_region_is_split_each_cell_goes_into_one_part(starts: set[bytes], rows: list[bytes]) -> None:
    now = regions(*sorted(starts | {b""}))
    run, at, found = run_of(sorted(rows)), b"m", list[bytes]()
    while True:
        target = next(region for region in now if region.has(at))
        (part,) = loading._between([run], PLANNED.region, at, target.end)
        mine = [cell.row for cell, _, _ in split_run(bytes(part.read_at(0, part.size)))]
        assert all(target.has(row) for row in mine)
        found += mine
        if not target.end:
            break
        at = target.end
    assert found == sorted(rows)
