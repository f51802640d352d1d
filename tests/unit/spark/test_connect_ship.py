"""One run through a Spark Connect server: what it sends, what becomes of the answers, and what a worker makes of it."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.spark.connect.fake_connect import Fake, complete, row, serving
from walferry.shipping.group_job import GroupJob
from walferry.shipping.summary import GroupSummary, Status
from walferry.source.cluster import SourceCluster
from walferry.spark import connect_ship, ship_tasks
from walferry.spark.connect.errors import ConnectFailed
from walferry.spark.connect_ship import ConnectShip, tag_of
from walferry.spark.ship_run import ShipRun

SOURCE = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase")
RUN = ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60)
JOBS = [GroupJob(source=SOURCE, peer_id="2", group=f"g{n}", run_id="r", holder="run r", deadline=time.time()) for n in range(3)]


@pytest.fixture
def fake() -> Iterator[Fake]:
    with serving(Fake()) as listening:
        yield listening


@pytest.fixture
def ship(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConnectShip:
    archive = tmp_path / "walferry-0123456789abcdef.zip"
    archive.write_bytes(b"the library")
    monkeypatch.setattr(connect_ship, "begin", lambda run: JOBS)
    monkeypatch.setattr(connect_ship, "finish", lambda run, summaries: None)
    return ConnectShip(fake.address, archive, tmp_path / "memory", RUN)


def stream(batch: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(out.getvalue().to_pybytes())


def test_what_workers_make_of_a_run_comes_back_as_its_summaries(
    fake: Fake, ship: ConnectShip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship_tasks, "ship", lambda job: GroupSummary(group=job.group, status=Status.DONE, shippedOps=7))
    function, _ = ship_tasks.tasks_of(JOBS)
    batches = [pa.RecordBatch.from_pydict({"id": [number]}) for number in range(3)]
    fake.streams = [[*(row(stream(batch), "r") for batch in function(batches)), complete()]]
    assert [(s.group, s.shippedOps) for s in ship.ship()] == [("g0", 7), ("g1", 7), ("g2", 7)]


def test_the_job_is_sent_as_the_name_of_a_function_and_the_groups(fake: Fake, ship: ConnectShip) -> None:
    fake.streams = [[complete()]]
    ship.ship()
    (asked,) = fake.calls("ExecutePlan")
    assert asked.plan.root.map_partitions.input.range.end == 3
    function, rows = pickle.loads(asked.plan.root.map_partitions.func.python_udf.command)
    assert function.__qualname__ == "tasks_of.<locals>.run"
    assert rows.simpleString() == "struct<summary:string>"


def test_what_a_killed_try_of_the_run_has_left_is_ended_before_the_run_begins(
    fake: Fake, ship: ConnectShip, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    monkeypatch.setattr(connect_ship, "begin", lambda run: ended.extend(i.operation_tag for i in fake.calls("Interrupt")) or [])
    assert ship.ship() == []
    assert ended == [tag_of(RUN)]
    assert not fake.calls("ExecutePlan")


def test_tags_differ_as_runs_do_and_are_what_spark_takes() -> None:
    others = [
        ShipRun(source=SOURCE, peer_id="3", run_id="r", deadline=60),
        ShipRun(source=SOURCE, peer_id="2", run_id="s", deadline=60),
        ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60, groups=["g1"]),
        ShipRun(source=SourceCluster(quorum="zk2:2181", wal_root="file:///hbase"), peer_id="2", run_id="r", deadline=60),
    ]
    assert len({tag_of(run) for run in (RUN, *others)}) == 5
    assert tag_of(RUN) == tag_of(ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=9))  # what is left of it
    assert "," not in tag_of(RUN)


def test_a_server_that_does_not_run_the_job_says_why(fake: Fake, ship: ConnectShip) -> None:
    fake.streams = [[Exception("Job aborted due to stage failure")]]
    with pytest.raises(ConnectFailed, match="stage failure"):
        ship.ship()


def test_nothing_is_ended_before_the_job_has_begun(fake: Fake, ship: ConnectShip) -> None:
    ship.interrupt()
    assert fake.asked == []
