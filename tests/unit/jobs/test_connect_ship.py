"""One run through a Spark Connect server: what it sends, and what becomes of the answers."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from tests.unit.jobs.connect.fake_connect import Fake, complete, progress
from tests.unit.jobs.connect_runs import JOBS, RUN, SOURCE, answer, fake, said, ship
from walferry.base.protos import spark_connect_pb2 as messages
from walferry.engine.summary import MAX_ERROR_CHARS, Status
from walferry.jobs import connect_ship
from walferry.jobs.connect.errors import ConnectFailed, Interrupted
from walferry.jobs.connect_ship import ConnectShip, tag_of
from walferry.jobs.ship_run import ShipRun
from walferry.replication.source.cluster import SourceCluster

__all__ = ["fake", "ship"]  # fixtures


def test_the_job_is_sent_as_the_name_of_a_function_and_the_groups(fake: Fake, ship: ConnectShip) -> None:
    fake.streams = [[answer("g0", "g1", "g2"), complete()]]
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
        ShipRun(source=SourceCluster(quorum="zk2:2181", wal_root="file:///hbase"), peer_id="2", run_id="r", deadline=60),
    ]
    assert len({tag_of(run) for run in (RUN, *others)}) == 4
    assert tag_of(RUN) == tag_of(ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=9))  # what is left of it
    assert tag_of(RUN) == tag_of(replace(RUN, groups=["g1"])) == tag_of(replace(RUN, groups=["g1", "g2"]))  # tries of a batch
    assert "," not in tag_of(RUN)


def test_a_server_that_does_not_run_the_job_says_why(fake: Fake, ship: ConnectShip) -> None:
    fake.streams = [[Exception("Job aborted due to stage failure")]]
    with pytest.raises(ConnectFailed, match="stage failure"):
        ship.ship()


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([], "one answer for each WAL group that it was asked for: g0, g1, g2$"),
        ([answer("g0", "g1")], "asked for: g2$"),
        ([answer("g0", "g1", "g1")], "asked for: g1, g2$"),
        ([answer("g0", "g1"), answer("other")], "asked for: g2, other$"),
        ([answer("g0", "g1", "g2", "g2")], "more than were asked for"),
        ([answer("g0", "g1"), answer("g2", status=Status.RUNNING)], "not with all WAL groups"),
    ],
)
def test_a_server_that_does_not_answer_for_each_group_once_has_not_done_the_job(
    fake: Fake, ship: ConnectShip, monkeypatch: pytest.MonkeyPatch, answers: list[messages.ExecutePlanResponse], why: str
) -> None:
    finished: list[object] = []
    monkeypatch.setattr(connect_ship, "finish", lambda run, summaries: finished.append(summaries))
    fake.streams = [[*answers, complete()]]
    with pytest.raises(ConnectFailed, match=f"Spark Connect server 127.0.0.1:.*{why}"):
        ship.ship()
    assert finished == []


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "7", '{"status": "done"}', '{"group": "g0"}', '{"group": "g0", "status": "odd"}', "[" * 100_000,
     '{"group": ["g0"], "status": "done"}', '{"group": "g0", "status": "failed", "error": 7}'],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_told_and_its_job_is_ended(fake: Fake, ship: ConnectShip, text: str | None) -> None:
    fake.streams = [[said(text), progress("2"), complete()]]
    with pytest.raises(ConnectFailed, match="cannot be read"):
        ship.ship()
    (asked,) = fake.calls("ExecutePlan")
    assert [ended.operation_id for ended in fake.calls("Interrupt")] == ["", asked.operation_id]


def test_errors_in_an_answer_are_one_bounded_line(fake: Fake, ship: ConnectShip) -> None:
    bad = json.dumps({"group": "g0", "status": "failed", "error": "x\n\x1b[31m" * 10_000})
    fake.streams = [[said(bad), answer("g1", "g2"), complete()]]
    first, *_ = ship.ship()
    assert first.error is not None
    assert first.error.isprintable()
    assert len(first.error) == MAX_ERROR_CHARS


def test_nothing_is_ended_before_the_job_has_begun(fake: Fake, ship: ConnectShip) -> None:
    ship.interrupt()
    assert fake.asked == []


def test_a_job_that_is_ended_before_it_has_begun_does_not_begin(
    fake: Fake, ship: ConnectShip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_ship, "begin", lambda run: ship.interrupt() or JOBS)
    with pytest.raises(Interrupted):
        ship.ship()
    assert not fake.calls("ExecutePlan")
