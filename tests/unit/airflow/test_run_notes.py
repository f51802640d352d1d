"""The note on a run: text that makes no links, and fits."""

from __future__ import annotations

import time

import pytest

from walferry.airflow.run_notes import MAX_CHARS, MAX_LINES, note_of, without_repeats
from walferry.runs.failures import MAX_NOTE_CHARS


def test_a_note_shows_text_from_outside_as_it_is() -> None:
    assert note_of(["see [here] `rm` <b>"]) == r"Walferry: see \[here\] \`rm\` \<b\>"
    assert note_of([]) == ""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("see http://evil.example/?a=b now", "see `http://evil.example/?a=b` now"),
        ("see [here](HTTPS://evil_x) `now`", r"see `[here](HTTPS://evil_x)` \`now\`"),
        ("www.evil.example.", "`www.evil.example.`"),
        ("(as hbase/rs1@EXAMPLE.COM)", "(as `hbase/rs1@EXAMPLE.COM)`"),
        ("see https&#58;//evil www&period;evil", r"see https\&#58;//evil www\&period;evil"),
        ("run `curl http://evil`", "run \\`curl `http://evil'`"),
    ],
)
def test_a_note_has_no_links(line: str, shown: str) -> None:
    """The UI makes them of URLs and addresses, escaped or not, but not of code."""
    assert note_of([line]) == f"Walferry: {shown}"


@pytest.mark.parametrize("length", range(MAX_NOTE_CHARS - 60, MAX_NOTE_CHARS))
def test_a_note_that_is_cut_has_no_half_of_code_at_its_end(length: int) -> None:
    note = note_of(["x" * MAX_NOTE_CHARS] * 2 + ["y" * 260, "z" * (length - 120) + " http://evil.example/" + "e" * 200])
    assert len(note) <= MAX_CHARS
    assert note.count("`") % 2 == 0
    assert "http" not in note.replace("`", " ` ").split(" ` ")[0]


def test_a_note_fits_into_airflow_s_database() -> None:
    note = note_of([f"{i} " + "[" * 1000 for i in range(MAX_LINES + 3)])
    assert len(note) <= MAX_CHARS
    assert note_of([str(i) for i in range(MAX_LINES + 3)]).endswith("; and 3 more: see the reports")


def test_a_note_tells_nothing_twice() -> None:
    assert without_repeats(["peer cluster is down", "Peer p: peer cluster is down; 3 WALs wait", "other", "other"]) == [
        "Peer p: peer cluster is down; 3 WALs wait", "other",
    ]  # fmt: skip


def test_notes_of_very_many_tasks_are_put_together_at_once() -> None:
    """The scheduler waits for it."""
    lines = [f"Peer {i:06}: {i} edits shipped, and so on {'x' * 200}" for i in range(20_000)]
    began = time.monotonic()
    assert without_repeats(lines) == lines
    assert time.monotonic() - began < 2
