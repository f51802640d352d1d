"""The workers of a Spark Connect server do a job: each task does its items."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest

from tests.unit.jobs.connect.connect_runs import JOBS, RUN, answer, fake, ship, stream
from tests.unit.jobs.connect.fake_connect import Fake, complete, row
from walferry.engine.summary import GroupSummary, Status
from walferry.jobs.connect import tasks as module
from walferry.jobs.connect.connect_job import ConnectJob, results_of
from walferry.shipping import ship_run
from walferry.shipping.group_job import GroupJob

__all__ = ["fake", "ship"]  # fixtures


def done(job: GroupJob) -> GroupSummary:
    return GroupSummary(group=job.group, status=Status.DONE, shippedOps=7)


def test_what_workers_make_of_a_job_comes_back_in_the_order_of_its_items(
    fake: Fake, ship: ConnectJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, _ = module.tasks_of(done, JOBS, 2)
    batches = [pa.RecordBatch.from_pydict({"id": [number]}) for number in range(2)]
    fake.streams = [[*(row(stream(batch), "r") for batch in function(batches)), complete()]]
    kept = list[GroupSummary]()
    monkeypatch.setattr(ship_run, "finish", lambda run, summaries: kept.extend(summaries))
    ship.run_job(print)
    assert [(s.group, s.shippedOps) for s in kept] == [("g0", 7), ("g1", 7), ("g2", 7)]


@pytest.mark.parametrize(("may", "takes"), [(8, 3), (2, 2), (1, 1)])
def test_items_are_dealt_out_to_the_tasks_that_a_job_may_take(
    fake: Fake, ship: ConnectJob, monkeypatch: pytest.MonkeyPatch, may: int, takes: int
) -> None:
    monkeypatch.setattr("walferry.shipping.ship_run.ship", done)
    through = ConnectJob(replace(fake.address, tasks=may), ship._archive, ship._memory, RUN)
    fake.streams = [[answer("g0", "g1", "g2"), complete()]]
    through.run_job(print)
    (asked,) = fake.calls("ExecutePlan")
    numbers = asked.plan.root.map_partitions.input.range
    assert (numbers.end, numbers.num_partitions) == (takes, takes)
    function, _ = pickle.loads(asked.plan.root.map_partitions.func.python_udf.command)
    rows = [list(function([pa.RecordBatch.from_pydict({"id": [number]})])) for number in range(takes)]
    given = [[batch[module.ANSWER][0].as_py().partition(" ")[0] for batch in task] for task in rows]
    assert given == [[str(number) for number in range(first, 3, takes)] for first in range(takes)]


def test_a_partial_of_a_function_travels_by_its_name() -> None:
    function, _ = pickle.loads(module_call := pickle.dumps(Calling()))
    assert len(module_call) < 1000
    (batch,) = function([pa.RecordBatch.from_pydict({"id": [0]})])
    assert results_of("server", batch[module.ANSWER].to_pylist(), 1, GroupSummary) == [GroupSummary(group="a", server="b")]


def test_a_worker_imports_no_pandas_for_its_answers() -> None:
    program = (
        "import pickle, sys\n"
        "import pyarrow as pa\n"
        f"function, _ = pickle.loads({pickle.dumps(Calling())!r})\n"
        "number = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(8))])\n"
        "(batch,) = function([pa.RecordBatch.from_arrays([number], ['id'])])\n"
        "batch.validate(full=True)\n"
        "print(batch.column(0)[0].as_py(), 'pandas' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("0 {")
    assert done.stdout.endswith("} False\n")


class Calling:
    """Pickles as `tasks_of` does in a plan."""

    def __reduce__(self) -> tuple[object, ...]:
        return module.tasks_of, (partial(named, "a"), ["b"], 1)


def named(group: str, server: str) -> GroupSummary:
    return GroupSummary(group=group, server=server)
