"""The line of a failure for the note on a run."""

from walferry.runs.failures import MAX_NOTE_CHARS
from walferry.runs.reports.batch import noted


def test_a_reason_that_is_cut_ends_with_a_mark() -> None:
    for count, end in ((1, "…"), (3, "… (and 2 more)")):
        line = noted("Peer p", ["x" * MAX_NOTE_CHARS] * count)
        assert line.endswith(f"x{end}")
        assert len(line) == MAX_NOTE_CHARS
    assert noted("Peer p", ["y" * (MAX_NOTE_CHARS - 8)]) == f"Peer p: {'y' * (MAX_NOTE_CHARS - 8)}"
