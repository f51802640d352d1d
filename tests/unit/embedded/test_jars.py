"""jars.lock, and the programs that the set-up commands themselves need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from embedded.ivy import Jar
from embedded.jars import JAR_SETS, fetched, locked

REPO = Path(__file__).parents[3]


@pytest.mark.parametrize("jars", JAR_SETS.values(), ids=JAR_SETS)
def test_the_lock_has_all_that_a_set_asks_for(jars):
    coordinates = {":".join(jar.coordinate.split(":")[:3]) for jar in locked(jars.name)}
    assert not set(jars.coordinates) - coordinates, "a version was changed: run `python -m embedded.jars_lock`"
    assert not {jar for jar in locked(jars.name) if f"{jar.group}:{jar.name}" in jars.excluded}


def test_a_line_of_the_lock_is_a_jar_and_its_file():
    jar = Jar.parse(f"org.example:native:3.1:linux {'0' * 64} 12")
    assert jar == Jar("org.example", "native", "3.1", "linux", "0" * 64, 12)
    assert (jar.coordinate, jar.file_name) == ("org.example:native:3.1:linux", "org.example_native-3.1-linux.jar")


def test_a_jar_is_there_if_all_its_bytes_are(tmp_path):
    jar = Jar.parse("org.example:one:1.0 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae 3")
    for content, whole in ((b"foo", True), (b"fo", False), (b"bar", False)):
        (tmp_path / "one.jar").write_bytes(content)
        assert jar.is_at(tmp_path / "one.jar") is whole
    assert not jar.is_at(tmp_path / "none.jar")


def test_jars_that_are_there_are_not_fetched_again(tmp_path, monkeypatch):
    jars = locked("codecs")

    def fetch(title: str, asked: list[Jar], folder: Path, kept: Path) -> None:
        assert asked == jars
        assert kept.parent == folder.parent
        for jar in asked:
            (folder / jar.file_name).touch()

    monkeypatch.setattr("embedded.jars.fetch", fetch)
    first = fetched("codecs", jars, tmp_path)
    monkeypatch.delattr("embedded.jars.fetch")
    assert fetched("codecs", jars, tmp_path) == first
    assert [path.name for path in first] == sorted(jar.file_name for jar in jars)


@pytest.mark.parametrize("arguments", [["embedded", "nothing"], ["embedded.venv"]], ids=lambda arguments: arguments[0])
def test_what_runs_before_anything_is_installed_needs_no_package(arguments):
    without_packages = [sys.executable, "-S", "-m", *arguments]
    done = subprocess.run(without_packages, cwd=REPO, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "there are no jars nothing, only hbase-2, hbase-1, codecs" in done.stderr or "usage: " in done.stderr
