"""A proxy that delays passes on every byte, both ways and on each connection, and knows who is near."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Iterator

import pytest

from embedded.delay import DelayingProxy

HOST = "127.0.0.1"
MEGABYTE = 1 << 20


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it has got once a client has sent all."""
    listener = socket.create_server((HOST, 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.sendall(received(connection))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()
    listener.close()


def received(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(MEGABYTE), b""))


def free_address() -> tuple[str, int]:
    with socket.create_server((HOST, 0)) as listener:
        return listener.getsockname()


def asked(at: tuple[str, int], data: bytes) -> bytes:
    with socket.create_connection(at, timeout=60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return received(connection)


def test_every_byte_comes_back_on_each_of_many_connections(echo):
    at = free_address()
    answers: dict[bytes, bytes] = {}

    def ask() -> None:
        data = secrets.token_bytes(3 * MEGABYTE)
        answers[data] = asked(at, data)

    with DelayingProxy(at, echo, 0.01):
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(answers) == 8
    assert all(sent == got for sent, got in answers.items())


def test_it_asks_of_each_connection_whether_it_is_near(echo):
    at, ports = free_address(), []

    def is_near(port: int) -> bool:
        ports.append(port)
        return True

    with DelayingProxy(at, echo, 3600.0, is_near=is_near), socket.create_connection(at, timeout=60) as connection:
        port = connection.getsockname()[1]
        connection.shutdown(socket.SHUT_WR)

        assert received(connection) == b""
        assert ports == [port]


def test_what_is_under_way_longer_than_the_proxy_lives_is_lost_with_its_connection(echo):
    at, known = free_address(), threading.Event()
    with (
        DelayingProxy(at, echo, 3600.0, is_near=lambda _: known.set() or False) as proxy,
        socket.create_connection(at, timeout=60) as connection,
    ):
        connection.sendall(b"never comes")
        assert known.wait(60)
        proxy.close()

        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_a_connection_ends_if_the_server_cannot_be_reached():
    at, nowhere = free_address(), free_address()
    with DelayingProxy(at, nowhere, 0.0), contextlib.suppress(ConnectionResetError):
        assert asked(at, b"") == b""
