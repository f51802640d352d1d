"""pip's run for the virtual environment: its progress, and its failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded import venv

LOST = "ReadTimeoutError: HTTPSConnectionPool(host='index'): Read timed out."


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment whose `pip` runs the scripts that `pip_says` has written, one a run."""
    (tmp_path / "bin").mkdir()
    pip = tmp_path / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\ncd {tmp_path}\necho run >> runs\n. ./run-$(wc -l < runs | tr -d " ").sh\n')
    pip.chmod(0o755)
    (tmp_path / "requirements.lock").write_text("one==1\ntwo==2\n")
    return tmp_path


def pip_says(environment: Path, *scripts: str) -> None:
    for n, script in enumerate(scripts, start=1):
        (environment / f"run-{n}.sh").write_text(script)


def install(environment: Path) -> int:
    return venv.install(environment, environment / "requirements.lock", 2, pauses=(0, 0))


def runs(environment: Path) -> int:
    return len((environment / "runs").read_text().splitlines())


def test_it_says_how_far_it_is(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip goes on only once it was said how far it is."""
    monkeypatch.setattr(venv, "PROGRESS_SECONDS", 0.05)
    packages = environment / "lib" / "python3.11" / "site-packages"
    said = environment / "said"
    said.touch()

    def say(text: str) -> None:
        with said.open("a") as lines:
            lines.write(f"{text}\n")

    monkeypatch.setattr(venv, "_say", say)
    begun, installed = "1 of 2 looked up, now: Downloading one-1.whl (3 MB)", "1 of 2 installed"
    pip_says(
        environment,
        f"""
        await() {{ until grep -qF "$1" said; do sleep 0.02; done; }}
        echo Collecting one==1; echo '  Downloading one-1.whl (3 MB)'; await '{begun}'; echo Collecting two==2
        echo 'Installing collected packages: one, two'
        mkdir -p {packages}/one-1.dist-info; await '{installed}'; mkdir {packages}/two-2.dist-info
        """,
    )
    assert install(environment) == 0
    lines = list(dict.fromkeys(said.read_text().splitlines()))
    assert [line for line in (begun, installed, "2 of 2 installed") if f"Python packages: {line}" not in lines] == []


def test_after_a_lost_connection_it_runs_again(environment, capsys):
    pip_says(environment, f'echo "{LOST}"; exit 2', "exit 0")
    assert install(environment) == 0
    assert runs(environment) == 2
    said = capsys.readouterr().out
    assert LOST in said
    assert "trying again in 0 s" in said


def test_after_some_tries_it_shows_what_pip_said(environment, capsys):
    pip_says(environment, *[f'echo "{LOST}"; exit 2'] * 3)
    assert install(environment) == 2
    assert runs(environment) == 3
    assert f"{LOST}\nthe Python packages could not be installed: pip's exit code is 2" in capsys.readouterr().out


def test_a_version_that_is_not_there_is_not_asked_for_again(environment, capsys):
    pip_says(environment, "echo 'ERROR: No matching distribution found for one==1'; exit 1")
    assert install(environment) == 1
    assert runs(environment) == 1
    assert "No matching distribution found for one==1" in capsys.readouterr().out
