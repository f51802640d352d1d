"""Servers that cannot be reached are told apart, and in seconds."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from walferry import hosts
from walferry.hosts import unreachable

UNKNOWN = ("no-such-host.invalid", 2181)


@pytest.fixture
def listening() -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield "localhost", server.getsockname()[1]


@pytest.fixture
def closed() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return "localhost", server.getsockname()[1]


def test_one_server_that_listens_is_enough(listening, closed) -> None:
    assert unreachable([UNKNOWN, closed, listening]) is None


def test_nothing_is_said_of_no_servers() -> None:
    assert unreachable([]) is None


def test_an_unknown_name_and_a_closed_port_are_told_apart(closed) -> None:
    began = time.monotonic()
    assert unreachable([UNKNOWN, closed]) == (
        "the name no-such-host.invalid does not resolve (Name or service not known); "
        f"nothing listens on localhost:{closed[1]} (connection refused)"
    )
    assert time.monotonic() - began < 5


def test_a_name_that_dns_cannot_have_does_not_resolve() -> None:
    assert str(unreachable([("a" * 70 + ".example", 1)])).startswith("the name aaaa")


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(hosts, "RESOLVE_S", 0.2)
    monkeypatch.setattr(hosts.socket, "getaddrinfo", lambda *_, **__: never.wait(30) and [])
    assert unreachable([UNKNOWN], connect_s=0.1) == "the name no-such-host.invalid was not resolved within 0.2 s"
    never.set()


def test_a_server_that_takes_no_connection_is_given_up() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        try:
            assert unreachable([("127.0.0.1", port)], 0.3) == f"127.0.0.1:{port} did not take a connection within 0.3 s"
        finally:
            for each in waiting:
                each.close()


def test_of_very_many_servers_nothing_is_said_and_no_thread_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = threading.Event()
    monkeypatch.setattr(hosts.socket, "getaddrinfo", lambda *_, **__: hanging.wait(30))
    before, began = threading.active_count(), time.monotonic()
    assert unreachable([(f"h{i}", 2181) for i in range(5_000)], 0.1) is None
    assert threading.active_count() - before <= hosts.MAX_SERVERS
    assert time.monotonic() - began < 5
    hanging.set()


def test_a_server_whose_name_or_port_is_none_is_told_of() -> None:
    assert "h..h does not resolve" in (unreachable([("h..h", 1)]) or "")
    assert unreachable([("127.0.0.1", 1 << 40)], 0.5)
