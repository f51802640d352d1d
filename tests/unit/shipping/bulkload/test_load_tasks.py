"""The parts of a load that a backend's workers get can be read and loaded."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pyarrow as pa
import pytest

from tests.unit.shipping.bulkload.jobs import groups_of, job
from tests.unit.shipping.bulkload.load_server import LoadBackend
from walferry.base.jobs import Backend
from walferry.shipping.bulkload.load_spread import spread_load
from walferry.shipping.bulkload.load_tasks import OUTCOME
from walferry.shipping.bulkload.loading import PartitionOutcome
from walferry.shipping.bulkload.rows import NOTE, Note, rows_in


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
    told: list[Any] = [text for batch in load(rows) for text in batch[OUTCOME].to_pylist()]
    assert [PartitionOutcome.from_json(text).notes for text in told] == [(note.to_json(),) for note in notes]
