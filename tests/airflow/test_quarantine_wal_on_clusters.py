"""The DAG quarantine_wal, run by Airflow, with a broken WAL between two real clusters."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from embedded.client import JavaClient
from tests.cluster.dead_queues import DeadQueue, Recording, record
from tests.cluster.test_bad_input import BROKEN, ROWS, begin, flipped, rows_at, rows_up_to
from tests.cluster.walferry_runs import ship, source_of
from walferry.airflow.operators.approval import NO, YES
from walferry.airflow.operators.run_batch import RunBatchOperator

from .conftest import Run
from .people import person
from .test_replicate_peer_on_clusters import peer, peer_cluster, source, table

__all__ = ["peer", "peer_cluster", "source", "table"]  # fixtures

DAG = "quarantine_wal"


@dataclass(frozen=True)
class Site:
    """A peer with a queue that begins with a broken WAL."""

    peer: str
    queue: DeadQueue
    recording: Recording
    wal: Path
    aside: Path


@pytest.fixture
def site(
    source: JavaClient, peer_cluster: JavaClient, peer: str, table: str, standalone_pair, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:  # fmt: skip
    """Without a scheduler no run of replicate_peer would begin, so a batch is run without Airflow."""
    connection = json.loads(os.environ["AIRFLOW_CONN_HBASE_SOURCE"])
    connection["extra"]["quarantine"] = f"file://{tmp_path}/aside"
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    at = source_of(standalone_pair.source.address)
    queue, recording = DeadQueue(at, source, peer), record(source, table, ROWS)
    wal = queue.add(flipped(recording.content, begin(recording) + 1))

    def batch(operator: RunBatchOperator, context: object) -> None:
        from walferry.replication.source.connection import from_env

        ship(from_env(), operator.conf["peer"], groups=[queue.group], roll_first=False)

    monkeypatch.setattr(RunBatchOperator, "execute", batch)
    yield Site(peer, queue, recording, wal, tmp_path / "aside" / wal.name)
    wal.unlink(missing_ok=True)  # other tests ship all files of an interval again


def states(run: Run) -> dict[str, str]:
    return {task: state for (task, _), state in run.tasks.items()}


@pytest.mark.capability("a broken WAL that a person gives up")
def test_a_person_gives_up_the_rest_of_a_broken_wal(
    run_dag: Callable[..., Run], site: Site, peer_cluster: JavaClient, logged: Callable[[], str]
) -> None:
    with person(NO):
        rejected = run_dag(DAG, peer=site.peer, wal=site.wal.name)
    assert (rejected.state, states(rejected)["permit"], states(rejected)["check"]) == ("failed", "failed", "failed")
    assert f"nothing of WAL {site.wal.name} is given up: ola has rejected it" in logged()
    assert site.queue.positions() == {site.wal.name: 0}

    with person(YES) as asked:
        ended = run_dag(DAG, peer=site.peer, wal=f"file://{site.wal}")
    assert ended.state == "success", ended.tasks
    (question,) = asked
    assert question.subject == f"Give up the rest of a broken WAL, and let peer {site.peer} go on behind it?"
    at, left = begin(site.recording), len(site.recording.content) - begin(site.recording)
    assert f"    {left:,} bytes from byte {at:,} on are given up: peer {site.peer} does not get their edits" in question.body
    assert f"    file://{site.wal}: {len(site.recording.content):,} bytes" in question.body
    assert site.queue.positions() == {}
    assert rows_at(peer_cluster, site.recording.table) == rows_up_to(BROKEN)
    assert site.aside.read_bytes() == site.wal.read_bytes()


def test_the_end_waits_for_a_batch_that_ships_the_wal(
    run_dag: Callable[..., Run], site: Site, monkeypatch: pytest.MonkeyPatch, later: Callable[..., None]
) -> None:
    """A batch of ours that is left to another run succeeds, and ships nothing. Nor does it matter here if one has failed."""
    batch = RunBatchOperator.execute

    def left_to_another(operator: RunBatchOperator, context: Any) -> None:
        later(2, batch, operator, context)
        raise RuntimeError("another group has failed")

    monkeypatch.setattr(RunBatchOperator, "execute", left_to_another)
    with person(YES):
        ended = run_dag(DAG, peer=site.peer, wal=site.wal.name)
    assert (states(ended)["ship"], states(ended)["check"]) == ("failed", "success")
    assert ended.tries["check", None] > 1
    assert site.queue.positions() == {}


def test_a_yes_counts_for_the_damage_that_was_shown(
    run_dag: Callable[..., Run], clear: Callable[..., Run], site: Site, logged: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from walferry.shipping import giving_up

    with monkeypatch.context() as patch, person(YES):
        patch.setattr(giving_up, "permit", lambda *_: 1 / 0)
        ended = run_dag(DAG, peer=site.peer, wal=site.wal.name)
    assert states(ended)["permit"] == "failed"
    site.wal.write_bytes(flipped(site.wal.read_bytes(), begin(site.recording) // 2))
    assert states(clear(DAG, ended, "permit"))["permit"] == "failed"
    assert "its damage is another one now" in logged()
    assert site.queue.positions() == {site.wal.name: 0}
    assert not site.aside.exists()


@pytest.mark.parametrize(
    ("wal", "why"),
    [
        (None, "the run needs the name or path of a WAL"),
        ("../../etc/passwd", "the run needs the name or path of a WAL"),
        ("{{ 1 }}", "the run needs the name or path of a WAL"),
        ("rs1%2C16020%2C1.1700000000000", "rs1%2C16020%2C1.1700000000000"),
    ],
)
def test_a_run_for_what_is_not_queued_asks_nobody(
    run_dag: Callable[..., Run], site: Site, wal: str | None, why: str, last_words: Callable[[], str]
) -> None:
    with person(YES) as asked:
        ended = run_dag(DAG, peer=site.peer, wal=wal)
    assert (states(ended)["look"], asked) == ("failed", [])
    assert why in last_words()


def test_without_a_folder_for_broken_wals_nobody_is_asked(
    run_dag: Callable[..., Run], site: Site, monkeypatch: pytest.MonkeyPatch, last_words: Callable[[], str]
) -> None:
    connection = json.loads(os.environ["AIRFLOW_CONN_HBASE_SOURCE"])
    del connection["extra"]["quarantine"]
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    with person(YES) as asked:
        ended = run_dag(DAG, peer=site.peer, wal=site.wal.name)
    assert (states(ended)["look"], asked) == ("failed", [])
    assert "only if the source connection's extra has `quarantine`" in last_words()
