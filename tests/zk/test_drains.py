"""The queues that a recovery drains are kept next to its run's summaries, and read back as they were noted."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session
from walferry.shipping.drains import KEPT_SECONDS, Drain, groups_to_drain, note_drains, read_drains
from walferry.shipping.runs import QUEUES, RUNS_KEPT, begin_run, read_run, run_path, write_group

RUN = "regionserver_failover/manual__2026.1"
GROUP = "rs-1%2C16020%2C1"
SHIPS = Drain(
    peer="p", server="walferry,1,1", queue="p-rs-1,16020,1", dead_server="rs-1,16020,1", claimed_by="Walferry",
    groups=(GROUP, f"{GROUP}.g2"), wals=3, bytes=500, to_ship=(GROUP,), expected="WAL g1.1 is queued, but there is no such file",
)  # fmt: skip
STUCK = replace(SHIPS, server="zs-2,16020,2", to_ship=(), expected="", problem="zs-2,16020,2 was not claimed")


@pytest.fixture
def session(zk: KazooClient, at: SourceCluster) -> Session:
    return session_of(zk, at)


def test_what_is_noted_is_read_back_and_only_what_needs_a_job_is_shipped(session: Session) -> None:
    note_drains(session, "p", RUN, [SHIPS, STUCK])
    note_drains(session, "p", RUN, [SHIPS, STUCK])  # as a try whose answer was lost
    assert read_drains(session, "p", RUN) == [SHIPS, STUCK]
    assert groups_to_drain(session, "p", RUN) == {GROUP}
    assert read_drains(session, "q", RUN) == read_drains(session, "p", "another run") == []


def test_summaries_and_notes_of_a_run_are_told_apart_whatever_the_groups_are_called(session: Session) -> None:
    note_drains(session, "p", RUN, [SHIPS])
    summaries = [GroupSummary(group=name, status=Status.DONE) for name in (GROUP, QUEUES)]
    for summary in summaries:
        write_group(session, "p", RUN, summary)
    assert sorted(read_run(session, "p", RUN), key=lambda s: s.group) == sorted(summaries, key=lambda s: s.group)
    assert read_drains(session, "p", RUN) == [SHIPS]


WRONG: list[dict[str, object]] = [
    {"peer": ["p"]},
    {"peer": "q"},
    {"queue": "q-rs-1,16020,1"},
    {"queue": "p/x"},
    {"server": "rs-1,16020,1/p"},
    {"dead_server": "../rs-1,16020,1"},
    {"groups": ["a/b"], "to_ship": ["a/b"]},
    {"to_ship": ["rs-9%2C16020%2C1"]},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_note_that_a_plan_could_not_have_written_leaves_its_queue_where_it_is(
    session: Session, caplog: pytest.LogCaptureFixture, wrong: dict[str, object]
) -> None:
    note_drains(session, "p", RUN, [SHIPS, STUCK])
    session.zk.set(f"{run_path(session, 'p', RUN)}/{QUEUES}/0", json.dumps(asdict(SHIPS) | wrong).encode())
    assert read_drains(session, "p", RUN) == [STUCK]
    assert groups_to_drain(session, "p", RUN) == frozenset()
    assert f"{QUEUES}/0: it is not a queue to drain" in caplog.text


def test_notes_are_kept_as_long_as_a_recovery_may_last_and_go_with_their_run(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_700_000_000.0
    monkeypatch.setattr("walferry.shipping.runs.time.time", lambda: now)
    note_drains(session, "p", RUN, [SHIPS])

    def other_runs() -> None:
        for number in range(RUNS_KEPT + 1):
            begin_run(session, "p", f"batch {number} at {now}", 0.0)

    now += KEPT_SECONDS - 1
    other_runs()
    assert read_drains(session, "p", RUN) == [SHIPS]
    now += 2
    other_runs()
    assert read_drains(session, "p", RUN) == []
    assert session.zk.exists(run_path(session, "p", RUN)) is None


def test_a_run_of_the_same_name_as_one_that_was_deleted_has_its_own_queues_only(session: Session) -> None:
    note_drains(session, "p", RUN, [SHIPS, STUCK])
    note_drains(session, "p", RUN, [STUCK])
    assert read_drains(session, "p", RUN) == [STUCK]
