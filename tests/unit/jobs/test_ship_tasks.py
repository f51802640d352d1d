"""What the workers of a Spark Connect server make of a run: each task ships its groups."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.unit.jobs.connect.fake_connect import Fake, complete, row
from tests.unit.jobs.connect_runs import JOBS, answer, fake, ship, stream
from walferry.engine.summary import GroupSummary, Status
from walferry.jobs import ship_tasks
from walferry.jobs.connect_ship import ConnectShip

__all__ = ["fake", "ship"]  # fixtures


def test_what_workers_make_of_a_run_comes_back_as_its_summaries(
    fake: Fake, ship: ConnectShip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship_tasks, "ship", lambda job: GroupSummary(group=job.group, status=Status.DONE, shippedOps=7))
    function, _ = ship_tasks.tasks_of(JOBS, 2)
    batches = [pa.RecordBatch.from_pydict({"id": [number]}) for number in range(2)]
    fake.streams = [[*(row(stream(batch), "r") for batch in function(batches)), complete()]]
    assert [(s.group, s.shippedOps) for s in ship.ship()] == [("g0", 7), ("g2", 7), ("g1", 7)]


@pytest.mark.parametrize(("may", "takes"), [(8, 3), (2, 2), (1, 1)])
def test_groups_are_dealt_out_to_the_tasks_that_a_job_may_take(
    fake: Fake, ship: ConnectShip, monkeypatch: pytest.MonkeyPatch, may: int, takes: int
) -> None:
    monkeypatch.setattr(ship_tasks, "ship", lambda job: GroupSummary(group=job.group, status=Status.DONE))
    monkeypatch.setattr(ship, "_address", replace(fake.address, tasks=may))
    fake.streams = [[answer("g0", "g1", "g2"), complete()]]
    ship.ship()
    (asked,) = fake.calls("ExecutePlan")
    numbers = asked.plan.root.map_partitions.input.range
    assert (numbers.end, numbers.num_partitions) == (takes, takes)
    function, _ = pickle.loads(asked.plan.root.map_partitions.func.python_udf.command)
    rows = [list(function([pa.RecordBatch.from_pydict({"id": [number]})])) for number in range(takes)]
    groups = [[json.loads(batch["summary"][0].as_py())["group"] for batch in task] for task in rows]
    assert groups == [[job.group for job in JOBS][number::takes] for number in range(takes)]
