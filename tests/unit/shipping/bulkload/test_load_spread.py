"""The parts of a load that a backend gets, which its workers can read and load, and its possible answers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import pyarrow as pa
import pytest

from tests.unit.shipping.bulkload.jobs import groups_of, job
from tests.unit.shipping.bulkload.load_server import LoadBackend
from walferry.base.jobs import Backend, BackendFailed, Shuffle
from walferry.shipping.bulkload import load_spread
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.load_spread import OUTCOME, LoadProgress, shown, spread_load
from walferry.shipping.bulkload.loading import Loaded, PartitionOutcome
from walferry.shipping.bulkload.rows import NOTE, Note, rows_in
from walferry.shipping.bulkload.wals import LoadWal


def spread_on(backend: LoadBackend) -> Callable[[LoadJob, Sequence[Sequence[LoadWal]]], list[PartitionOutcome]]:
    return partial(spread_load, cast(Backend, backend), print)


def test_outcomes_come_as_they_were_told() -> None:
    outcomes = [PartitionOutcome("t", "t-0", Loaded(1, 2, 3)), PartitionOutcome(notes=("{}",))]
    assert spread_on(LoadBackend(*outcomes))(job(), groups_of(2, 1)) == outcomes


def test_an_answer_that_is_no_outcome_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nonsense(_: LoadBackend, work: Shuffle) -> list[str]:
        return ["[]"]

    monkeypatch.setattr(LoadBackend, "shuffle", nonsense)
    with pytest.raises(BackendFailed, match="an answer of a load cannot be read"):
        spread_on(LoadBackend())(job(), groups_of(1))


def test_a_backend_may_answer_all_that_there_can_be() -> None:
    """A WAL can be broken, and have edits of an unfit table: two notes for each partition. Else there is a report of it."""
    backend, made = LoadBackend(), job()
    spread_on(backend)(made, groups_of(1))
    spread_on(backend)(made, groups_of(2, 3))
    first, second = backend.taken
    assert first.most_answers >= len(made.regions) + 2 * made.partitions
    assert second.most_answers >= len(made.regions) + 2 * made.partitions * 5


@pytest.mark.parametrize(
    ("stages", "text"),
    [
        ([], ""),
        ([(0, 0)], ""),
        ([(0, 1200), (0, 8)], "read 0 of 1,200 parts of the WALs"),
        ([(1200, 1200)], "read 1,200 of 1,200 parts of the WALs"),
        ([(4, 4), (3, 8)], "read 4 of 4 parts of the WALs, loaded 3 of 8 partitions of the regions"),
        ([(3, 4), (3, 8)], "read 3 of 4 parts of the WALs"),  # some are read again, as an executor was lost
    ],
)
def test_loading_is_told_of_once_all_is_read(stages: list[tuple[int, int]], text: str) -> None:
    assert shown(stages) == text


def test_only_what_has_changed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_spread, "EVERY_SECONDS", 0.0)
    reported: list[str] = []
    progress = LoadProgress(reported.append)
    for done in (0, 0, 1, 1):
        progress([(done, 2), (0, 2)])
    assert reported == ["read 0 of 2 parts of the WALs", "read 1 of 2 parts of the WALs"]


def test_not_every_change_is_told() -> None:
    reported: list[str] = []
    progress = LoadProgress(reported.append)
    for done in range(1000):
        progress([(done, 1000)])
    assert reported == ["read 0 of 1,000 parts of the WALs"]


def test_the_tasks_of_the_plan_read_and_load(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = LoadBackend()
    made = job(deadline=0.0)
    spread_load(cast(Backend, backend), print, made, groups_of(1, 1))
    (work,) = backend.taken
    assert work.items == 2
    read, load = (pickle.loads(pickle.dumps(function))() for function in (work.first, work.second))
    rows = [batch for number in (0, 1) for batch in read([pa.RecordBatch.from_pydict({"id": [number]})])]
    notes = [Note.from_json(bytes(row.data)) for row in rows_in(rows) if row.region == NOTE]
    assert [(note.first, note.end) for note in notes] == [(0, 1)] * 3 + [(1, 2)] * 3
    monkeypatch.setattr("walferry.shipping.bulkload.loading._load", lambda *_: pytest.fail("there is nothing to load"))
    reported: list[Any] = [text for batch in load(rows) for text in batch[OUTCOME].to_pylist()]
    assert [PartitionOutcome.from_json(text).notes for text in reported] == [(notes[0].to_json(), notes[3].to_json())]
