"""How many calls to a server the senders of a task have under way."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.names import ServerName
from walferry.replication.sinks.hbase.connections import Share

ONE, TWO = ServerName("one", 1, 1), ServerName("two", 2, 2)


def share_of(senders: int) -> Share:
    share = Share()
    for _ in range(senders):
        share.join()
    return share


def test_a_sender_that_has_work_alone_has_as_many_calls_as_there_are_senders():
    share = share_of(5)
    with share.of(ONE, 3) as some:
        assert some == 3
    with share.of(ONE, 100) as all_:
        assert all_ == 5


def test_other_servers_do_not_count():
    share = share_of(5)
    with share.of(ONE, 5), share.of(TWO, 5) as others:
        assert others == 5


def test_senders_that_have_much_to_send_come_to_share_alike():
    share, held, calls = share_of(6), [ExitStack(), ExitStack()], [0, 0]
    for turn in range(6):
        sender = turn % 2
        held[sender].close()
        calls[sender] = held[sender].enter_context(share.of(ONE, 100))
    assert calls == [3, 3]


@given(st.integers(1, 20), st.lists(st.tuples(st.integers(0, 19), st.integers(1, 50)), max_size=60))
def test_each_sender_has_one_call_at_least_and_all_together_less_than_twice_as_many_as_senders(senders, turns):
    share, held, calls = share_of(senders), [ExitStack() for _ in range(senders)], [0] * senders
    for turn, wanted in turns:
        sender = turn % senders
        held[sender].close()
        calls[sender] = held[sender].enter_context(share.of(ONE, wanted))
        assert 1 <= calls[sender] <= wanted
        assert sum(calls) < 2 * senders
        assert sum(calls) <= senders or calls[sender] == 1 or sum(calls) - calls[sender] < senders
    for each in held:
        each.close()
    with share.of(ONE, senders) as free:
        assert free == senders
