"""How the client waits for its sockets, which kazoo does several times for each request."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from walferry.base.zk.client import SOURCE, _BoundedHandler


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def handler() -> _BoundedHandler:
    return _BoundedHandler(30.0, SOURCE)


def test_only_the_sockets_that_are_ready_are_told(handler: _BoundedHandler, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    assert handler.select([], [ours], [], 30.0) == ([], [ours], [])
    assert handler.select([ours, theirs], [], [], 0.01) == ([], [], [])
    theirs.send(b"x")
    assert handler.select([ours, theirs], [], [], 30.0) == ([ours], [], [])


def test_a_wait_is_as_long_as_it_was_asked_for(handler: _BoundedHandler, pair: tuple[socket.socket, socket.socket]) -> None:
    began = time.monotonic()
    assert handler.select([pair[0]], [], [], 0.05) == ([], [], [])
    assert time.monotonic() - began >= 0.05


def test_a_connection_that_has_ended_is_ready_to_tell_so(
    handler: _BoundedHandler, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    theirs.close()
    assert handler.select([ours], [], [], 30.0) == ([ours], [], [])
    assert ours.recv(1) == b""


def test_a_socket_that_was_closed_is_an_error(handler: _BoundedHandler, pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].close()
    with pytest.raises(ValueError, match="descriptor"):
        handler.select([pair[0]], [], [], 30.0)
