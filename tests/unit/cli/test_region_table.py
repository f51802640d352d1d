"""Regions as lines, for a terminal and for other programs."""

from __future__ import annotations

import os

from tests.unit.master.looks import LATE, Site, code
from walferry.cli.region_table import MAX_SHOWN, as_table
from walferry.master.states import RegionState
from walferry.master.survey import survey

TERMINAL = os.terminal_size((80, 24))


def stuck(count: int) -> Site:
    site = Site()
    for n in range(count):
        site.add(n, RegionState.OPENING, idle=LATE + n)
    return site


def test_a_thousand_regions_in_transition_fit_a_terminal_with_their_counts_and_the_most_urgent() -> None:
    lines = as_table(survey(stuck(1000).look()), TERMINAL)
    assert lines[1] == "in transition or in trouble, the most urgent first: 1,000 (1,000 OPENING); stuck: 1,000"
    assert max(map(len, lines[2:])) <= TERMINAL.columns
    assert [line.split()[2] for line in lines if line.startswith("OPENING")] == [code(999 - n) for n in range(MAX_SHOWN)]
    assert lines[-1] == f"({1000 - MAX_SHOWN:,} more regions: send the output through `less` to see all of them)"


def test_what_another_program_reads_has_each_region_in_one_line() -> None:
    lines = as_table(survey(stuck(1000).look()), None)
    assert len([line for line in lines if line.startswith("OPENING") and "Next, " in line]) == 1000
