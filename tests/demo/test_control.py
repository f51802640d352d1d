"""Only scripts reach the running demo, through its state file and its socket."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from demo import commands
from demo.control import Control, FaultError, ask
from demo.state import REPO, VARIABLE, NoDemoError, State, read_state, state_path


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    """The state of a demo, which is not written yet."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state.json"))
    environment = commands.environment(tmp_path / "bin", {"PATH": "/usr/bin:/bin", "AIRFLOW_HOME": str(tmp_path)})
    return State(1, str(tmp_path / "socket"), "http://a", "http://a/page", "demo", {"peer_cluster": 2}, environment)


@pytest.fixture
def running(state: State) -> State:
    """A demo that knows three actions."""

    def kill() -> Sequence[str]:
        return ["killed", "look"]

    def refuse() -> Sequence[str]:
        raise FaultError("only one is left")

    def fail() -> Sequence[str]:
        raise KeyError("a bug")

    Control(Path(state.socket), {"kill_server": kill, "kill_server --undo": refuse, "compare": fail}).start()
    state.write()
    return state


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"demo.{name}", *arguments]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=False)


def test_the_state_is_for_its_owner_only_even_if_a_file_that_all_can_read_was_there(state: State) -> None:
    state_path().write_text("{}")
    state_path().chmod(0o644)
    state.write()
    assert stat.S_IMODE(state_path().stat().st_mode) == 0o600
    assert read_state() == state


def test_a_demo_removes_its_own_state_and_not_that_of_another_one(state: State) -> None:
    state.write()
    replace(state, pid=3).write()
    state.remove()
    assert read_state().pid == 3
    replace(state, pid=3).remove()
    assert not state_path().exists()
    state.remove()


def test_without_a_demo_a_script_says_how_to_start_one(state: State) -> None:
    done = script("kill_server")
    assert (done.returncode, done.stdout) == (1, "")
    assert "start one with `make demo`" in done.stderr
    state.write()
    with pytest.raises(NoDemoError, match="does not answer"):
        ask("kill_server")


@pytest.mark.parametrize("text", ["", "[]", '{"pid": 1}'])
def test_a_file_that_is_not_a_state_is_told(state: State, text: str) -> None:
    state_path().write_text(text)
    with pytest.raises(NoDemoError, match="does not say where a demo is"):
        read_state()


def test_a_script_prints_what_the_demo_did_or_why_not(running: State) -> None:
    done = script("kill_server")
    assert (done.returncode, done.stdout) == (0, "killed\nlook\n")
    done = script("kill_server", "--undo")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "demo: only one is left\n")


def test_the_demo_goes_on_after_what_it_does_not_know_or_cannot_do(running: State) -> None:
    for action, why in (("format the disk", "knows no 'format the disk'"), ("compare", "a bug"), ("x" * 5000, "knows no 'xxx")):
        with pytest.raises((FaultError, NoDemoError), match=why):
            ask(action)
    assert ask("kill_server") == ["killed", "look"]


def test_a_command_gets_the_demos_environment_and_its_own_arguments(running: State, tmp_path: Path) -> None:
    done = script("run", "sh", "-c", 'echo "$AIRFLOW_HOME" "$1"', "sh", "two words")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path} two words\n")
    done = script("run", "walferry", "--version")
    assert done.stdout.startswith("walferry ")
    assert script("run", "no-such-command").returncode == 127


def test_the_docs_name_each_script_of_the_demo_and_no_other() -> None:
    docs = REPO / "docs"
    text = "".join(path.read_text() for path in [docs / "demo.md", *(docs / "runbooks").glob("*.md")])
    scripts = {path.stem for path in (REPO / "demo").glob("*.py") if '__name__ == "__main__"' in path.read_text()} - {"__main__"}
    assert set(re.findall(r"python -m demo\.(\w+)", text)) == scripts
