"""After a run has ended, its note contains its tasks' outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from walferry.airflow.endings import NOTE
from walferry.airflow.run_notes import DAGS, on_dag_run_failed, on_dag_run_success

from .conftest import Run
from .test_replicate_peer import Cluster, cluster, run

__all__ = ["cluster", "run"]  # fixtures


def note_of(ended: Run, before: str | None = None, tell: Callable[[Any, str], None] = on_dag_run_success) -> str | None:
    """Return the note that the scheduler writes as the run ends.

    A test's run is not in a session of the database, so this reports the run's end once more.
    """
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.query(DagRun).filter(DagRun.run_id == ended.run_id).one()
        if before is not None:
            found.note = before
        tell(found, "")
        note: str | None = found.note
        return note


def test_a_run_s_note_says_what_was_shipped_or_why_not(run: Callable[..., Run], cluster: Cluster) -> None:
    assert note_of(run()) == "Walferry: Peer p: 7 edits shipped, 0 B"
    cluster.managed, cluster.down = ["p"], {"p": "connection refused <b>"}
    assert note_of(run()) == (
        r"Walferry: Peer p: peer p: no job is started, as its peer cluster is down: connection refused \<b\>; 1 WALs with at "
        r"least "
        "100 bytes wait for the next batch"
    )
    cluster.down, cluster.idle = {}, ["p"]
    idle = run()
    assert note_of(idle) is None
    assert note_of(idle, "of a person") == "of a person"
    assert note_of(idle, "Walferry: Peer p: failed") == "Walferry: nothing was to be done"  # a run that was cleared
    killed = note_of(idle, "Walferry: Peer p: 7 edits shipped", on_dag_run_failed)
    assert killed == "Walferry: a task has failed without telling why: see its log"


@pytest.mark.parametrize(
    ("left", "reported"),
    [("a\n# b\ud800\0c", "a # b  c"), ('{"__classname__": "x.y", "__data__": 1}', '{"__classname__": "x.y", "__data__": 1}')],
    ids=["what no database takes", "what Airflow would make an object of"],
)
def test_a_note_is_text_whatever_a_task_has_left(left: str, reported: str, run: Callable[..., Run], cluster: Cluster) -> None:
    from airflow.models.xcom import XComModel

    ended = run()
    XComModel.set(NOTE, left, dag_id="replicate_peer", task_id="peers", run_id=ended.run_id, serialize=False)
    assert note_of(ended) == f"Walferry: Peer p: 7 edits shipped, 0 B; {reported}"


def test_the_listener_knows_all_dags(dags: dict[str, Any]) -> None:
    assert set(dags) == DAGS
    assert NOTE.isidentifier()
