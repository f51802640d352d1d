"""The output of commands: on terminals of any width, to other programs, and again and again."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from walferry.base.errors import WalferryError
from walferry.cli import show as showing
from walferry.cli.show import BAD, Cell, ShownTable, show, table

ROOT = Path(__file__).resolve().parents[3]
HEAD = ("ID", "STATE", "WALS", "CLUSTER")
ROWS = [["1", Cell("DISABLED", BAD), "1,200", "zk1.east,zk2.east,zk3.east:2181:/hbase"], ["peer22", "ENABLED", "7", "zk:2181:/h"]]
CONTROL = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`terminal(40)`: stdout is a terminal of so many columns."""

    def of(columns: int) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(shutil, "get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
        monkeypatch.setenv("TERM", "xterm")

    return of


def test_another_program_gets_each_row_in_one_line_without_colours() -> None:
    lines = table(HEAD, ROWS, ["WALS"]).splitlines()
    assert [line.split() for line in lines] == [
        list(HEAD), ["1", "DISABLED", "1,200", "zk1.east,zk2.east,zk3.east:2181:/hbase"], ["peer22", "ENABLED", "7", "zk:2181:/h"]
    ]  # fmt: skip
    assert lines[2].index("7") == lines[1].index("1,200") + 4, "figures end in one column"


@pytest.mark.parametrize("columns", [30, 40, 52, 60, 80, 200])
def test_a_table_fits_a_terminal_of_any_width_and_loses_nothing(terminal: Callable[[int], None], columns: int) -> None:
    terminal(columns)
    text = CONTROL.sub("", table(HEAD, ROWS, ["WALS"]))
    assert max(map(len, text.splitlines())) <= max(columns, len("  CLUSTER: zk1.east,zk2.east,zk3.east:2181:/hbase"))
    whole = re.sub(r"\s", "", text)
    for part in ("zk1.east,zk2.east,zk3.east:2181:/hbase", "DISABLED", "1,200", "peer22"):
        assert part in whole or all(piece in whole for piece in re.split(r"(?<=,)", part)), part


def test_what_a_cluster_says_is_neither_markup_nor_in_control_of_the_terminal(terminal: Callable[[int], None]) -> None:
    hostile = "[bold red]x[/bold red] :smile: \x1b]0;gone\x07\x9b2J\nFAKE  ROW"
    terminal(200)
    text = table(("A", "B"), [[hostile, Cell(hostile, BAD)]])
    plain = CONTROL.sub("", text)
    assert plain.count("[bold red]x[/bold red] :smile:") == 2
    assert all(char.isprintable() or char == "\n" for char in plain)
    assert len(plain.splitlines()) == 2


def test_colours_are_for_terminals_and_not_for_those_who_want_none(
    terminal: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal(200)
    assert "\x1b[31m" in table(HEAD, ROWS)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in table(HEAD, ROWS)


def test_what_is_watched_is_shown_again_whatever_fails_meanwhile(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def look() -> ShownTable:
        if len(looks) == 1:
            raise WalferryError("ZooKeeper is away")
        return ShownTable({"n": len(looks)}, lambda: "", status=3)

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(showing.time, "sleep", sleep)
    assert show(look, as_json=True, watch=2.5) == 3
    out, err = capsys.readouterr()
    assert out.splitlines() == ['{"n": 0}', '{"error": "ZooKeeper is away"}', '{"n": 2}']
    assert err == "walferry: ZooKeeper is away\n"
    assert looks == [2.5] * 3


def test_a_pipe_that_nobody_reads_ends_the_command_quietly() -> None:
    code = "import sys; from walferry.cli.main import main; sys.exit(main(['--help']))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins"), "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_ctrl_c_ends_what_is_watched_with_the_status_of_the_last_look() -> None:
    code = (
        "import sys; from walferry.cli.show import ShownTable, show\n"
        "sys.exit(show(lambda: ShownTable({}, lambda: 'seen', 3), as_json=False, watch=600))"
    )
    terminal, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=child, stdout=child, stderr=child, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins"), "TERM": "xterm"}, preexec_fn=_take_terminal,
    ) as process:  # fmt: skip
        os.close(child)
        seen = b""
        give_up = time.monotonic() + 30
        while b"seen" not in seen:
            assert time.monotonic() < give_up
            seen += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        try:
            assert process.wait(30) == 3
        finally:
            process.kill()  # else the end of the block would wait for it for ever
    os.close(terminal)


def _take_terminal() -> None:
    import fcntl
    import signal
    import termios

    signal.signal(signal.SIGINT, signal.default_int_handler)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
