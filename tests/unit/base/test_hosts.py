"""Servers that cannot be reached are recognized within seconds."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from walferry.base import hosts
from walferry.base.hosts import unreachable

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
    monkeypatch.setattr(hosts, "RESOLVE_SECONDS", 0.2)
    monkeypatch.setattr(hosts.socket, "getaddrinfo", lambda *_, **__: never.wait(30) and [])
    assert unreachable([UNKNOWN], connect_seconds=0.1) == "the name no-such-host.invalid was not resolved within 0.2 s"
    never.set()


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """A server that accepts no connection."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        yield full.getsockname()
        for each in waiting:
            each.close()


def test_a_server_that_takes_no_connection_is_given_up(silent) -> None:
    assert unreachable([silent], 0.3) == f"127.0.0.1:{silent[1]} did not accept a connection within 0.3 s"


def _addresses(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[socket.AddressFamily, tuple[str, int]]) -> None:
    found = [(family, socket.SOCK_STREAM, 6, "", address) for family, address in addresses]
    monkeypatch.setattr(hosts.socket, "getaddrinfo", lambda *_, **__: found)


def test_of_a_host_with_several_addresses_one_that_is_silent_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch, silent, listening
) -> None:
    connect = socket.socket.connect

    def slow(self: socket.socket, address: tuple[str, int]) -> None:
        if address != silent:
            time.sleep(0.1)  # like a server on another continent
            if (self.gettimeout() or 0) < 0.1:
                raise TimeoutError
        connect(self, address)

    monkeypatch.setattr(hosts.socket.socket, "connect", slow)
    _addresses(monkeypatch, (socket.AF_INET, silent), (socket.AF_INET, ("127.0.0.1", listening[1])))
    assert unreachable([("host", 1)], 1.0) is None


def test_an_address_of_a_family_that_this_machine_lacks_is_passed_over(monkeypatch: pytest.MonkeyPatch, listening) -> None:
    """The kernel raises this for IPv6 if it was started without it."""
    lacking = socket.AddressFamily.AF_INET6

    class Socket(socket.socket):
        def __init__(self, family: int = -1, *rest: int) -> None:
            if family == lacking:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *rest)

    monkeypatch.setattr(hosts.socket, "socket", Socket)
    _addresses(monkeypatch, (lacking, ("::1", 1)), (socket.AF_INET, ("127.0.0.1", listening[1])))
    assert unreachable([("host", 1)], 1.0) is None
    _addresses(monkeypatch, (lacking, ("::1", 1)))
    assert unreachable([("host", 1)], 1.0) == "host:1 cannot be reached (Address family not supported by protocol)"


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


def test_a_question_that_fails_is_logged_and_the_others_count(caplog: pytest.LogCaptureFixture) -> None:
    answers = hosts.side_by_side(lambda number: 1 // number, [0, 1], 10.0, lambda _: False)
    assert answers == {1: 1}
    assert "a question to 0 has failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
