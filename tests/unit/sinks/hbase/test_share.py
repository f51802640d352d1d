"""How many calls to a server the lanes of a task have under way."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from walferry.names import ServerName
from walferry.sinks.hbase.share import Share

ONE, TWO = ServerName("one", 1, 1), ServerName("two", 2, 2)


def share_of(lanes: int) -> Share:
    share = Share()
    for _ in range(lanes):
        share.join()
    return share


def test_a_lane_that_has_work_alone_has_as_many_calls_as_there_are_lanes():
    share = share_of(5)
    with share.of(ONE, 3) as some:
        assert some == 3
    with share.of(ONE, 100) as all_:
        assert all_ == 5


def test_other_servers_do_not_count():
    share = share_of(5)
    with share.of(ONE, 5), share.of(TWO, 5) as others:
        assert others == 5


def test_lanes_that_have_much_to_send_come_to_share_alike():
    share, held, calls = share_of(6), [ExitStack(), ExitStack()], [0, 0]
    for turn in range(6):
        lane = turn % 2
        held[lane].close()
        calls[lane] = held[lane].enter_context(share.of(ONE, 100))
    assert calls == [3, 3]


@given(st.integers(1, 20), st.lists(st.tuples(st.integers(0, 19), st.integers(1, 50)), max_size=60))
def test_each_lane_has_one_call_at_least_and_all_together_less_than_twice_as_many_as_lanes(lanes, turns):
    share, held, calls = share_of(lanes), [ExitStack() for _ in range(lanes)], [0] * lanes
    for turn, wanted in turns:
        lane = turn % lanes
        held[lane].close()
        calls[lane] = held[lane].enter_context(share.of(ONE, wanted))
        assert 1 <= calls[lane] <= wanted
        assert sum(calls) < 2 * lanes
        assert sum(calls) <= lanes or calls[lane] == 1 or sum(calls) - calls[lane] < lanes
    for each in held:
        each.close()
    with share.of(ONE, lanes) as free:
        assert free == lanes
