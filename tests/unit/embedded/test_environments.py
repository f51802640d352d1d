"""What tests run on: the Makefile's choice of a Python and a lock, and what the documentation says of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.doc_tables import page, rows

ROOT = Path(__file__).resolve().parents[3]
LOCKS = {"3.11": ROOT / "requirements.lock", **{path.stem: path for path in (ROOT / "requirements").glob("*.lock")}}
_tested = re.search(r"^PYTHONS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
assert _tested
TESTED = _tested[1].split()


def make(tmp_path: Path, *arguments: str, pythons: dict[str, int]) -> subprocess.CompletedProcess[str]:
    """Run make where PATH has only these Pythons, each of which ends with a code."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for minor, code in pythons.items():
        (folder / f"python{minor}").write_text(f"#!/bin/sh\nexit {code}\n")
        (folder / f"python{minor}").chmod(0o755)
    program = shutil.which("make")
    assert program
    return subprocess.run([program, *arguments], cwd=ROOT, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("pythons", "python", "lock"),
    [
        ({"3.11": 0, "3.13": 0}, "python3.11", "requirements.lock"),
        ({"3.12": 0, "3.13": 0}, "python3.12", "requirements/3.12.lock"),
        ({"3.11": 127, "3.13": 0}, "python3.13", "requirements/3.13.lock"),  # pyenv's command of a Python that is off
    ],
)
def test_the_first_tested_python_that_is_there_is_taken_with_its_lock(
    tmp_path: Path, pythons: dict[str, int], python: str, lock: str
) -> None:
    planned = make(tmp_path, "-n", "venv", f"VENV={tmp_path}/venv", pythons=pythons)
    assert f"{python} -m embedded.venv {tmp_path}/venv {lock}" in planned.stdout, planned.stderr


def test_without_a_tested_python_those_are_named(tmp_path: Path) -> None:
    done = make(tmp_path, "venv", f"VENV={tmp_path}/venv", pythons={"3.10": 0})
    assert done.returncode == 2
    assert "Install one of 3.11 3.12 3.13" in done.stderr


def test_another_environment_has_a_folder_of_its_own(tmp_path: Path) -> None:
    planned = make(tmp_path, "-n", "venv", "WITH=3.13-spark-4.3", pythons={"3.11": 0, "3.13": 0})
    own = f"python3.13 -m embedded.venv {ROOT}/.venv-3.13-spark-4.3 requirements/3.13-spark-4.3.lock"
    assert own in planned.stdout or (ROOT / ".venv-3.13-spark-4.3" / ".installed").exists()


def test_the_missing_python_of_an_environment_is_named(tmp_path: Path) -> None:
    done = make(tmp_path, "python", "WITH=3.13", pythons={"3.11": 0})
    assert done.returncode == 2
    assert "There is no `python3.13` on PATH, which WITH=3.13 needs" in done.stderr


def test_each_tested_python_has_a_lock_and_pip_installs_the_library_there() -> None:
    assert {name.partition("-")[0] for name in LOCKS} == set(TESTED)
    assert set(TESTED) <= LOCKS.keys()
    taken = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    assert [minor for minor in TESTED if minor not in taken] == []


@pytest.mark.parametrize(
    ("environment", "locked"), [("3.12", ["run/3.12.lock", "3.12.lock"]), ("3.11-spark-4.1", ["3.11-spark-4.1.lock"])]
)
def test_what_developing_takes_is_locked_within_what_runs(tmp_path: Path, environment: str, locked: list[str]) -> None:
    planned = make(tmp_path, "-n", "lock", f"WITH={environment}", pythons={"3.11": 0, "3.12": 0}).stdout
    commands = [line for line in planned.splitlines() if "embedded.lock" in line]
    assert [command.split()[-1].removeprefix("requirements/") for command in commands] == locked
    assert ("PIP_CONSTRAINT=constraints-3.12.txt" in commands[-1]) == (len(locked) == 2)
    assert "requirements/develop.txt" in commands[-1]


@pytest.mark.parametrize("text", [page("../README.md"), page("install.md")], ids=["README", "install"])
def test_an_installation_begins_with_the_small_step_that_refuses_a_python(text: str) -> None:
    """A lock on another Python ends in pip's alarm about hashes, and constraints in one about versions."""
    first, second = re.findall(r"^ +(pip install .*?)(?:  .*)?$", text, re.MULTILINE)[:2]
    assert first == "pip install --no-deps ."
    assert second == "pip install '.[airflow,spark]' --constraint constraints-3.11.txt"


def test_the_documentation_has_the_versions_of_the_locks() -> None:
    section = page("install.md").partition("## Python, Airflow and Spark")[2].partition("\n## ")[0]
    told = {name.strip("`"): versions for name, *versions, _ in rows(section)}
    assert told == {name: [_version(lock, "apache-airflow"), _version(lock, "pyspark")] for name, lock in LOCKS.items()}


def _version(lock: Path, package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", lock.read_text(), re.MULTILINE)
    assert found
    return found[1]
