"""What the commands for regions print cannot control the terminal."""

from __future__ import annotations

import logging

import pytest

from walferry.cli import regions
from walferry.cli.main import main
from walferry.master.errors import LiveMaster


def test_no_server_can_control_the_terminal_by_its_name(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Znodes and servers' answers name hosts as they like; errors and log lines repeat them."""

    def refuse(_: object) -> None:
        logging.getLogger("walferry.master.calls").warning("%s answers", "rs\x1b]0;gone\x07,1,2")
        raise LiveMaster("m\x1b[2J\x9b1A,1,2", "/hbase/master")

    monkeypatch.setattr(regions, "_session", refuse)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    assert main(["regions", "list"]) == 1
    told = capfd.readouterr().err
    assert "rs ]0;gone ,1,2 answers\n" in told
    assert "HMaster m [2J 1A,1,2 is active" in told
    assert all(char.isprintable() or char == "\n" for char in told)
