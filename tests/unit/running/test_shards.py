"""Parts of the tests take equally long, and have each file once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.processes import run_pytest
from tests.running.shards import SHARD, deal, of_shard, shard_of_run

SECONDS = st.dictionaries(st.text("abc", min_size=1), st.floats(0.1, 1000))


@given(SECONDS, st.integers(1, 9))
def test_each_file_is_in_one_part_and_no_part_is_longer_than_the_least_by_more_than_one_file(
    seconds: dict[str, float], count: int
) -> None:
    parts = deal(seconds, count)
    assert len(parts) == count
    assert sorted(file for part in parts for file in part) == sorted(seconds)
    loads = [sum(seconds[file] for file in part) for part in parts]
    assert max(loads) - min(loads) <= max(seconds.values(), default=0) + 1e-6


@given(SECONDS, st.integers(1, 9))
def test_files_keep_their_order(seconds: dict[str, float], count: int) -> None:
    place = list(seconds)
    assert all(part == sorted(part, key=place.index) for part in deal(seconds, count))


def test_a_part_is_the_same_in_whatever_order_files_come() -> None:
    seconds = {"a": 3.0, "b": 3.0, "c": 2.0, "d": 1.0}
    backward = dict(reversed(seconds.items()))
    assert [set(part) for part in deal(seconds, 2)] == [set(part) for part in deal(backward, 2)]


def test_all_tests_of_a_file_are_in_one_part() -> None:
    names = [f"tests/zk/test_{file}.py::test_{number}" for file in "abcde" for number in range(3)]
    items: list[pytest.Item] = [SimpleNamespace(nodeid=name) for name in names]  # type: ignore[misc]
    parts = [[item.nodeid for item in of_shard(items, (part, 2))] for part in (1, 2)]
    assert sorted(parts[0] + parts[1]) == names
    assert all(len(part) % 3 == 0 for part in parts)


def test_a_run_without_a_part_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHARD, raising=False)
    assert shard_of_run() is None


@pytest.mark.parametrize("text", ["0/4", "5/4", "4", "-1/4", "1/4/4", "1/0", "a/b", "1/99999999999"])
def test_what_is_no_part_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARD, text)
    with pytest.raises(pytest.UsageError, match="write it as 2/4"):
        shard_of_run()


@pytest.mark.slow
def test_two_runs_of_two_parts_run_each_test_once(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_collection_modifyitems, pytest_configure\n")
    for file in "abc":
        (tmp_path / f"test_{file}.py").write_text("def test_it():\n    pass\n")
    ran = [run_pytest(tmp_path, "-v", "-n", "0", variables={SHARD: f"{part}/2"}) for part in (1, 2)]
    assert all(one.returncode == 0 for one in ran), ran
    found = [line.split()[0] for one in ran for line in one.stdout.splitlines() if "PASSED" in line]
    assert sorted(found) == [f"test_{file}.py::test_it" for file in "abc"]
    assert "1 deselected" in ran[0].stdout


@pytest.mark.long
def test_a_run_that_a_test_of_a_part_starts_has_all_its_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARD, "2/4")
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_collection_modifyitems, pytest_configure\n")
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    ran = run_pytest(tmp_path, "-n", "0", variables={})
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
