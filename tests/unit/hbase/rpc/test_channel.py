"""Channels: dialogues without I/O, and layers over a socket. What came before a layer is not taken as if it came through it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator

import pytest

from walferry.base.security.waiting import ANY, Slow, Steps
from walferry.hbase.rpc.channel import Channel
from walferry.hbase.rpc.codec import CodecError


class Shifted:
    """A layer that adds a number to each byte."""

    def __init__(self, by: int) -> None:
        self._by = by

    def outgoing(self, buffers: Iterable[bytes]) -> Iterable[bytes]:
        return [bytes((byte + self._by) % 256 for byte in bytes(buffer)) for buffer in buffers]

    def incoming(self, data: bytes) -> bytes:
        return bytes((byte - self._by) % 256 for byte in data)


class Silent:
    """A layer that gives nothing to read, as TLS does with messages of its own."""

    def outgoing(self, buffers: Iterable[bytes]) -> Iterable[bytes]:
        return buffers

    def incoming(self, data: bytes) -> bytes:
        return b""


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    with ours, theirs:
        yield Channel(ours), theirs


def soon() -> float:
    return time.monotonic() + 10


def test_layers_are_put_on_top_of_one_another(ends):
    channel, other = ends
    channel.add(Shifted(1))
    channel.add(Shifted(10))
    channel.send([b"abc"], soon())
    assert other.recv(10) == bytes(byte + 11 for byte in b"abc")
    other.sendall(bytes(byte + 11 for byte in b"xyz"))
    assert channel.receive(soon()) == b"xyz"


@pytest.mark.parametrize("layers", [[], [Shifted(0)]])
def test_bytes_are_received_into_the_space_that_there_is_for_them(ends, layers):
    channel, other = ends
    for layer in layers:
        channel.add(layer)
    other.sendall(b"abcdefg")
    space = memoryview(bytearray(4))
    assert [channel.receive_into(space, soon()), bytes(space)] == [4, b"abcd"]
    assert [channel.receive_into(space, soon()), bytes(space[:3])] == [3, b"efg"]
    other.close()
    assert channel.receive_into(space, soon()) == 0


def test_bytes_that_came_before_a_layer_was_put_on_end_the_connection(ends):
    """Whoever sits between could send a forged answer behind the last word of a handshake."""
    channel, other = ends

    def handshake() -> Steps[str]:
        return (yield 2).decode()

    other.sendall(b"okforged answer")
    assert channel.run(handshake(), soon()) == "ok"
    with pytest.raises(CodecError, match="13 bytes came before the connection was protected"):
        channel.add(Shifted(1))


def test_a_dialogue_gets_as_many_bytes_as_it_asks_for(ends):
    channel, other = ends

    def dialogue() -> Steps[list[bytes]]:
        yield b"hello"
        first = yield 3
        second = yield 4
        return [first, second, (yield ANY)]

    other.sendall(b"abcdefgh")
    assert channel.run(dialogue(), soon()) == [b"abc", b"defg", b"h"]
    assert other.recv(10) == b"hello"


def test_a_dialogue_that_the_other_side_ends_is_told_apart(ends):
    channel, other = ends

    def dialogue() -> Steps[bytes]:
        return (yield 4)

    other.sendall(b"ab")
    other.shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError):
        channel.run(dialogue(), soon())


def test_a_dialogue_that_stands_still_ends_at_its_deadline(ends):
    channel, _ = ends

    def dialogue() -> Steps[bytes]:
        return (yield 1)

    with pytest.raises(TimeoutError):
        channel.run(dialogue(), time.monotonic() + 0.05)


def test_a_dialogue_does_not_wait_for_its_calls_beyond_the_deadline(ends):
    channel, _ = ends
    ended = threading.Event()

    def dialogue() -> Steps[list[bytes]]:
        first = yield Slow(lambda: b"quick", "")
        try:
            yield Slow(lambda: bytes(ended.wait(20)), "")
        except TimeoutError:
            return [first, b"late"]
        return []

    assert channel.run(dialogue(), time.monotonic() + 0.2) == [b"quick", b"late"]
    ended.set()


def test_what_goes_wrong_in_a_call_is_raised_in_the_dialogue(ends):
    channel, _ = ends

    def dialogue() -> Steps[str]:
        try:
            yield Slow(lambda: bytes(-1), "")
        except ValueError as error:
            return str(error)
        return ""

    assert channel.run(dialogue(), soon()) == "negative count"


def test_messages_of_a_layer_itself_are_no_input(ends):
    channel, other = ends
    channel.add(Silent())
    other.sendall(b"a new session ticket")
    assert not channel.has_input


@pytest.mark.parametrize("layers", [0, 1])
def test_what_the_other_side_says_unasked_is_input_and_so_is_its_end(ends, layers):
    channel, other = ends
    for _ in range(layers):
        channel.add(Shifted(1))
    assert not channel.has_input
    other.sendall(b"x")
    assert channel.has_input


@pytest.mark.parametrize("layers", [0, 1])
def test_the_end_of_a_connection_is_input(ends, layers):
    channel, other = ends
    for _ in range(layers):
        channel.add(Shifted(1))
    other.close()
    assert channel.has_input


def test_big_messages_go_out_whole_through_layers(ends):
    channel, other = ends
    channel.add(Shifted(1))
    data = bytes(range(256)) * 100
    channel.send([data, b"!", data[:100]], soon())
    found = b""
    while len(found) < len(data) + 101:
        found += other.recv(1 << 16)
    assert Shifted(1).incoming(found) == data + b"!" + data[:100]
