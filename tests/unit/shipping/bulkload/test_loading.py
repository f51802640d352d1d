"""Partitions read all notes before they load, and report each region's outcome."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.shipping.bulkload.jobs import job, targets
from walferry.base.zk.errors import ConnectError
from walferry.hbase.hfiles.errors import TooManyRuns
from walferry.hbase.rpc.errors import ConnectionFailed, RemoteError
from walferry.hbase.tables.errors import MissingTable
from walferry.jobs.connect.connect_job import MAX_TEXT_CHARS
from walferry.load.errors import LoadOvertaken, NotLoaded, reason_of
from walferry.shipping.bulkload import loading
from walferry.shipping.bulkload.job import LoadJob, PlannedRegion
from walferry.shipping.bulkload.loading import Loaded, PartitionOutcome, Runs, load_partition
from walferry.shipping.bulkload.rows import NOTE, REPORT, Note, ShuffleRow, WalReport

T, U = (0, 1), (2, 3)  # regions of tables t and u


class Loader:
    """Notes what it is given to load, and fails as it is told."""

    def __init__(self, errors: dict[int, Exception]) -> None:
        self.errors = errors
        self.loaded: dict[int, list[bytes]] = {}

    def load(self, planned: PlannedRegion, runs: Runs) -> Loaded:
        number = job().regions.index(planned)
        if error := self.errors.get(number):
            raise error
        self.loaded[number] = [bytes(run.read_at(0, run.size)) for some in runs.values() for run in some]
        return Loaded(1, 10, 1)


Load = Callable[..., tuple[list[PartitionOutcome], Loader]]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """`load(rows)` → the outcomes, and the loader. One region is loaded at a time, the one with most bytes first."""

    def load(rows: list[ShuffleRow], errors: dict[int, Exception] | None = None, away: Exception | None = None) -> Any:
        loader = Loader(errors or {})

        @contextmanager
        def loaders(job: LoadJob, count: int) -> Iterator[queue.SimpleQueue[Loader]]:
            if away is not None:
                raise away
            one: queue.SimpleQueue[Loader] = queue.SimpleQueue()
            one.put(loader)
            yield one

        monkeypatch.setattr(loading, "_loaders", loaders)
        return list(load_partition(rows, job(targets(b"t", b"u")))), loader

    return load


def run(region: int, wal: int = 0, size: int = 1) -> ShuffleRow:
    return ShuffleRow(0, region, 0, wal, 0, memoryview(bytes([wal]) * size))


def note(**fields: Any) -> ShuffleRow:
    return ShuffleRow(0, NOTE, 0, 0, 0, memoryview(Note(**fields).to_json().encode()))


def errors_of(outcomes: list[PartitionOutcome]) -> dict[str, str]:
    return {outcome.region: outcome.error for outcome in outcomes if outcome.region}


def test_a_note_that_comes_last_counts_for_all(load: Load) -> None:
    rows = [run(0, wal) for wal in range(4)] + [run(2), note(first=1, end=3, error="broken"), note(unfit={"u": "labels"})]
    outcomes, loader = load(rows)
    assert loader.loaded == {0: [b"\0", b"\3"]}
    assert errors_of(outcomes) == {"t-0": ""}
    assert [Note.from_json(text).error for outcome in outcomes for text in outcome.notes] == ["broken", ""]


def test_a_note_without_a_reason_counts_too(load: Load) -> None:
    _, loader = load([run(0, 0), run(0, 1), note(first=1, end=2)])
    assert loader.loaded == {0: [b"\0"]}


def test_of_a_table_that_cannot_be_loaded_no_more_regions_are_but_those_of_others(load: Load) -> None:
    rows = [run(T[0], size=9), run(T[1], size=8), run(U[0], size=7)]
    for error in (RemoteError("rs", "x.NotServing", "no"), NotLoaded("no"), MissingTable("t", "peer_cluster"), TooManyRuns(2, 1)):
        outcomes, loader = load(rows, {0: error})
        assert errors_of(outcomes) == {"t-0": str(error), "t-1": str(error), "u-0": ""}
        assert list(loader.loaded) == [2]


@pytest.mark.parametrize("error", [LoadOvertaken("over"), ConnectionFailed("rs", "refused"), TimeoutError("timed out")])
def test_nothing_more_is_loaded_once_the_peer_cluster_is_silent_or_the_load_is_over(load: Load, error: Exception) -> None:
    outcomes, loader = load([run(0, size=9), run(1, size=8), run(2, size=7)], {0: error})
    assert set(errors_of(outcomes).values()) == {str(error)}
    assert not loader.loaded


@pytest.mark.parametrize("error", [TimeoutError(), OSError(), NotLoaded("  \n")])
def test_an_error_without_words_is_an_error(load: Load, error: Exception) -> None:
    """Without a reason its region would count as loaded."""
    outcomes, _ = load([run(0)], {0: error})
    assert errors_of(outcomes) == {"t-0": type(error).__name__}
    assert errors_of([PartitionOutcome.from_json(outcome.to_json()) for outcome in outcomes])["t-0"]
    assert reason_of(error)


def test_of_a_cluster_that_cannot_be_reached_no_region_is_loaded(load: Load) -> None:
    outcomes, _ = load([run(0), run(3), note(unfit={"x": "labels"})], away=ConnectError("away"))
    assert errors_of(outcomes) == {"t-0": "away", "u-1": "away"}


def test_what_goes_wrong_otherwise_fails_the_task(load: Load) -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        load([run(0)], {0: RuntimeError("a bug")})


def test_a_partition_without_runs_opens_nothing(load: Load) -> None:
    report = ShuffleRow(0, REPORT, 0, 0, 0, memoryview(WalReport(0).to_json().encode()))
    outcomes, _ = load([report], away=RuntimeError("opened"))
    assert [outcome.reports for outcome in outcomes] == [(WalReport(0).to_json(),)]


def test_runs_are_counted_by_wal_whether_they_are_loaded_or_not(load: Load) -> None:
    outcomes, _ = load([run(0, 1), run(1, 1), run(0, 2), note(first=2, end=3, error="broken")])
    assert [outcome.runs for outcome in outcomes if outcome.runs] == [((1, 2), (2, 1))]


@pytest.mark.parametrize(("wals", "tables"), [(3000, 1), (400, 60)])
def test_reports_come_in_outcomes_that_are_not_too_long(load: Load, wals: int, tables: int) -> None:
    names = {f"namespace:a_table_with_a_name_{number}": [1 << 40] * 4 for number in range(tables)}
    reports = [WalReport(wal, tables=names).to_json().encode() for wal in range(wals)]
    outcomes, _ = load([ShuffleRow(0, REPORT, 0, 0, 0, memoryview(report)) for report in reports])
    assert [text.encode() for outcome in outcomes for text in outcome.reports] == reports
    assert all(len(outcome.to_json()) < MAX_TEXT_CHARS for outcome in outcomes)
    assert len(outcomes) < wals / 5


def test_outcomes_are_read_as_they_were_written() -> None:
    outcome = PartitionOutcome("ns:t", "region", Loaded(1, 2, 3), "broken", ("a",), ("b", "c"), ((7, 2), (8, 1)))
    assert PartitionOutcome.from_json(outcome.to_json()) == outcome
    assert "\n" not in json.loads(PartitionOutcome(error="two\nlines").to_json())["error"]


def test_the_driver_gets_each_fact_once_from_a_partition_however_many_wals_note_it(load: Load) -> None:
    late = [note(first=first, end=9, error=f"late {first}") for first in (5, 3, 7)]
    outcomes, _ = load([run(0, 2), *late, *[note(unfit={"u": "labels"})] * 1000, note(unfit={"v": "labels"})])
    notes = [Note.from_json(text) for outcome in outcomes for text in outcome.notes]
    assert notes == [Note(3, 9, "late 3"), Note(unfit={"u": "labels", "v": "labels"})]
