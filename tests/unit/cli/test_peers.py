"""`walferry peers`: refusals before anything connects."""

from __future__ import annotations

from pathlib import Path

import pytest

from walferry.cli.main import main
from walferry.cli.options import MAX_FILE_BYTES, text_of_file


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


@pytest.mark.parametrize(
    ("data", "why"),
    [(None, "cannot be read: No such file or directory"), (b"\xff", "is not in UTF-8"), (b" \n", "is empty"),
     (b"x" * (MAX_FILE_BYTES + 1), "has more than 1,048,576 characters")],
)  # fmt: skip
@pytest.mark.parametrize("command", [["set", "p1", "lake.columns=@{}"], ["create", "p1", "--lake", "lake", "--columns", "{}"]])
def test_a_file_that_is_none_of_text_is_a_usage_error_that_names_it(
    command: list[str], data: bytes | None, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty value would take the setting away."""
    file = tmp_path / "columns.json"
    if data is not None:
        file.write_bytes(data)
    assert main(["peers", *(word.format(file) for word in command)]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert f"file {file} {why}" in error


def test_a_file_s_text_comes_without_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "columns.json"
    file.write_bytes(b"\xef\xbb\xbf[]\n")
    assert text_of_file(str(file)) == "[]\n"


def test_columns_are_for_lakes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "columns.json"
    file.write_text("[]")
    assert main(["peers", "create", "p1", "--cluster-key", "zk:2181:/hbase", "--columns", str(file)]) == 2
    assert "--columns is for --lake" in capsys.readouterr().err
