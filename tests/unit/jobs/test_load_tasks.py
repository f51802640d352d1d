"""What a Spark Connect server's workers are given of a load reads and loads."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.jobs.load_server import Server
from tests.unit.shipping.bulkload.jobs import groups_of, job
from walferry.jobs.load_spread import ConnectSpread
from walferry.jobs.load_tasks import OUTCOME
from walferry.shipping.bulkload.loading import PartitionOutcome
from walferry.shipping.bulkload.rows import NOTE, Note, rows_in


def test_the_tasks_of_the_plan_read_and_load(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    made = job(deadline=0.0)
    ConnectSpread(server.run, 4, print)(made, groups_of(1, 1))
    second = server.plans[0].root.map_partitions
    first = second.input.repartition_by_expression.input.map_partitions
    read, _ = pickle.loads(first.func.python_udf.command)
    rows = [batch for number in (0, 1) for batch in read([pa.RecordBatch.from_pydict({"id": [number]})])]
    notes = [Note.from_json(bytes(row.data)) for row in rows_in(rows) if row.region == NOTE]
    assert [(note.first, note.end) for note in notes] == [(0, 1)] * 3 + [(1, 2)] * 3
    load, _ = pickle.loads(second.func.python_udf.command)
    monkeypatch.setattr("walferry.shipping.bulkload.loading._load", lambda *_: pytest.fail("there is nothing to load"))
    told: list[Any] = [text for batch in load(rows) for text in batch[OUTCOME].to_pylist()]
    assert [PartitionOutcome.from_json(text).notes for text in told] == [(note.to_json(),) for note in notes]
