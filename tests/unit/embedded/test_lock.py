"""A lock out of pip's reports."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from embedded import lock

ROOT = Path(__file__).resolve().parents[3]
SOURCES = (ROOT / "requirements.txt", ROOT / "requirements" / "develop.txt")
RUN = sorted((ROOT / "requirements" / "run").glob("*.lock"))
LOCKS = [ROOT / "requirements.lock", *sorted((ROOT / "requirements").glob("*.lock"))]


def installed(name: str, version: str, digest: str) -> dict[str, Any]:
    archive = {"hashes": {"sha256": digest}}
    return {"metadata": {"name": name, "version": version}, "download_info": {"url": "https://x/y.whl", "archive_info": archive}}


def test_each_package_is_one_line_with_the_hashes_of_all_platforms() -> None:
    here = {"install": [installed("numpy", "2", "bb"), installed("Babel", "1", "cc")]}
    there = {"install": [installed("numpy", "2", "aa")]}
    assert lock.lines([here, there]) == ["Babel==1 --hash=sha256:cc", "numpy==2 --hash=sha256:aa --hash=sha256:bb"]


def test_a_later_file_s_pin_takes_the_place_of_an_earlier_one() -> None:
    first, second = "# A comment.\nbabel==1\nOne_two[x]==1\n", "one-two==2\n"
    assert lock.merged([first, second]) == ["babel==1", "one-two==2"]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_all_that_is_locked_has_hashes_and_all_that_is_required_is_locked(path: Path) -> None:
    locked = path.read_text().splitlines()
    pins = {line.split()[0].lower().replace("_", "-") for line in locked}
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+( --hash=sha256:[0-9a-f]{64})+", line) for line in locked)
    required = [each for each in (*SOURCES, path.with_suffix(".txt")) if each.exists()]
    assert {line.lower().replace("_", "-") for line in lock.merged(each.read_text() for each in required)} <= pins
    assert any(pin.startswith("setuptools==") for pin in pins), "pip takes nothing that is not locked, if anything has a hash"


def name_of(requirement: str) -> str:
    return re.split(r"[\[=<>!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_what_runs_is_a_part_of_what_tests_run_on(path: Path) -> None:
    """Both are locked from one source, so nobody runs another version than the one that is tested."""
    tested = ROOT / "requirements.lock" if path.stem == "3.11" else ROOT / "requirements" / path.name
    run = path.read_text().splitlines()
    assert set(run) < set(tested.read_text().splitlines())
    assert len(run) > 100


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_constraints_pin_what_runs(path: Path) -> None:
    constraints = (ROOT / f"constraints-{path.stem}.txt").read_text().splitlines()
    assert constraints == [line.partition(" ")[0] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_what_runs_has_all_that_the_package_and_its_extras_ask_for_and_no_tools(path: Path) -> None:
    locked = dict(line.partition(" ")[0].split("==") for line in path.read_text().splitlines())
    versions = {name_of(name): version for name, version in locked.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for each in map(Requirement, [*project["dependencies"], *extras["airflow"], *extras["spark"]]):
        assert versions[name_of(each.name)] in each.specifier, each
    tools = {name_of(line) for line in lock.merged([SOURCES[1].read_text()])}
    assert len(tools) > 10
    assert not (tools | {"setuptools", "mkdocs"}) & versions.keys()


def test_each_python_that_is_tested_has_a_lock_to_run_and_constraints() -> None:
    assert [path.stem for path in RUN] == ["3.11", "3.12", "3.13"]
