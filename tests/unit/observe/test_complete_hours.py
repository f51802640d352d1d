"""Which hours are announced: each one that is complete, none before it is, and again after a run that was killed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.observe.complete_hours import HOUR_MS, MOST_HOURS, Mark, hour_text, new_hours, next_hour, table_uri

NOON = 1_795_780_800_000  # 2026-11-27 12:00 UTC


@given(
    st.lists(st.tuples(st.integers(-HOUR_MS, 6 * HOUR_MS), st.booleans()), min_size=1, max_size=30), st.integers(0, HOUR_MS - 1)
)
def test_each_complete_hour_is_announced_and_only_those(runs: list[tuple[int, bool]], first: int) -> None:
    """Each run finds the peer valid for some more time, or less: the WAL of a dead server was found late. Some are killed."""
    valid, mark, stored, told = NOON + first, Mark(next_hour(NOON + first)), set[str](), list[int]()
    begin, latest = mark.sure_ms, 0
    for number, (more, succeeds) in enumerate(runs):
        valid, mark = valid + more, mark.settled(stored)
        hours = new_hours(mark, valid)
        if hours:
            mark = Mark(mark.sure_ms, hours[-1] + HOUR_MS, str(number))
        if succeeds:
            stored.add(str(number))
            told += hours
            latest = max(latest, valid)
        assert all(begin <= hour and hour + HOUR_MS <= valid for hour in hours)
    assert sorted(set(told)) == list(range(begin, latest // HOUR_MS * HOUR_MS, HOUR_MS))


def test_an_hour_is_announced_once_if_its_run_succeeded_and_again_if_not() -> None:
    told = Mark(NOON, NOON + 2 * HOUR_MS, "run")
    assert list(new_hours(told.settled({"run"}), NOON + 2 * HOUR_MS)) == []
    assert list(new_hours(told.settled({"another"}), NOON + 2 * HOUR_MS)) == [NOON, NOON + HOUR_MS]


def test_a_run_announces_two_weeks_at_most_and_the_next_goes_on() -> None:
    valid = NOON + 1000 * HOUR_MS
    first = new_hours(Mark(NOON), valid)
    assert (len(first), first[-1]) == (MOST_HOURS, NOON + (MOST_HOURS - 1) * HOUR_MS)
    assert new_hours(Mark(first[-1] + HOUR_MS), valid)[0] == first[-1] + HOUR_MS


@pytest.mark.parametrize("mark", [Mark(NOON + 1), Mark(-HOUR_MS), Mark(NOON + 3 * HOUR_MS), Mark(NOON, NOON + 1)])
def test_a_mark_that_makes_no_sense_is_refused(mark: Mark) -> None:
    with pytest.raises(ValueError, match="is not the end of an hour"):
        mark.checked(NOON)


def test_the_mark_of_a_new_peer_is_the_end_of_the_present_hour() -> None:
    assert (next_hour(NOON), next_hour(NOON + 1), next_hour(NOON - 1)) == (NOON + HOUR_MS, NOON + HOUR_MS, NOON)
    assert Mark(next_hour(NOON)).checked(NOON)


def test_an_hour_is_named_by_its_begin_in_utc() -> None:
    assert hour_text(NOON) == "2026-11-27T12:00:00"


@pytest.mark.parametrize(
    ("peer", "table", "uri"),
    [
        ("2", "orders", "hbase://2.hbase_source/default:orders"),
        ("2", "shop:orders", "hbase://2.hbase_source/shop:orders"),
        ("a@b?c#d", "shop:orders", "hbase://a%40b%3Fc%23d.hbase_source/shop:orders"),
    ],
)
def test_a_table_has_one_uri_which_airflow_leaves_as_it_is(peer: str, table: str, uri: str) -> None:
    assert table_uri("hbase_source", peer, table) == uri
