"""What a Spark Connect server is given of a load, and what it may answer."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.bulkload.jobs import groups_of, job
from walferry.bulkload.loading import Outcome
from walferry.bulkload.region_load import Loaded
from walferry.bulkload.rows import NOTE, Note, rows_in
from walferry.protos.spark_connect_pb2 import Plan
from walferry.spark import load_spread
from walferry.spark.connect.errors import ConnectFailed
from walferry.spark.load_progress import LoadProgress
from walferry.spark.load_spread import ConnectSpread
from walferry.spark.load_tasks import OUTCOME


class Server:
    """Takes a plan, and answers with outcomes."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = outcomes
        self.most = 0
        self.plans: list[Plan] = []

    def run(self, plan: Plan, column: str, most: int, progress: LoadProgress) -> Iterator[str]:
        self.plans.append(plan)
        self.most = most
        assert column == OUTCOME
        return (outcome.to_json() for outcome in self.outcomes)


def test_outcomes_come_as_they_were_told() -> None:
    outcomes = [Outcome("t", "t-0", Loaded(1, 2, 3)), Outcome(notes=("{}",))]
    server = Server(*outcomes)
    spread = ConnectSpread(server.run, 4, print)
    assert (spread.cores, spread(job(), groups_of(2, 1))) == (4, outcomes)


def test_a_server_may_send_all_that_there_can_be() -> None:
    """A WAL can be broken, and have edits of an unfit table: two notes for each partition. Else there is a report of it."""
    server, made = Server(), job()
    ConnectSpread(server.run, 4, print)(made, groups_of(1))
    assert server.most >= len(made.regions) + 2 * made.partitions
    ConnectSpread(server.run, 4, print)(made, groups_of(2, 3))
    assert server.most >= len(made.regions) + 2 * made.partitions * 5


def test_a_job_that_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_spread, "MOST_SENT_BYTES", 1000)
    server = Server()
    with pytest.raises(ConnectFailed, match="too many for a Spark Connect server"):
        ConnectSpread(server.run, 4, print)(job(), groups_of(1))
    assert not server.plans


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
    monkeypatch.setattr("walferry.bulkload.loading._load", lambda *_: pytest.fail("there is nothing to load"))
    told: list[Any] = [text for batch in load(rows) for text in batch[OUTCOME].to_pylist()]
    assert [Outcome.from_json(text).notes for text in told] == [(note.to_json().decode(),) for note in notes]
