"""In CI, tests of a change come first, then another twelfth in each turn; a developer's machine goes folder by folder."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.running.order import SINCE, TOUCHED_SECONDS, TURN, TURNS, files_in_turn, folder, in_order, touched

FILES = [f"tests/cluster/test_{number:02}.py" for number in range(61)]


@given(st.lists(st.text("abc", min_size=1), unique=True), st.integers(0, 10_000), st.data())
def test_in_eight_turns_that_follow_each_other_each_file_has_to_run(files: list[str], turn: int, data: st.DataObject) -> None:
    known = data.draw(st.fixed_dictionaries({file: st.floats(0.1, 2 * TOUCHED_SECONDS) for file in files}))
    away = data.draw(st.dictionaries(st.sampled_from(files), st.integers(0, 9))) if files else {}
    had = set()
    for number in range(turn, turn + TURNS):
        first, ordered = files_in_turn(files, number, away, known)
        assert sorted(ordered) == sorted(files), "each file is run once, if there is time"
        assert set(ordered[: len(first)]) == first, "what has to run comes first"
        had |= first
    assert had == set(files)


def test_what_a_change_touches_comes_first_and_the_nearest_before_all() -> None:
    known = dict.fromkeys(FILES, 10.0)
    first, ordered = files_in_turn(FILES, 3, {FILES[50]: 2, FILES[7]: 1, FILES[9]: 2}, known)
    assert ordered[:3] == [FILES[7], FILES[9], FILES[50]]
    assert first >= set(ordered[:3])


def test_what_is_touched_leaves_time_for_the_turn_s_twelfth() -> None:
    known = dict.fromkeys(FILES, TOUCHED_SECONDS / 3)
    first, ordered = files_in_turn(FILES, 3, dict.fromkeys(FILES, 1), known)
    assert ordered[:3] == FILES[:3]
    assert first == {*FILES[:3], *files_in_turn(FILES, 3, {}, known)[0]}


def named(*names: str) -> list[pytest.Item]:
    return [SimpleNamespace(nodeid=name) for name in names]  # type: ignore[misc]


def test_a_turn_keeps_the_tests_of_a_file_together_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TURN, "4711")
    monkeypatch.delenv(SINCE, raising=False)
    names = [f"{file}::test_{each}" for file in FILES for each in "ab"]
    ordered = [item.nodeid for item in in_order(named(*names))]
    assert sorted(ordered) == names
    assert [name.partition("::")[0] for name in ordered[::2]] == [name.partition("::")[0] for name in ordered[1::2]]
    assert all(name.endswith("a") for name in ordered[::2])


def test_tests_without_clusters_come_first() -> None:
    names = ["tests/zk/test_a.py::test", "tests/airflow/test_b.py::test", "tests/unit/wal/test_c.py::test", "test_it.py::test"]
    assert sorted(names, key=folder) == [names[2], names[0], names[1], names[3]]


def test_without_a_commit_to_compare_with_nothing_counts_as_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SINCE, raising=False)
    touched.cache_clear()
    assert touched() == {}
