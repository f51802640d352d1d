"""One run through a Spark Connect server: the messages that it sends, and its use of the answers."""

from __future__ import annotations

import itertools
import json
import pickle
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.jobs.connect.connect_runs import JOBS, RUN, SOURCE, answer, fake, said, ship
from tests.unit.jobs.connect.fake_connect import Fake, complete, progress
from walferry.base import jobs
from walferry.base.jobs import BackendFailed
from walferry.base.protos import spark_connect_pb2 as messages
from walferry.engine.summary import MAX_ERROR_CHARS, GroupSummary, Status
from walferry.jobs.connect import connect_job
from walferry.jobs.connect.connect_job import MAX_STREAM_BYTES, MAX_TEXT_CHARS, ConnectJob, tag_of, texts
from walferry.jobs.connect.errors import ConnectFailed, Interrupted
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping import ship_run
from walferry.shipping.ship_run import ShipRun

__all__ = ["fake", "ship"]  # fixtures


def test_the_job_is_sent_as_the_name_of_a_function_and_the_groups(fake: Fake, ship: ConnectJob) -> None:
    fake.streams = [[answer("g0", "g1", "g2"), complete()]]
    ship.run_job(print)
    (asked,) = fake.calls("ExecutePlan")
    assert asked.plan.root.map_partitions.input.range.end == 3
    function, rows = pickle.loads(asked.plan.root.map_partitions.func.python_udf.command)
    assert function.__qualname__ == "tasks_of.<locals>.run"
    assert rows.simpleString() == "struct<answer:string>"


def test_what_a_killed_try_of_the_run_has_left_is_ended_before_the_run_begins(
    fake: Fake, ship: ConnectJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    monkeypatch.setattr(ship_run, "begin", lambda run: ended.extend(i.operation_tag for i in fake.calls("Interrupt")) or [])
    assert not ship.run_job(print).failed
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
    assert tag_of(RUN) == tag_of(replace(RUN, groups=("g1",))) == tag_of(replace(RUN, groups=("g1", "g2")))  # tries of a batch
    assert "," not in tag_of(RUN)


def test_a_server_that_does_not_run_the_job_says_why(fake: Fake, ship: ConnectJob) -> None:
    fake.streams = [[Exception("Job aborted due to stage failure")]]
    with pytest.raises(ConnectFailed, match="stage failure"):
        ship.run_job(print)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([], "has given 0 answers, not one for each of 3 items"),
        ([answer("g0", "g1")], "has given 2 answers, not one for each of 3 items"),
        ([answer("g0", "g1", "g1")], "there are two of its item"),
        ([answer("g0", "g1", "g7")], "has given 3 answers, not one for each of 3 items"),
        ([answer("g0", "g1"), answer("other")], "does not begin with the number of an item"),
        ([answer("g0", "g1", "g2", "g2")], "more than were asked for"),
    ],
)
def test_a_server_that_does_not_answer_for_each_item_once_has_not_done_the_job(
    fake: Fake, ship: ConnectJob, monkeypatch: pytest.MonkeyPatch, answers: list[messages.ExecutePlanResponse], why: str
) -> None:
    finished: list[object] = []
    monkeypatch.setattr(ship_run, "finish", lambda run, summaries: finished.append(summaries))
    fake.streams = [[*answers, complete()]]
    with pytest.raises(ConnectFailed, match=f"Spark Connect server 127.0.0.1:.*{why}"):
        ship.run_job(print)
    assert finished == []


@pytest.mark.parametrize("answers", [[answer("g0", "g1"), answer("g2", status=Status.RUNNING)], [answer("g0", "g1", "h2")]])
def test_an_answer_for_another_group_or_of_one_that_still_runs_is_none(
    fake: Fake, ship: ConnectJob, answers: list[messages.ExecutePlanResponse]
) -> None:
    fake.streams = [[*answers, complete()]]
    with pytest.raises(BackendFailed, match="the answer for WAL group g2 is none"):
        ship.run_job(print)


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "0", "[]", "x {}", "0 []", "0 7", "0 " + "[" * 100_000),
        *('0 {"status": "done"}', '0 {"group": "g0"}', '0 {"group": "g0", "status": "odd"}'),
        *('0 {"group": ["g0"], "status": "done"}', '0 {"group": "g0", "status": "failed", "error": 7}'),
    ],
)
def test_an_answer_that_cannot_be_read_is_told_and_its_job_is_ended(fake: Fake, ship: ConnectJob, text: str | None) -> None:
    fake.streams = [[said(text), progress("2"), complete()]]
    with pytest.raises(ConnectFailed, match="cannot be read"):
        ship.run_job(print)
    (asked,) = fake.calls("ExecutePlan")
    assert [ended.operation_id for ended in fake.calls("Interrupt")] == ["", asked.operation_id]


def test_errors_in_an_answer_are_one_bounded_line(fake: Fake, ship: ConnectJob) -> None:
    bad = json.dumps({"group": "g0", "status": "failed", "error": "x\n\x1b[31m" * 10_000})
    fake.streams = [[said(f"0 {bad}"), answer("g1", "g2"), complete()]]
    outcome = ship.run_job(print)
    assert outcome.failed
    (error,) = outcome.errors
    assert error.isprintable()
    assert len(error) == MAX_ERROR_CHARS + len("g0: ")


def test_a_job_that_is_too_large_is_not_sent(fake: Fake, ship: ConnectJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_job, "MOST_SENT_BYTES", 100)
    with pytest.raises(ConnectFailed, match="too many for a Spark Connect server"):
        ship.run_job(print)
    assert not fake.calls("ExecutePlan")


def test_it_is_reported_how_many_tasks_have_ended(fake: Fake, ship: ConnectJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(ShipRun, "run", lambda _, on, say: on.run(len, ["a", "b", "c"], GroupSummary, progress=told))
    reported, at_end = list[tuple[int, int]](), threading.Event()

    def told(ended: int, of: int) -> None:
        reported.append((ended, of))
        if ended == of:
            at_end.set()

    def until_told() -> Iterator[messages.ExecutePlanResponse]:
        assert at_end.wait(20)
        yield answer("g0", "g1", "g2")

    again = progress("1", (7, 4, 3))  # Spark counts failed tasks too
    fake.streams = [itertools.chain([again], until_told(), [complete()])]  # type: ignore[list-item]
    ship.run_job(print)
    assert reported[-1] == (3, 3)
    assert set(reported) <= {(0, 3), (3, 3)}


def test_nothing_is_ended_before_the_job_has_begun(fake: Fake, ship: ConnectJob) -> None:
    ship.interrupt()
    assert fake.asked == []


def test_a_job_that_is_ended_before_it_has_begun_does_not_begin(
    fake: Fake, ship: ConnectJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship_run, "begin", lambda run: ship.interrupt() or JOBS)
    with pytest.raises(Interrupted):
        ship.run_job(print)
    assert not fake.calls("ExecutePlan")


def test_answers_are_bounded_in_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_job, "MOST_ANSWERED_CHARS", 500)
    text = GroupSummary(group="g").to_json()
    with pytest.raises(ConnectFailed, match="sent more than 500 characters of answers"):
        connect_job.results_of("s", [f"{number} {text}" for number in range(3)], 3, GroupSummary)


def stream(*values: Any, name: str = "summary", kind: pa.DataType | None = None) -> bytes:
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind or pa.string())], [name])
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(out.getvalue().to_pybytes())


def read(*streams: bytes, max_rows: int = 3) -> list[str]:
    return list(texts("h:1", streams, "summary", max_rows))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_rows_are_read_in_the_order_in_which_they_come(kind: pa.DataType) -> None:
    assert read(stream("a", "b", kind=kind), stream(kind=kind), stream("", kind=kind)) == ["a", "b", ""]


def test_offsets_that_point_outside_of_the_rows_are_not_followed() -> None:
    raw = bytearray(stream("ABCDEFGH"))
    at = raw.rfind(struct.pack("<ii", 0, 8))
    for start, end in ((0, 2_000_000_000), (-5, 8), (8, 0)):
        raw[at : at + 8] = struct.pack("<ii", start, end)
        with pytest.raises(ConnectFailed, match="Spark Connect server h:1 sent rows that cannot be read"):
            read(bytes(raw))


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"", "cannot be read"),
        (b"garbage", "cannot be read"),
        (stream("a")[:-100], "cannot be read"),
        (stream("a", None), "a row is null"),
        (stream(1, kind=pa.int64()), "one column 'summary' of text"),
        (stream("a", name="other"), "one column 'summary' of text"),
        (stream(b"\xff", kind=pa.binary()), "one column 'summary' of text"),
        (stream("x" * (MAX_TEXT_CHARS + 1)), "more than 1048576 characters"),
        (stream("x" * MAX_STREAM_BYTES), "bytes at once"),
        (stream("a", "b", "c", "d"), "more than were asked for"),
    ],
)
def test_what_is_not_such_rows_is_told(sent: bytes, why: str) -> None:
    with pytest.raises(ConnectFailed, match=why) as failed:
        read(sent)
    assert str(failed.value).isprintable()


def test_rows_are_counted_over_all_streams() -> None:
    assert len(read(*[stream("a")] * 3)) == 3
    with pytest.raises(ConnectFailed, match="more than were asked for"):
        read(*[stream("a")] * 4)
