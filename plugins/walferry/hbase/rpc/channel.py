"""Defines a socket with layers that transform the bytes sent and received: TLS, SASL's protection, or both."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from walferry.base.security.waiting import ANY, Slow, Steps, within
from walferry.hbase.rpc.codec import Buffer, CodecError

T = TypeVar("T")

RECEIVE_BYTES = 64 * 1024
_SMALL_BYTES = 64 * 1024  # smaller pieces are joined, because copying them costs less than a descriptor for each
_IOV_MAX = max(16, min(os.sysconf("SC_IOV_MAX"), 1024))
ASK_SECONDS = 1.0  # the longest wait for the kernel to take a part of a request that its sender may have to break off


class Layer(Protocol):
    """Transforms a channel's bytes between the caller and the wire."""

    def outgoing(self, buffers: Sequence[Buffer]) -> Iterable[Buffer]:
        """Return the bytes to send for `buffers`."""
        ...

    def incoming(self, data: Buffer) -> bytes:
        """Return the bytes that the received `data` stand for, as far as they are known yet."""
        ...


class Channel:
    """One connection. Deadlines are on time.monotonic; None means not to wait. Raises OSError and the layers' errors."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._layers: list[Layer] = []
        self._held = bytearray()  # received, but not yet asked for

    def add(self, layer: Layer) -> None:
        """Put a layer on top of the others. Raises CodecError if bytes have arrived that the layer has not seen.

        Such bytes would count as protected by the layer, although anyone on the network may have sent them.
        """
        if self._held:
            raise CodecError(f"{len(self._held)} bytes came before the connection was protected")
        self._layers.append(layer)

    def run(self, steps: Steps[T], deadline: float) -> T:
        """Run a dialogue to its end, and return its result. Raises EOFError if the other side ends it."""
        came = b""
        try:
            wanted = next(steps)
            while True:
                if isinstance(wanted, Slow):
                    try:
                        came = within(remaining(deadline), wanted.call, wanted.what)
                    except Exception as error:
                        wanted = steps.throw(error)
                        continue
                elif isinstance(wanted, int):
                    came = self.receive(deadline) if wanted == ANY else self._exactly(wanted, deadline)
                elif wanted:
                    self.send([wanted], deadline)
                    came = b""
                wanted = steps.send(came)
        except StopIteration as end:
            result: T = end.value
            return result

    def send(self, buffers: Sequence[Buffer], deadline: float, may_go_on: Callable[[], None] | None = None) -> None:
        """Send all buffers in order, without copying big ones if there is no layer. Raises TimeoutError at the deadline.

        `may_go_on` is called before each part goes to the kernel, and at least every ASK_SECONDS.
        """
        if not self._layers:
            _send_all(self.sock, buffers, deadline, may_go_on)
            return
        for piece in self._outgoing(buffers, len(self._layers)):
            _send_all(self.sock, [piece], deadline, may_go_on)

    def receive(self, deadline: float | None) -> bytes:
        """Return the next bytes, or none at the connection's end. Raises TimeoutError, or BlockingIOError without a deadline."""
        if self._held:
            data = bytes(self._held)
            self._held.clear()
            return data
        while True:
            self.sock.settimeout(0 if deadline is None else remaining(deadline))
            data = self.sock.recv(RECEIVE_BYTES)
            if not data:
                return b""
            for layer in self._layers:
                data = layer.incoming(data)
            if data:
                return data

    def receive_into(self, space: memoryview, deadline: float | None) -> int:
        """Write the next bytes to `space`, and return how many; 0 at the connection's end. Raises the errors of `receive`.

        Without a layer, the kernel writes there: the bytes are not copied.
        """
        if not (self._held or self._layers):
            self.sock.settimeout(0 if deadline is None else remaining(deadline))
            return self.sock.recv_into(space)
        data = self.receive(deadline)
        count = min(len(data), len(space))
        space[:count] = data[:count]
        self._held[:0] = data[count:]
        return count

    @property
    def has_input(self) -> bool:
        """Whether the other end has closed the connection, or has sent bytes that were not read yet."""
        if self._held:
            return True
        try:
            self.sock.settimeout(0)
            if not self._layers:
                self.sock.recv(1, socket.MSG_PEEK)
                return True
            # Between calls TLS sends messages of its own, which are not input.
            self._held += self.receive(None)
        except BlockingIOError:
            return False
        except Exception:
            return True
        return True

    def interrupt(self) -> None:
        """Make a thread that waits here fail now."""
        with contextlib.suppress(OSError):  # it is closed already
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self, *, abort: bool = False) -> None:
        """Close the connection. With `abort`, the kernel drops unsent bytes, and the other side learns of it at once."""
        if abort:
            with contextlib.suppress(OSError):  # it is closed already
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def _exactly(self, count: int, deadline: float) -> bytes:
        found = bytearray()
        while len(found) < count:
            data = self.receive(deadline)
            if not data:
                raise EOFError
            found += data
        self._held[:0] = found[count:]
        return bytes(found[:count])

    def _outgoing(self, buffers: Sequence[Buffer], layers: int) -> Iterator[Buffer]:
        """Yield the bytes that the lowest `layers` layers make of the buffers, from the uppermost of these layers down."""
        for piece in self._layers[layers - 1].outgoing(buffers):
            if layers == 1:
                yield piece
            else:
                yield from self._outgoing([piece], layers - 1)


def remaining(deadline: float) -> float:
    """Return the seconds until `deadline`. Raises TimeoutError if it has passed."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _send_all(
    sock: socket.socket, buffers: Sequence[Buffer], deadline: float, may_go_on: Callable[[], None] | None = None
) -> None:
    pending = [memoryview(buffer) for buffer in _gather(buffers)]
    first = 0
    while first < len(pending):
        left = remaining(deadline)
        if may_go_on is not None:
            may_go_on()
            left = min(left, ASK_SECONDS)
        sock.settimeout(left)
        try:
            sent = sock.sendmsg(pending[first : first + _IOV_MAX])
        except TimeoutError as error:
            if error.errno is not None:  # the kernel's error: the other side's machine takes nothing
                raise
            continue  # our own limit: check the deadline next
        while first < len(pending) and sent >= len(pending[first]):
            sent -= len(pending[first])
            first += 1
        if sent:
            pending[first] = pending[first][sent:]


def _gather(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the same bytes in fewer buffers: join runs of small buffers, and leave big ones as they are."""
    start = 0
    for i in [i for i, length in enumerate(map(len, buffers)) if length >= _SMALL_BYTES]:
        if start < i:
            yield b"".join(buffers[start:i])
        yield buffers[i]
        start = i + 1
    if start < len(buffers):
        yield b"".join(buffers[start:])
