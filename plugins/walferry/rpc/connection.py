"""A blocking connection to one HBase server, for one call at a time, each with a deadline."""

from __future__ import annotations

import contextlib
import getpass
import math
import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from walferry.protos.parsing import parse_message
from walferry.rpc import codec
from walferry.rpc.codec import AuthMethod, Buffer, Failure, Result
from walferry.rpc.errors import ConnectionFailed, FatalConnection, ProtocolError, RpcError, RpcTimeout, remote_error

CONNECT_TIMEOUT_SECONDS = 10.0
CALL_TIMEOUT_SECONDS = 60.0  # hbase.rpc.timeout
_RECEIVE_BYTES = 64 * 1024
_SMALL_BYTES = 64 * 1024  # smaller pieces are joined, because copying them costs less than a descriptor for each
_IOV_MAX = max(16, min(os.sysconf("SC_IOV_MAX"), 1024))

_LATE_SECONDS = 0.1  # for an answer that has arrived while the caller waited for another server

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class Address(Protocol):
    """Where a server listens, e.g. a ServerName."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


@dataclass(frozen=True)
class _Call:
    """A call that has `seconds`, until `deadline` on time.monotonic."""

    method: str
    seconds: float
    deadline: float


def default_user() -> str:
    """The operating system's name of the user that runs this process. Raises RpcError if the user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        problem = f"the user of this process (uid {os.getuid()}) has no name"
        raise RpcError(problem, "Give the name that HBase should see") from error


class Connection:
    """A connection to `service` ("AdminService", "MasterService") of the server at host:port.

    The connection is opened by the first call, and again by the call after a failure. Only one thread at a time may use it,
    except for `interrupt`. `user` is the effective user that the server sees; None means the operating system's.
    """

    def __init__(
        self,
        host: str,
        port: int,
        service: str,
        *,
        user: str | None = None,
        cell_codec: str | None = None,
        auth: AuthMethod = AuthMethod.SIMPLE,
        connect_timeout: float = CONNECT_TIMEOUT_SECONDS,
        call_timeout: float = CALL_TIMEOUT_SECONDS,
        max_response_bytes: int = codec.MAX_RESPONSE_BYTES,
    ) -> None:
        self.server = f"{host}:{port}"
        self._address = (host, port)
        self._hello = codec.preamble(auth) + codec.connection_header(service, user or default_user(), cell_codec)
        self._connect_timeout = connect_timeout
        self._call_timeout = call_timeout
        self._socket: socket.socket | None = None
        self._max_response_bytes = max_response_bytes
        self._parser = codec.ResponseParser(max_response_bytes)
        self._call_id = 0
        self._under_way: _Call | None = None
        self._interrupted = False

    @property
    def is_open(self) -> bool:
        """Whether the next call needs not connect first, as far as this side knows."""
        return self._socket is not None and not _has_input(self._socket)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def call(
        self,
        method: str,
        param: Message | Buffer | Sequence[Buffer],
        response_type: type[M],
        cell_block: Sequence[Buffer] = (),
        *,
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> M:
        """Send one request and wait for its answer, for at most `timeout` seconds in all (None means the connection's timeout).

        If the call has to connect first, at most `connect_timeout` of these seconds are for that, where the connection's own
        timeout is too long. `param` is a message, or an encoded one, whole or in pieces.

        Raises an RpcError. Unless it is a RemoteError or RequestTooLarge, the server may or may not have executed the request.
        """
        return self.call_for_cells(method, param, response_type, cell_block, timeout=timeout, connect_timeout=connect_timeout)[0]

    def call_for_cells(
        self,
        method: str,
        param: Message | Buffer | Sequence[Buffer],
        response_type: type[M],
        cell_block: Sequence[Buffer] = (),
        *,
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> tuple[M, memoryview]:
        """Do the same as `call`, and return the cell block that came with the answer too. It is written in `cell_codec`."""
        self.begin(method, param, cell_block, timeout=timeout, connect_timeout=connect_timeout)
        return self.end(lambda result: (parse_message(response_type, result.message), result.cells))

    def open(self, seconds: float) -> None:
        """Connect now, within `seconds` or the connection's timeout, if that is not done yet. Otherwise the first call does it.

        Raises ConnectionFailed and RpcTimeout. `interrupt` ends it as it ends a call that is still connecting.
        """
        try:
            with self._typed_errors(_Call("connecting", seconds, deadline := time.monotonic() + seconds)):
                self._connected(deadline, self._connect_timeout)
        except BaseException:
            self._interrupted = False
            raise

    def begin(
        self,
        method: str,
        param: Message | Buffer | Sequence[Buffer],
        cell_block: Sequence[Buffer] = (),
        *,
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> None:
        """Send a request as `call` does; its answer is what `end` waits for. So calls to several servers run side by side.

        Raises as `call`; then there is nothing to end.
        """
        seconds = self._call_timeout if timeout is None else timeout
        self._call_id = (self._call_id + 1) % 0x7FFFFFFF
        encoded = param.SerializeToString() if isinstance(param, Message) else param
        call = _Call(method, seconds, time.monotonic() + seconds)
        try:
            request = codec.encode_request(self._call_id, method, encoded, cell_block, timeout_ms=max(1, int(seconds * 1000)))
            with self._typed_errors(call):
                sock = self._connected(call.deadline, min(self._connect_timeout, connect_timeout or self._connect_timeout))
                self._send(sock, request, call.deadline)
        except BaseException:
            self._interrupted = False
            raise
        self._under_way = call

    def end(self, parse: Callable[[Result], T]) -> T:
        """Wait for the answer to what `begin` has sent, and parse it. Raises as `call`; what `parse` raises as a DecodeError or
        CodecError is a ProtocolError.

        An answer that has arrived in time is taken, even if the caller comes late for it.
        """
        call, self._under_way = self._under_way, None
        if call is None:
            raise RuntimeError("no call is under way")
        try:
            with self._typed_errors(call):
                if self._socket is None:
                    raise ConnectionFailed(self.server, "it was closed before the answer came")
                return parse(self._receive(self._socket, max(call.deadline, time.monotonic() + _LATE_SECONDS)))
        finally:
            self._interrupted = False

    @contextlib.contextmanager
    def _typed_errors(self, call: _Call) -> Iterator[None]:
        """Raise what goes wrong in a call as an RpcError, and close a connection that cannot be used any more."""
        try:
            yield
        except TimeoutError as error:
            self.close()
            raise RpcTimeout(self.server, call.method, call.seconds) from error
        except (codec.CodecError, DecodeError) as error:
            self.close()
            raise ProtocolError(self.server, f"{call.method}: {error}") from error
        except OSError as error:
            self.close()
            raise ConnectionFailed(self.server, f"{call.method}: {error}") from error
        except (ConnectionFailed, RpcTimeout, FatalConnection):
            self.close()
            raise

    def close(self) -> None:
        """Close the connection if it is open. A later call opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def interrupt(self) -> None:
        """Make the waiting call of another thread fail now with ConnectionFailed.

        A call that is still connecting sends nothing any more, and neither does the next call.
        """
        self._interrupted = True
        sock = self._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _connected(self, deadline: float, connect_timeout: float) -> socket.socket:
        if self._socket is not None and _has_input(self._socket):
            self.close()  # between calls a server only tells that it closed the connection
        if self._socket is None:
            self._socket = self._connect(deadline, connect_timeout)
            self._parser = codec.ResponseParser(self._max_response_bytes)
        if self._interrupted:
            raise ConnectionFailed(self.server, "the call was ended before it was sent")
        return self._socket

    def _connect(self, deadline: float, connect_timeout: float) -> socket.socket:
        seconds = min(connect_timeout, _remaining(deadline))
        try:
            sock = socket.create_connection(self._address, timeout=seconds)
        except TimeoutError as error:
            raise RpcTimeout(self.server, "connecting", seconds) from error
        except (OSError, UnicodeError, OverflowError) as error:  # the latter two come from impossible names and ports
            raise ConnectionFailed(self.server, f"connecting: {error}") from error
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.sendall(self._hello)
        except BaseException:
            sock.close()
            raise
        return sock

    def _send(self, sock: socket.socket, buffers: Sequence[Buffer], deadline: float) -> None:
        try:
            _send_all(sock, buffers, deadline)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a request midway says why before it closes the connection.
            sock.settimeout(0)
            with contextlib.suppress(OSError):
                self._receive(sock, deadline=None)
            raise

    def _receive(self, sock: socket.socket, deadline: float | None) -> Result:
        """Wait for the result of the call under way, or, without a deadline, take what has arrived. Raises its RemoteError."""
        while True:
            if deadline is not None:
                sock.settimeout(_remaining(deadline))
            data = sock.recv(_RECEIVE_BYTES)
            if not data:
                raise ConnectionFailed(self.server, "the server closed the connection without an answer")
            for response in self._parser.feed(data):
                if response.call_id not in (self._call_id, codec.NO_CALL):
                    raise codec.CodecError(f"an answer to call {response.call_id}, while only {self._call_id} is under way")
                if isinstance(response, Failure):
                    if response.call_id == codec.NO_CALL:
                        self.close()
                    raise remote_error(self.server, response.exception)
                return response


def first_to_answer(connections: Sequence[Connection]) -> int:
    """Wait until `end` of one of the connections has something to do: an answer has come, the call has been ended, or its time is
    over. Returns its place. All have a call under way."""
    poll, places = select.poll(), dict[int, int]()
    for place, connection in enumerate(connections):
        sock, call = connection._socket, connection._under_way
        if sock is None or sock.fileno() < 0 or call is None:
            return place
        poll.register(sock, select.POLLIN)
        places[sock.fileno()] = place
    deadlines = [connection._under_way.deadline for connection in connections if connection._under_way]
    left = max(0.0, min(deadlines) - time.monotonic())
    ready = poll.poll(math.ceil(left * 1000))
    return places[ready[0][0]] if ready else deadlines.index(min(deadlines))


def _remaining(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _has_input(sock: socket.socket) -> bool:
    """Tell whether the other end has closed the connection or sent something since the last call."""
    try:
        sock.settimeout(0)
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _send_all(sock: socket.socket, buffers: Sequence[Buffer], deadline: float) -> None:
    """Send all buffers in order, without copying big ones. Raises TimeoutError at the deadline (monotonic)."""
    pending = [memoryview(buffer) for buffer in _gather(buffers)]
    first = 0
    while first < len(pending):
        sock.settimeout(_remaining(deadline))
        sent = sock.sendmsg(pending[first : first + _IOV_MAX])
        while first < len(pending) and sent >= len(pending[first]):
            sent -= len(pending[first])
            first += 1
        if sent:
            pending[first] = pending[first][sent:]


def _gather(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the same bytes in fewer buffers: runs of small ones are joined, big ones stay as they are."""
    start = 0
    for i in [i for i, length in enumerate(map(len, buffers)) if length >= _SMALL_BYTES]:
        if start < i:
            yield b"".join(buffers[start:i])
        yield buffers[i]
        start = i + 1
    if start < len(buffers):
        yield b"".join(buffers[start:])
