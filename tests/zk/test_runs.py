"""The summaries of runs: how long they are kept, and that readers survive their deletion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from tests.sessions import session_of
from walferry.engine.summary import MAX_ERROR_CHARS, GroupSummary, Status
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping import runs
from walferry.shipping.runs import (
    RUNS_AT_MOST,
    RUNS_KEPT,
    begin_group,
    begin_run,
    change_group,
    read_group,
    read_run,
    write_group,
)

HOUR = 3600.0
DONE = GroupSummary(group="g", status=Status.DONE, shippedOps=7)


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """`passed(seconds)` lets time go on."""
    now = [1_700_000_000.0]
    monkeypatch.setattr(runs.time, "time", lambda: now[0])

    def go_on(seconds: float) -> None:
        now[0] += seconds

    return go_on


def batches(zk: KazooClient, at: SourceCluster, count: int, first: int = 0, keep: float = 0.0) -> None:
    for number in range(first, first + count):
        begin_run(session_of(zk, at), "p", f"batch {number}", keep)
        write_group(session_of(zk, at), "p", f"batch {number}", DONE)


def kept(zk: KazooClient, at: SourceCluster) -> int:
    return sum(bool(read_run(session_of(zk, at), "p", f"batch {number}")) for number in range(1000))


def test_the_last_runs_of_a_peer_are_kept(zk: KazooClient, at: SourceCluster, passed):
    batches(zk, at, RUNS_KEPT + 5)
    assert read_run(session_of(zk, at), "p", "batch 4") == []
    assert read_run(session_of(zk, at), "p", "batch 5") == [DONE]
    begin_run(session_of(zk, at), "q", "another peer's", 0.0)
    assert read_run(session_of(zk, at), "p", "batch 5") == [DONE]


def test_what_a_drain_has_done_is_kept_as_long_as_its_run_may_last_however_many_batches_there_are(
    zk: KazooClient, at: SourceCluster, passed
):
    begin_run(session_of(zk, at), "p", "drains", 24 * HOUR)
    write_group(session_of(zk, at), "p", "drains", DONE)
    for number in range(2 * RUNS_KEPT):
        passed(HOUR / 12)
        batches(zk, at, 1, number)
    assert read_run(session_of(zk, at), "p", "drains") == [DONE]
    passed(12 * HOUR)
    begin_run(session_of(zk, at), "p", "drains", 24 * HOUR)  # its next drain
    passed(23 * HOUR)
    batches(zk, at, 1, 100)
    assert read_run(session_of(zk, at), "p", "drains") == [DONE]
    passed(2 * HOUR)
    batches(zk, at, 1, 101)
    assert read_run(session_of(zk, at), "p", "drains") == []
    assert kept(zk, at) == RUNS_KEPT


@pytest.mark.slow
def test_so_many_runs_are_kept_at_most_and_those_that_have_to_be_kept_longest_stay(zk: KazooClient, at: SourceCluster, passed):
    begin_run(session_of(zk, at), "p", "drains", 25 * HOUR)
    write_group(session_of(zk, at), "p", "drains", DONE)
    batches(zk, at, RUNS_AT_MOST + 3, keep=24 * HOUR)
    assert kept(zk, at) == RUNS_AT_MOST - 1
    assert read_run(session_of(zk, at), "p", f"batch {RUNS_AT_MOST + 2}") == [DONE]
    assert read_run(session_of(zk, at), "p", "drains") == [DONE]


def test_a_run_that_somebody_writes_while_it_is_being_deleted_stops_no_other(
    zk: KazooClient, at: SourceCluster, new_client, monkeypatch: pytest.MonkeyPatch, passed
):
    batches(zk, at, RUNS_KEPT)
    writer, get_children = new_client(), zk.get_children

    def and_another_group(path: str, *args: object, **options: object) -> list[str]:
        names = get_children(path, *args, **options)
        if path.endswith("batch%200"):
            write_group(session_of(writer, at), "p", "batch 0", GroupSummary(group=f"g{len(names)}"))
        return names

    monkeypatch.setattr(zk, "get_children", and_another_group)
    batches(zk, at, 1, RUNS_KEPT)
    assert len(read_run(session_of(writer, at), "p", "batch 0")) == 1
    monkeypatch.undo()
    batches(zk, at, 1, RUNS_KEPT + 1)
    assert read_run(session_of(zk, at), "p", "batch 0") == []


def test_an_error_of_any_length_fits_its_znode_in_one_line(zk: KazooClient, at: SourceCluster) -> None:
    error = "FAILED\n\x1b[2J" + "x" * 3_000_000
    write_group(session_of(zk, at), "p", "run", GroupSummary(group="g", status=Status.FAILED, error=error, sinkError=error))
    (kept,) = read_run(session_of(zk, at), "p", "run")
    for text in (kept.error, kept.sinkError):
        assert text
        assert text.startswith("FAILED")
        assert text.isprintable()
        assert len(text) <= MAX_ERROR_CHARS


@pytest.mark.parametrize("value", [b"\xff", b"{}", b"[" * 200_000, b'{"group": 7}', b'{"group": "g", "status": "fine"}'])
def test_a_group_whose_summary_cannot_be_read_has_failed_and_is_counted_anew(
    zk: KazooClient, at: SourceCluster, value: bytes
) -> None:
    batches(zk, at, 1)
    session = session_of(zk, at)
    path = f"{session.own.runs('p')}/batch 0/g"
    zk.set(path.replace(" ", "%20"), value)
    (found,) = read_run(session, "p", "batch 0")
    assert (found.group, found.status) == ("g", Status.FAILED)
    assert found.error is not None
    assert "is not a summary" in found.error
    assert read_group(session, "p", "batch 0", "g") is None


@pytest.mark.parametrize("there", [True, False])
def test_a_change_whose_request_was_lost_is_made_all_the_same(
    zk: KazooClient, at: SourceCluster, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    session = session_of(zk, at)
    begin_run(session, "p", "r", 60)
    if there:
        begin_group(session, "p", "r", GroupSummary(group="g", status=Status.DONE))
    name, lost = "set" if there else "create", list[object]()
    really = getattr(zk, name)

    def once(*arguments: object, **options: object) -> object:
        if not lost:
            lost.append(arguments)
            raise ConnectionLoss
        return really(*arguments, **options)

    monkeypatch.setattr(zk, name, once)
    change_group(session, "p", "r", "g", lambda before: GroupSummary(group="g", status=Status.FAILED, error="HDFS is away"))
    found = read_group(session, "p", "r", "g")
    assert lost
    assert found is not None
    assert found.status is Status.FAILED
