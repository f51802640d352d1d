"""The output of the commands for regions cannot control the terminal."""

from __future__ import annotations

import logging
import os

import pytest

from tests.unit.master.looks import LATE, Site, code
from walferry.cli import regions
from walferry.cli.main import main
from walferry.cli.regions import MAX_SHOWN, as_table
from walferry.master.errors import LiveMaster
from walferry.master.states import RegionState
from walferry.master.survey import survey

TERMINAL = os.terminal_size((80, 24))


def test_no_server_can_control_the_terminal_by_its_name(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Znodes and servers' answers name hosts as they like; errors and log lines repeat them."""

    def refuse(*_: object) -> None:
        logging.getLogger("walferry.master.calls").warning("%s answers", "rs\x1b]0;gone\x07,1,2")
        raise LiveMaster("m\x1b[2J\x9b1A,1,2", "/hbase/master")

    monkeypatch.setattr(regions, "_look", refuse)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    assert main(["regions", "list"]) == 1
    reported = capfd.readouterr().err
    assert "rs ]0;gone ,1,2 answers\n" in reported
    assert "HMaster m [2J 1A,1,2 is active" in reported
    assert all(char.isprintable() or char == "\n" for char in reported)


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
