from __future__ import annotations

from pathlib import Path

import pytest

from embedded.java import JavaMissingError, find_java, find_javac


@pytest.fixture
def java_home(tmp_path, monkeypatch):
    """A JAVA_HOME and nothing else; each test puts a `java` there, or none."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    (tmp_path / "bin").mkdir()
    find_java.cache_clear()
    yield tmp_path
    find_java.cache_clear()


def install(home: Path, version: str) -> None:
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_java_home_is_taken(java_home, version):
    install(java_home, version)
    assert find_java() == java_home / "bin" / "java"


def test_an_old_java_is_named_with_its_version(java_home):
    install(java_home, "11.0.2")
    with pytest.raises(JavaMissingError, match=r"Java 17 or newer is needed, but .*/bin/java is version 11"):
        find_java()


def test_no_java_is_said_in_one_line(java_home):
    with pytest.raises(JavaMissingError, match=r"^Java is missing: install a JDK 17 or newer, or point JAVA_HOME at one$"):
        find_java()


def test_a_runtime_without_a_compiler_is_named(java_home):
    install(java_home, "17.0.15")
    with pytest.raises(JavaMissingError, match=r"^javac is missing: .*/bin/java is a runtime only; install the JDK or"):
        find_javac()
