"""Runs a small HBase RPC server, the counterpart of `connection`, for services that HBase's own servers call.

Each connection has a thread of its own, which answers its calls one after the other. A client can hold up only that thread, and
only until a deadline. There is one for its hello, for a request that has begun to arrive, for taking an answer, and between
requests. If there are too many connections, the server closes the longest idle one to make room for a new one.

The server supports only SIMPLE authentication, so it believes any name of a caller. Listen only where HBase's servers listen.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError, Message

from walferry.base.closing import Closing
from walferry.base.protos.parsing import parse_message
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.rpc.server_codec import CallRefused, JavaException, ReceivedCall, RequestParser, encode_refusal, encode_result

MIB = 1024 * 1024
_RECEIVE_BYTES = 64 * 1024
_BACKLOG = 128
_ACCEPT_PAUSE_SECONDS = 0.1  # after an error such as too many open files
_LAST_WORDS_SECONDS = 1.0  # for a client to read why its connection is closed
_CLOSE_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Caller:
    """The caller: the address that the server sees, and the user name that the client claims."""

    host: str
    user: str


@dataclass(frozen=True)
class Method:
    """A method of a service: its parameter's type, and the function that answers it. `answer` may raise CallRefused."""

    parameter: type[Message]
    answer: Callable[[Any, Caller], Message]


Services = Mapping[str, Mapping[str, Method]]  # by the names in HBase's .proto files
ANY = ""  # the name of a service's answer to all other methods


@dataclass(frozen=True)
class ServerLimits:
    """The limits for clients. `waiting_bytes` bounds the bytes of unfinished requests on all connections together."""

    connections: int = 1024
    request_bytes: int = 64 * MIB
    waiting_bytes: int = 256 * MIB
    hello_seconds: float = 10.0
    request_seconds: float = 30.0
    idle_seconds: float = 300.0


class CannotListen(RpcError):
    """The server cannot listen on its address."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {reason}", "Give an address of this machine, and a free port")


class RpcServer(Closing):
    """Serves `services` at `host` until `close`. Port 0 lets the system choose a port."""

    def __init__(self, services: Services, host: str = "127.0.0.1", port: int = 0, limits: ServerLimits | None = None) -> None:
        self._services = services
        self._limits = limits or ServerLimits()
        self._listener = _listen(host, port)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}  # open connections, and when each last sent something
        self._threads: set[threading.Thread] = set()
        self._waiting_bytes = 0
        self._closing = False
        self._acceptor = threading.Thread(target=self._accept, name=f"rpc-server-{self.port}", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """Stop listening, end the connections, and wait a moment for the calls under way."""
        with self._lock:
            self._closing = True
            sockets, threads = list(self._open), list(self._threads)
        _shut(self._listener)
        self._listener.close()
        for sock in sockets:
            _shut(sock)
        give_up = time.monotonic() + _CLOSE_SECONDS
        for thread in (self._acceptor, *threads):
            thread.join(max(0.0, give_up - time.monotonic()))

    def _accept(self) -> None:
        while not self._closing:
            try:
                sock, address = self._listener.accept()
            except OSError as error:
                if not self._closing:
                    log.warning("no connection could be accepted on port %d: %s", self.port, error)
                    time.sleep(_ACCEPT_PAUSE_SECONDS)
                continue
            thread = threading.Thread(target=self._serve, args=(sock, address[0]), name=f"rpc-{address[0]}", daemon=True)
            with self._lock:
                if self._closing:
                    sock.close()
                    return
                self._make_room()
                self._open[sock] = time.monotonic()
                self._threads.add(thread)
            try:
                thread.start()
            except RuntimeError as error:  # the system allows no more threads
                log.warning("a connection of %s is refused: %s", address[0], error)
                self._forget(sock, thread)

    def _make_room(self) -> None:
        while len(self._open) >= self._limits.connections:
            longest_idle = min(self._open, key=self._open.__getitem__)
            del self._open[longest_idle]
            _shut(longest_idle)

    def _forget(self, sock: socket.socket, thread: threading.Thread) -> None:
        with self._lock:
            self._open.pop(sock, None)
            self._threads.discard(thread)
        sock.close()

    def _serve(self, sock: socket.socket, host: str) -> None:
        """Answer the calls of one connection until it ends."""
        parser = RequestParser(self._services.keys(), self._limits.request_bytes)
        held = 0
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for data in self._received(sock, parser):
                for request in parser.feed(data):
                    answer = self._answer(parser.service, request, Caller(host, parser.user))
                    sock.settimeout(self._limits.request_seconds)
                    sock.sendall(answer)
                self._count(parser.held - held)
                held = parser.held
        except CallRefused as refused:
            log.warning("the connection of %s is refused: %s", host, refused)
            _say_last(sock, encode_refusal(refused))
        except TimeoutError:
            log.debug("the connection of %s is closed: it was silent too long", host)
        except OSError as error:
            log.debug("the connection of %s broke: %s", host, error)
        finally:
            with self._lock:
                self._waiting_bytes -= held
            self._forget(sock, threading.current_thread())

    def _received(self, sock: socket.socket, parser: RequestParser) -> Iterator[bytes]:
        """Yield the bytes that arrive. Raises TimeoutError if the client exceeds its time."""
        limits = self._limits
        began, frames, was_between = time.monotonic(), 0, False
        while True:
            now, arriving = time.monotonic(), parser.held > 0
            # The hello's time runs from the connection's start, a request's time from its first byte.
            if parser.frames != frames or was_between:
                began, frames = now, parser.frames
            was_between = bool(parser.service) and not arriving
            seconds = limits.hello_seconds if not parser.service else limits.request_seconds if arriving else limits.idle_seconds
            left = began + seconds - now
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
            data = sock.recv(_RECEIVE_BYTES)
            if not data:
                return
            with self._lock:
                if sock in self._open:
                    self._open[sock] = time.monotonic()
            yield data

    def _count(self, more: int) -> None:
        """Count the bytes of unfinished requests. Raises CallRefused if they are too many."""
        with self._lock:
            limit = self._limits.waiting_bytes
            if more > 0 and self._waiting_bytes + more > limit:
                raise CallRefused(JavaException.QUEUE_TOO_BIG, f"more than {limit} bytes of requests are arriving")
            self._waiting_bytes += more

    def _answer(self, service: str, request: ReceivedCall, caller: Caller) -> bytes:
        methods = self._services[service]
        method = methods.get(request.method) or methods.get(ANY)
        try:
            if method is None:
                raise CallRefused(
                    JavaException.UNSUPPORTED, f"{service} has no method {request.method!r} here", do_not_retry=True
                )
            try:
                param = parse_message(method.parameter, request.param)
            except DecodeError as error:
                raise CallRefused(JavaException.DO_NOT_RETRY, f"{request.method}: {error}", do_not_retry=True) from error
            return encode_result(request.call_id, method.answer(param, caller))
        except CallRefused as refused:
            polled = method is not None and request.method not in methods  # clients ask for some of these all the time
            log.log(logging.DEBUG if polled else logging.INFO, "%s of %s is refused: %s", request.method, caller.host, refused)
            return encode_refusal(refused, request.call_id)
        except Exception as error:  # an error in one call must not end the others
            log.exception("%s of %s failed", request.method, caller.host)
            return encode_refusal(CallRefused(JavaException.IO, f"{request.method}: {error!r}"), request.call_id)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError, OverflowError) as error:  # the latter two come from impossible names and ports
        raise CannotListen(host, port, str(error)) from error


def _say_last(sock: socket.socket, answer: bytes) -> None:
    """Send the reason for closing the connection, then drop further input: unread input would make the client lose the answer."""
    give_up = time.monotonic() + _LAST_WORDS_SECONDS
    with contextlib.suppress(OSError):
        sock.settimeout(_LAST_WORDS_SECONDS)
        sock.sendall(answer)
        sock.shutdown(socket.SHUT_WR)
        while (left := give_up - time.monotonic()) > 0:
            sock.settimeout(left)
            if not sock.recv(_RECEIVE_BYTES):
                break


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
