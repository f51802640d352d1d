"""A command's output is compared with the output that the runbook shows, as a reader would compare them."""

from __future__ import annotations

import pytest

from tests.runbooks.matching import compare, filled_in
from tests.runbooks.reading import RunbookError

PRINTED = """\
PEER  SHIPPED BY  CLUSTER    FINDINGS
2     Walferry    reachable  it has failed for 3 min: it is broken
9     HBase       reachable
queue 2-rs1,16020,1 at walferry,1,1
"""


def test_shown_lines_are_there_in_their_order_whatever_is_between_them() -> None:
    assert compare(["PEER SHIPPED BY CLUSTER FINDINGS", "…", "queue … at walferry,1,1"], PRINTED, {}) == {}


def test_a_placeholder_is_what_is_printed_in_its_place_from_then_on() -> None:
    known = compare(["PEER  SHIPPED BY  CLUSTER  FINDINGS", "PEER  Walferry …", "queue QUEUE at SERVER"], PRINTED, {})
    assert known == {"PEER": "2", "QUEUE": "2-rs1,16020,1", "SERVER": "walferry,1,1"}
    assert filled_in("walferry drain SERVER/QUEUE", known) == "walferry drain walferry,1,1/2-rs1,16020,1"
    with pytest.raises(RunbookError):
        compare(["PEER  HBase …"], PRINTED, known)


@pytest.mark.parametrize(
    "shown",
    [["nothing of the kind"], ["queue … at walferry,1,1", "9 HBase reachable"], ["2 Walferry reachable"], ["… at walferry,1"]],
    ids=["absent", "other order", "the line goes on", "the line ends otherwise"],
)
def test_a_line_that_is_not_there_is_told(shown: list[str]) -> None:
    with pytest.raises(RunbookError, match="has no line like this"):
        compare(shown, PRINTED, {})


def test_a_placeholder_behind_anything_is_a_whole_word() -> None:
    printed = "STATE SECONDS REGION\nOPENING 23 b610d1 t at s: it w t x"
    known = compare(["STATE SECONDS REGION", "OPENING … REGION t …"], printed, {})
    assert known == {"REGION": "b610d1"}


def test_what_is_printed_cannot_become_a_part_of_a_shells_command() -> None:
    with pytest.raises(RunbookError):
        compare(["queue QUEUE at x"], "queue $(reboot) at x", {})


def test_a_command_with_a_placeholder_that_is_not_known_is_refused() -> None:
    with pytest.raises(RunbookError, match="has not said what QUEUE is"):
        filled_in("walferry drain SERVER/QUEUE", {"SERVER": "s"})
