"""A server that knows just enough of HBase's RPC to misbehave: the next of the given behaviours answers each request."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from walferry.base.protos import hbase_pb2 as pb


@dataclass(frozen=True)
class Request:
    preamble: bytes
    connection: pb.ConnectionHeader
    header: pb.RequestHeader
    param: bytes
    cells: bytes


class HangUp(Exception):
    """A behaviour raises this to close the connection now."""


class Silence(Exception):
    """A behaviour raises this to stay silent until the client goes away."""


Behaviour = Callable[[Request], bytes]


def delimited(message: bytes) -> bytes:
    length, out = len(message), b""
    while length > 0x7F:
        out += bytes([length & 0x7F | 0x80])
        length >>= 7
    return out + bytes([length]) + message


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def answer(request: Request, result: bytes = b"") -> bytes:
    header = pb.ResponseHeader(call_id=request.header.call_id)
    return framed(delimited(header.SerializeToString()) + delimited(result))


def exception(class_name: str, text: str = "", *, do_not_retry: bool = False, call_id: int | None = None) -> Behaviour:
    def behave(request: Request) -> bytes:
        header = pb.ResponseHeader(call_id=request.header.call_id if call_id is None else call_id)
        header.exception.exception_class_name = class_name
        header.exception.stack_trace = f"{class_name}: {text}\n\tat org.example.Server.call(Server.java:1)"
        header.exception.do_not_retry = do_not_retry
        return framed(delimited(header.SerializeToString()))

    return behave


def raw(data: bytes) -> Behaviour:
    return lambda request: data


def hang_up(request: Request) -> bytes:
    raise HangUp


def silence(request: Request) -> bytes:
    raise Silence


def half_an_answer(request: Request) -> bytes:
    raise HangUp(answer(request)[:-1])


class FakeServer:
    """Listens on a free port of this machine until `close`. Counts `requests` and `connections`."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self._behaviours = list(behaviours) or [answer]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self.requests: list[Request] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and close what is open."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        self.drop_connections()

    def drop_connections(self) -> None:
        """Close the open connections, as a server does with idle ones."""
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()
            self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.append(sock)
                self.connections += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            preamble = _read(sock, 6)
            connection = pb.ConnectionHeader.FromString(_read(sock, *struct.unpack(">i", _read(sock, 4))))
            while True:
                frame = _read(sock, *struct.unpack(">i", _read(sock, 4)))
                request = _parse(preamble, connection, frame)
                with self._lock:
                    self.requests.append(request)
                    behave = self._behaviours.pop(0) if len(self._behaviours) > 1 else self._behaviours[0]
                sock.sendall(behave(request))
        except HangUp as e:
            if e.args:
                sock.sendall(e.args[0])
            sock.shutdown(socket.SHUT_RDWR)
        except (OSError, EOFError, Silence):
            pass


def _read(sock: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        more = sock.recv(min(length - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return bytes(data)


def _parse(preamble: bytes, connection: pb.ConnectionHeader, frame: bytes) -> Request:
    start, end = _range(frame, 0)
    header = pb.RequestHeader.FromString(frame[start:end])
    start, end = _range(frame, end)
    param, cells = frame[start:end], frame[end:]
    assert len(cells) == header.cell_block_meta.length
    return Request(preamble, connection, header, param, cells)


def _range(frame: bytes, position: int) -> tuple[int, int]:
    length = shift = 0
    while True:
        byte = frame[position]
        length |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return position, position + length
