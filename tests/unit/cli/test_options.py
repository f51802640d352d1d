"""Which values commands take for the parameters that they share."""

from __future__ import annotations

import pytest

from walferry.cli import options
from walferry.cli.main import main
from walferry.hbase.files.quarantine import BrokenWals
from walferry.replication.peers.settings import SinkKind


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_that_cannot_be_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regions", "unstick", "--port", port]) == 2
    assert "'--port':" in capsys.readouterr().err


def test_the_choices_of_commands_that_ship_are_those_of_what_ships() -> None:
    assert list(options.BROKEN_WALS) == [str(each) for each in BrokenWals]
    assert list(options.SINKS) == [str(each) for each in SinkKind]
