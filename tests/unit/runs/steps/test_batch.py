"""The figures of a plan and of a roll fit Airflow's database, and come back from there as they were."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from walferry.runs.steps import batch
from walferry.runs.values import Planned, RollReport
from walferry.shipping.plan import GroupPlan, PeerPlan, PlannedWal


def _group(name: str, *wals: PlannedWal, problem: str | None = None) -> GroupPlan:
    return GroupPlan(name, "s,1,1", "p", len(wals) + 1, wals, problem)


def _wal(timestamp: int, size: int | None = 100, *, finished: bool = False) -> PlannedWal:
    return PlannedWal(f"s%2C1%2C1.{timestamp}", 0, size, None if size is None else "file:///w", finished)


def test_only_what_needs_a_job_is_counted():
    plan = PeerPlan("p", (_group("g1", _wal(7), _wal(8, 50)), _group("g2", _wal(3, finished=True))))
    figures = batch.figures("r.1", "p", plan.to_ship)
    assert (figures.groups, figures.wals, figures.bytes, figures.oldest) == (1, 2, 150, 7)


def test_a_plan_with_very_many_problems_stays_small_and_comes_back():
    groups = tuple(_group(f"g{i}" * 100, _wal(7, None), problem="x" * 10_000) for i in range(3000))
    figures = batch.figures("r.1", "p", groups, held=4, turn=3)
    assert figures.groups == 3000
    assert figures.problems_left_out == 3000 - len(figures.problems)
    text = json.dumps(figures.to_xcom())
    assert len(text) < 25_000
    assert Planned.from_xcom(json.loads(text)) == figures


def test_a_roll_that_failed_for_very_many_servers_stays_small():
    reported = RollReport.of(0, {f"rs-{number}.example.org,16020,1": "x" * 10_000 for number in range(1000)})
    assert len(json.dumps(reported.to_xcom())) < 12_000
    assert reported.problems[-1] == "roll of 980 more servers failed: see the log of the task roll"


@pytest.mark.long
def test_the_steps_of_an_idle_batch_import_nothing_that_takes_long():
    heavy = {"numpy", "numba", "pyarrow", "pandas", "pyspark", "grpc", "cryptography"}
    code = f"import sys, walferry.runs.steps.batch, walferry.replication.sinks.of_peer; print(sorted({heavy} & set(sys.modules)))"
    plugins = str(Path(batch.__file__).parents[3])
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": plugins}, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def event(payload: object) -> SimpleNamespace:
    return SimpleNamespace(extra={"payload": payload, "from_trigger": True})


@pytest.mark.parametrize(
    ("events", "due"),
    [
        ([], None),
        ([event({"peers": {"p": 2}, "roll": False})], batch.Due(frozenset({"p"}), roll=False)),
        ([event({"peers": {"p": 2}, "roll": False}), event({"peers": {}, "roll": True})], batch.Due(frozenset({"p"}), roll=True)),
        ([event({"peers": {}, "roll": False})], batch.Due(frozenset(), roll=False)),
        ([event({"peers": {"p": 2}, "roll": "yes"})], batch.Due(frozenset({"p"}), roll=False)),
        ([SimpleNamespace(extra=None)], None),
        ([event({"peers": {"p": 2}}), event("p")], None),
        ([event({"peers": ["p"]})], None),
    ],
)
def test_events_say_what_a_run_is_to_do_and_events_made_by_hand_stand_for_everything(
    events: list[SimpleNamespace], due: batch.Due | None
) -> None:
    assert batch.announced(events) == due
