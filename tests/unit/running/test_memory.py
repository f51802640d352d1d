"""Where memory gets short, a process ends its clusters before it begins the next file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run_pytest

CONFTEST = """
from types import SimpleNamespace

import pytest

import tests.running.memory
from tests.conftest import pytest_runtest_setup

@pytest.fixture(scope="session")
def cluster():
    print("begins")
    yield
    print("ends")

tests.running.memory.psutil = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available={available}, total=10))
"""
TESTS = """
import pytest

@pytest.fixture(scope="module")
def table(cluster):
    yield
    print("dropped")

def test_one(table): print("one")
def test_two(table): print("two")
"""
SHORT, PLENTY = 2, 5


@pytest.mark.long
@pytest.mark.parametrize(
    ("available", "told"),
    [
        (SHORT, ["begins", "one", "two", "dropped", "ends"] * 2),
        (PLENTY, ["begins", "one", "two", "dropped", "one", "two", "dropped", "ends"]),
    ],
)
def test_clusters_end_between_files_only_and_only_where_memory_is_short(tmp_path: Path, available: int, told: list[str]) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(available=available))
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text(TESTS)
    ran = run_pytest(tmp_path, "-s", "-q", variables={})
    assert [word for word in ran.stdout.replace(".", " ").split() if word in set(told)] == told
