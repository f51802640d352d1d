"""A client knows when ZooKeeper last heard from it: when it sent the last request that was answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from walferry.base.zk import session_time as module
from walferry.base.zk.session_time import PING_XID, Heard, listen


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module, "now", lambda: now[0])
    return now


def connected(clock: list[float]) -> Heard:
    heard = Heard()
    heard.connected(clock[0], 20.0)
    return heard


def test_nothing_is_heard_before_the_first_connection(clock: list[float]) -> None:
    assert Heard().seconds == float("inf")
    assert connected(clock).seconds == 0


def test_what_counts_is_when_the_request_was_sent_and_not_when_its_answer_came(clock: list[float]) -> None:
    heard = connected(clock)
    clock[0] = 103.0
    heard.sending(PING_XID)
    clock[0] = 115.0  # the process was stopped, and finds the answer waiting
    assert heard.seconds == 15
    heard.answered(PING_XID)
    assert heard.seconds == 12


def test_a_request_that_is_not_answered_counts_for_nothing(clock: list[float]) -> None:
    heard = connected(clock)
    for xid in (1, 2, PING_XID, 3):
        clock[0] += 1
        heard.sending(xid)
    heard.answered(1)
    heard.answered(-1)  # a watch
    assert heard.seconds == 3
    heard.answered(PING_XID)
    assert heard.seconds == 1
    heard.answered(2)  # out of order: what was sent before the ping is not waited for any more
    assert heard.seconds == 1


def test_answers_to_the_requests_of_a_connection_that_is_lost_are_not_expected(clock: list[float]) -> None:
    heard = connected(clock)
    clock[0] = 101.0
    heard.sending(7)
    heard.connecting()
    clock[0] = 110.0
    heard.answered(7)
    assert heard.seconds == 10


def test_kazoo_s_connection_tells_what_it_sends_and_gets(clock: list[float]) -> None:
    calls: list[Any] = []

    def connect(host: str, address: str, port: int) -> tuple[float, float]:
        clock[0] += 4  # the login may take long, and the session counts from before it
        return 8000.0, 12000.0

    connection = SimpleNamespace(
        _connect=connect, _submit=lambda *args: calls.append(args), _read_header=lambda timeout: (SimpleNamespace(xid=5), b"", 0)
    )
    heard = listen(connection)
    assert connection._connect("zk", "10.0.0.1", 2181) == (8000.0, 12000.0)
    assert (heard.session_seconds, heard.seconds) == (12.0, 4.0)
    connection._submit("connect", 1.0)
    connection._submit("get", 1.0, 5)
    clock[0] += 2
    connection._read_header(1.0)
    assert heard.seconds == 2
    assert calls == [("connect", 1.0, None), ("get", 1.0, 5)]
