"""Writes what a run did, or why it failed, into the run's note, which Airflow's UI shows in its list of runs.

A task cannot do that: the API of the task SDK takes a note only for a run that a task triggers. So tasks leave a line as an XCom,
and this listener, which Airflow calls where the run's end is written to its database, puts them together. It uses the session
that Airflow's own object is in, commits nothing itself, and leaves notes alone that people have written.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

from walferry.airflow.endings import NOTE
from walferry.base.texts import one_line
from walferry.runs.failures import MAX_NOTE_CHARS

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session

DAGS = frozenset({
    "initial_snapshot", "check_connections", "drain_recovered_queue", "emergency_start", "region_transitions",
    "regionserver_failover", "replicate_peer", "replay_interval", "retention", "verify_peer", "watch_replication",
})  # fmt: skip
MAX_LINES = 5
SAME_CHARS = 60
MAX_COMPARED = 200
MAX_CHARS = 1000  # Airflow's own bound
OURS = "Walferry: "  # how our notes begin
# The UI renders notes as Markdown, and makes links only when it has read the names of characters ("&#58;").
_MARKDOWN = re.compile(r"([\\`*\[\]<>|~&])")

_LINK = re.compile(r"\S*(?:://|www\.|@)\S*", re.IGNORECASE)  # what the UI would make a link of, and more
_TICK = re.compile(r"(?<!\\)`")  # that begins or ends code

log = logging.getLogger(__name__)


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """A run has succeeded."""
    write_note(dag_run, "nothing was to be done")


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """A run has failed."""
    write_note(dag_run, "a task has failed without telling why: see its log")


def write_note(dag_run: DagRun, without: str) -> None:
    """Write the note, if the run is one of ours and nobody has written another one.

    Without any line from its tasks a run has none; `without` stands in the place of what the run had before it was cleared.
    """
    from sqlalchemy.orm import object_session

    if dag_run.dag_id not in DAGS or (session := object_session(dag_run)) is None:
        return
    try:
        before = dag_run.note
        text = note_of(_lines(dag_run, session)) or (before and f"{OURS}{without}")
        if text and (before or OURS).startswith(OURS):
            dag_run.note = text
    except Exception:  # a run must end whatever becomes of its note
        log.exception("run %s of %s gets no note", dag_run.run_id, dag_run.dag_id)


def note_of(lines: list[str]) -> str:
    """The note of these lines; empty if there are none."""
    if not lines:
        return ""
    shown = [_as_markdown(line[:MAX_NOTE_CHARS]) for line in lines[:MAX_LINES]]
    more = [f"and {len(lines) - MAX_LINES:,} more: see the reports"] if len(lines) > MAX_LINES else []
    text = OURS + "; ".join([*shown, *more])
    return text if len(text) <= MAX_CHARS else _cut(text)


def _as_markdown(line: str) -> str:
    """A line that the UI shows as it is, without a link in it. Only code is safe from that: escapes do not keep it from them."""
    shown, at = [], 0
    for word in _LINK.finditer(line):
        code = word[0].replace("`", "'")
        shown += [_MARKDOWN.sub(r"\\\1", line[at : word.start()]), f"`{code}`"]
        at = word.end()
    return "".join([*shown, _MARKDOWN.sub(r"\\\1", line[at:])])


def _cut(text: str) -> str:
    """The beginning of a note, with neither half an escape nor half a word of code at its end."""
    kept = text[: MAX_CHARS - 1]
    ticks = [tick.start() for tick in _TICK.finditer(kept)]
    if len(ticks) % 2:
        kept = kept[: ticks[-1]]
    return kept.rstrip("\\") + "…"


def _lines(dag_run: DagRun, session: Session) -> list[str]:
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    # As they are stored: Airflow would make an object of a text that looks like one, here in the scheduler.
    found = session.scalars(
        select(XComModel.value)
        .where(XComModel.dag_run_id == dag_run.id, XComModel.key == NOTE)
        .order_by(XComModel.task_id, XComModel.map_index)
    )
    return told_once([one_line(value, MAX_NOTE_CHARS) for value in found if isinstance(value, str) and value])


def told_once(lines: list[str]) -> list[str]:
    """Without the lines that others begin with, or repeat: a report tells what the task before it has failed of.

    The scheduler waits meanwhile, so of very many only the first ones are compared.
    """
    every = list(dict.fromkeys(lines))
    some, others = every[:MAX_COMPARED], every[MAX_COMPARED:]
    return [line for line in some if not any(line != other and line[:SAME_CHARS] in other for other in some)] + others
