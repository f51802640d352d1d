"""The command as a whole: how quickly it begins, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from kazoo.exceptions import ConnectionLoss, NoAuthError, SessionExpiredError

from walferry.base.errors import WalferryError
from walferry.cli import main as cli
from walferry.cli import regions as region_commands
from walferry.cli.main import COMMANDS, main
from walferry.cli.source import Chosen
from walferry.master import reconcile, work

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
HEAVY = ("airflow", "numba", "numpy", "pyspark", "pyarrow", "kazoo", "rich")
SOURCE = {"host": "zk1", "extra": {"wal_root": "file:///hbase"}}


def every_command() -> list[list[str]]:
    """The words of each command, and of each group."""

    def below(words: list[str], command: click.Command) -> list[list[str]]:
        under = command.commands if isinstance(command, click.Group) else {}
        return [words, *(found for name, each in under.items() for found in below([*words, name], each))]

    context = click.Context(cli.walferry)
    return [[], *(found for name in COMMANDS for found in below([name], cli.walferry.get_command(context, name)))]


def command_of(path: list[str]) -> click.Command:
    found: click.Command = cli.walferry
    for name in path:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name) or pytest.fail(f"there is no {name}")
    return found


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_each_command_has_a_help_that_fits_a_terminal(words: list[str]) -> None:
    result = CliRunner().invoke(cli.walferry, [*words, "--help"], terminal_width=80)
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80
    assert "..." not in result.output.partition("Commands:")[2], "a short help that is cut off"


def test_each_command_of_the_first_help_says_what_its_own_does() -> None:
    context = click.Context(cli.walferry)
    for name, lazy in COMMANDS.items():
        command = cli.walferry.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert lazy.help.split()[0] == (command.help or "").split()[0], name


def imported_by(*arguments: str) -> set[str]:
    code = f"import sys; from walferry.cli.main import main; main({list(arguments)!r}); print(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return set(run.stderr.split())


@pytest.mark.long
def test_a_help_imports_nothing_that_takes_long() -> None:
    for words in (["peers"], ["peers", "create"], ["wal", "find"], ["regions", "unstick"]):
        assert imported_by(*words, "--help").isdisjoint(HEAVY)


def test_the_first_help_imports_few_modules() -> None:
    imported = imported_by("--help")
    assert imported.isdisjoint(HEAVY)
    assert len(imported) < 250  # Python's own 33, click's, and the groups' short texts


def test_without_a_command_the_help_is_shown_as_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().err
    assert main(["peers"]) == 2
    assert "set-table-cfs" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["nope"], ["peers", "nope"], ["--nope"], ["--source"], ["--source", "{}", "--conn-id", "x", "peers", "list"]]
)
def test_what_is_not_a_command_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "walferry: " in err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(["statsu"], "status"), (["peers", "tak-over"], "take-over"), (["queues", "set-positon", "2", "wal", "0"], "set-position")],
)
def test_a_misspelt_command_is_answered_with_the_one_that_was_meant(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_what_is_refused_is_one_line_and_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Chosen) -> None:
        raise WalferryError("peer \x1b[2J\x9b1Ax: no", "Say [red]please[/red]")

    monkeypatch.setattr(Chosen, "reached", refuse)
    assert main(["peers", "list"]) == 1
    assert capsys.readouterr().err == "walferry: peer  [2J 1Ax: no. Say [red]please[/red]\n"


def test_a_command_that_is_interrupted_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Chosen) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Chosen, "reached", interrupt)
    assert main(["peers", "list"]) == 130
    assert capsys.readouterr().err.split() == ["walferry:", "interrupted"]


def test_the_limits_of_the_region_commands_are_those_of_what_they_call() -> None:
    assert (region_commands.LIMIT_SECONDS, region_commands.WAIT_SECONDS) == (reconcile.LIMIT_SECONDS, work.WAIT_SECONDS)


def test_the_shell_s_completion_knows_commands_and_options() -> None:
    def complete(words: str) -> list[str]:
        at = {"COMP_WORDS": f"walferry {words}", "COMP_CWORD": str(len(words.split()))}
        wanted = {"_WALFERRY_COMPLETE": "bash_complete", **at}
        run = subprocess.run(
            [sys.executable, "-c", "from walferry.cli.main import main; main([])"], env={**ENVIRONMENT, **wanted},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return [line.partition(",")[2] for line in run.stdout.split()]

    assert complete("pe") == ["peers"]
    assert complete("peers set") == ["set", "set-table-cfs"]
    assert "--cluster-key" in complete("peers create --cl")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (NoAuthError(), "Log in to ZooKeeper as a user that the ACL of HBase's znodes names"),
        (SessionExpiredError(), "try again"),
        (ConnectionLoss(), "try again"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_of_zookeeper_s_ends_a_command_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, advice: str
) -> None:
    def refuse(chosen: Chosen) -> object:
        raise error

    monkeypatch.setattr(Chosen, "reached", refuse)
    assert main(["--source", json.dumps(SOURCE), "peers", "list"]) == 1
    reported = capsys.readouterr().err
    assert reported.startswith(f"walferry: ZooKeeper has refused a request: {type(error).__name__}")
    assert advice in reported
    monkeypatch.setattr("time.sleep", interrupted)
    assert main(["--source", json.dumps(SOURCE), "peers", "list", "--watch", "1"]) == 1
    assert capsys.readouterr().err == reported, "the next look may go well"


def commands_with_json() -> list[list[str]]:
    """The words of each command that takes --json and needs a source, with a word for each argument."""
    found = [["wal", "find", "--json", "--row", "x"]]
    for words in every_command():
        params = command_of(words).params if words and words[0] != "wal" else []
        if any("--json" in param.opts for param in params):
            taken = [param for param in params if isinstance(param, click.Argument)]
            found.append([*words, "--json", *(["x,1,1/2-x,1,1"] * sum(max(each.nargs, 1) for each in taken))])
    return found


@pytest.mark.parametrize("arguments", commands_with_json(), ids=" ".join)
def test_with_json_an_error_is_json_too(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_HBASE_SOURCE", raising=False)
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    (line,) = out.splitlines()
    assert json.loads(line).keys() == {"error"}
    assert err == f"walferry: {json.loads(line)['error']}\n", "people read stderr"


def test_with_json_and_watch_each_look_that_fails_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_HBASE_SOURCE", raising=False)
    monkeypatch.setattr("time.sleep", interrupted)
    assert main(["peers", "list", "--json", "--watch", "1"]) == 1
    assert "is not set" in json.loads(capsys.readouterr().out)["error"]


def interrupted(seconds: float) -> None:
    raise KeyboardInterrupt


def test_an_error_that_nobody_has_thought_of_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(chosen: Chosen) -> object:
        raise RuntimeError("boo")

    monkeypatch.setattr(Chosen, "reached", fail)
    for arguments in (["peers", "list"], ["peers", "list", "--watch", "1"]):
        with pytest.raises(RuntimeError, match="boo"):
            main(["--source", json.dumps(SOURCE), *arguments])


def default_of(option: click.Option) -> str:
    """As docs/command.md has it: only what a reader could not tell from the option's text."""
    value = option.default
    return f"{value:g}" if isinstance(value, float) else str(value) if type(value) in (int, str) and not option.is_flag else ""


def test_the_documentation_has_each_option_of_each_command_with_its_default() -> None:
    rows = re.findall(r"(?m)^\| (`--.*?) \| (`.*?) \| (.*?)\| (?=[\w`])", (ROOT / "docs/command.md").read_text())
    reported = {
        (command, option, default.strip())
        for options, commands, default in rows
        for option in re.findall(r"`(.*?)`", options)
        for command in re.findall(r"`(.*?)`", commands)
    }
    assert reported == {
        (" ".join(path), name, default_of(option))
        for path in every_command()
        if path
        for option in command_of(path).params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }
