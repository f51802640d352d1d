"""`walferry peers`: refusals before anything connects."""

from __future__ import annotations

import pytest

from walferry.cli.main import main


def test_a_source_that_is_not_a_connection_is_refused_before_anything_connects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--source", "{}", "peers", "list"]) == 1
    assert "is not that of an HBase cluster" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["create", "p1"], ["hand-back", "p1"], ["enable", "p1"], ["set", "p1"], ["set", "p1", "sink"], ["set", "p1", "=x"],
     ["set-table-cfs", "p1"], ["set-table-cfs", "p1", "t", "--all"], ["list", "--watch", "0"], ["show"]],
)  # fmt: skip
def test_half_a_command_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--source", "{}", "peers", *arguments]) == 2
    assert "walferry: " in capsys.readouterr().err


@pytest.mark.parametrize("command", [["create", "p1", "--cluster-key", "zk:2181:/hbase", "--table-cfs"], ["set-table-cfs", "p1"]])
def test_a_table_that_is_none_is_a_usage_error_that_says_how_to_write_it(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["peers", *command, "t="]) == 2
    assert "'t=' is not [namespace:]table[=family,family], table:family,family, or what HBase's shell" in capsys.readouterr().err
