"""Writes what a run did, or why it failed, into the run's note, which Airflow's UI shows in its list of runs.

A task cannot write the note: the API of the task SDK takes a note only for a run that a task triggers. So tasks leave a line as
an XCom, and this listener puts the lines together. Airflow calls the listener where it writes the run's end to its database. The
listener uses the session of Airflow's own object, commits nothing itself, and does not change notes that people have written.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

from walferry.airflow.endings import NOTE
from walferry.airflow.sources import common_name
from walferry.base.texts import one_line
from walferry.runs.failures import MAX_NOTE_CHARS

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session

DAGS = frozenset({
    "initial_snapshot", "check_connections", "complete_hours", "drain_recovered_queue", "emergency_start", "hand_back_peer",
    "merge_changes", "quarantine_wal", "region_master", "region_transitions", "regionserver_failover", "replicate_peer",
    "replay_interval", "retention", "verify_peer", "watch_replication",
})  # fmt: skip
MAX_LINES = 5
SAME_CHARS = 60
MAX_COMPARED = 200
MAX_CHARS = 1000  # Airflow's own limit
OURS = "Walferry: "  # our notes begin with this
# The UI renders notes as Markdown. It makes links before it reads character references ("&#58;").
_MARKDOWN = re.compile(r"([\\`*\[\]<>|~&])")

_LINK = re.compile(r"\S*(?:://|www\.|@)\S*", re.IGNORECASE)  # text that the UI would make a link of, and more
_TICK = re.compile(r"(?<!\\)`")  # begins or ends code

log = logging.getLogger(__name__)


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """Write the note of a run that has succeeded."""
    write_note(dag_run, "nothing was to be done")


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Write the note of a run that has failed."""
    write_note(dag_run, "a task has failed without telling why: see its log")


def write_note(dag_run: DagRun, without: str) -> None:
    """Write the note, if the run is one of ours and its note was not written by a person.

    A run whose tasks left no line gets no note. If it had a note from before it was cleared, `without` replaces that note's text.
    """
    from sqlalchemy.orm import object_session

    if common_name(dag_run.dag_id) not in DAGS or (session := object_session(dag_run)) is None:
        return
    try:
        before = dag_run.note
        text = note_of(_lines(dag_run, session)) or (before and f"{OURS}{without}")
        if text and (before or OURS).startswith(OURS):
            dag_run.note = text
    except Exception:  # a run must end, whatever becomes of its note
        log.exception("run %s of %s gets no note", dag_run.run_id, dag_run.dag_id)


def note_of(lines: list[str]) -> str:
    """Return the note that consists of these lines; empty if there are none."""
    if not lines:
        return ""
    shown = [_as_markdown(line[:MAX_NOTE_CHARS]) for line in lines[:MAX_LINES]]
    more = [f"and {len(lines) - MAX_LINES:,} more: see the reports"] if len(lines) > MAX_LINES else []
    text = OURS + "; ".join([*shown, *more])
    return text if len(text) <= MAX_CHARS else _cut(text)


def _as_markdown(line: str) -> str:
    """Return a line that the UI shows as it is, without a link in it. Only code keeps the UI from making links, not escapes."""
    shown, at = [], 0
    for word in _LINK.finditer(line):
        code = word[0].replace("`", "'")
        shown += [_MARKDOWN.sub(r"\\\1", line[at : word.start()]), f"`{code}`"]
        at = word.end()
    return "".join([*shown, _MARKDOWN.sub(r"\\\1", line[at:])])


def _cut(text: str) -> str:
    """Return the beginning of a note that does not end in the middle of an escape or of a code word."""
    kept = text[: MAX_CHARS - 1]
    ticks = [tick.start() for tick in _TICK.finditer(kept)]
    if len(ticks) % 2:
        kept = kept[: ticks[-1]]
    return kept.rstrip("\\") + "…"


def _lines(dag_run: DagRun, session: Session) -> list[str]:
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    # The values as they are stored: Airflow would make an object of some texts, here in the scheduler.
    found = session.scalars(
        select(XComModel.value)
        .where(XComModel.dag_run_id == dag_run.id, XComModel.key == NOTE)
        .order_by(XComModel.task_id, XComModel.map_index)
    )
    return without_repeats([one_line(value, MAX_NOTE_CHARS) for value in found if isinstance(value, str) and value])


def without_repeats(lines: list[str]) -> list[str]:
    """Return the lines without repeated ones: a report repeats why the task before it failed.

    A line is left out if another one contains its beginning. The scheduler waits meanwhile, so only the first lines are compared.
    """
    every = list(dict.fromkeys(lines))
    some, others = every[:MAX_COMPARED], every[MAX_COMPARED:]
    return [line for line in some if not any(line != other and line[:SAME_CHARS] in other for other in some)] + others
