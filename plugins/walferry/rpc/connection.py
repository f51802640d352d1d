"""A blocking connection to one HBase server: one call at a time, each with a deadline."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from walferry.protos.parsing import parse_message
from walferry.rpc import codec
from walferry.rpc.codec import AuthMethod, Buffer, Failure, Result
from walferry.rpc.errors import ConnectionFailed, FatalConnection, ProtocolError, RpcError, RpcTimeout, remote_error

CONNECT_TIMEOUT_S = 10.0
CALL_TIMEOUT_S = 60.0  # hbase.rpc.timeout
_RECEIVE_BYTES = 64 * 1024
_SMALL_BYTES = 64 * 1024  # smaller pieces are joined: copying them costs less than a descriptor each
_IOV_MAX = max(16, min(os.sysconf("SC_IOV_MAX"), 1024))

M = TypeVar("M", bound=Message)


class Address(Protocol):
    """Where a server listens, e.g. a ServerName."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def default_user() -> str:
    """The operating system's name for who runs this process. Raises RpcError if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError) as e:
        raise RpcError(f"the user of this process (uid {os.getuid()}) has no name; give the one that HBase shall see") from e


class Connection:
    """A connection to `service` ("AdminService", "MasterService") of the server at host:port.

    Connects at the first call, and again at the call after a failure. One thread at a time, but for `interrupt`.
    `user` is the effective user that the server sees; None: the operating system's.
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
        connect_timeout: float = CONNECT_TIMEOUT_S,
        call_timeout: float = CALL_TIMEOUT_S,
    ) -> None:
        self.server = f"{host}:{port}"
        self._address = (host, port)
        self._hello = codec.preamble(auth) + codec.connection_header(service, user or default_user(), cell_codec)
        self._connect_timeout = connect_timeout
        self._call_timeout = call_timeout
        self._socket: socket.socket | None = None
        self._parser = codec.ResponseParser()
        self._call_id = 0
        self._interrupted = False

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
        """Send one request and wait for its answer, at most `timeout` seconds in all (None: the connection's).

        `connect_timeout`: seconds of them for connecting, if that comes first, where the connection's are too many.

        `param` is a message, or one already encoded, whole or in pieces. Raises an RpcError; unless it is a RemoteError
        or RequestTooLarge, nobody can say whether the server executed the request.
        """
        seconds = self._call_timeout if timeout is None else timeout
        self._call_id = (self._call_id + 1) % 0x7FFFFFFF
        encoded = param.SerializeToString() if isinstance(param, Message) else param
        request = codec.encode_request(self._call_id, method, encoded, cell_block, timeout_ms=max(1, int(seconds * 1000)))
        deadline = time.monotonic() + seconds
        try:
            sock = self._connected(deadline, min(self._connect_timeout, connect_timeout or self._connect_timeout))
            self._send(sock, request, deadline)
            result = self._receive(sock, deadline)
            return parse_message(response_type, result.message)
        except TimeoutError as e:
            self.close()
            raise RpcTimeout(self.server, method, seconds) from e
        except (codec.CodecError, DecodeError) as e:
            self.close()
            raise ProtocolError(self.server, f"{method}: {e}") from e
        except OSError as e:
            self.close()
            raise ConnectionFailed(self.server, f"{method}: {e}") from e
        except (ConnectionFailed, RpcTimeout, FatalConnection):
            self.close()
            raise
        finally:
            self._interrupted = False

    def close(self) -> None:
        """Close the connection if it is open. A later call opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def interrupt(self) -> None:
        """From another thread: make the call that is waiting fail now with ConnectionFailed.

        One that is still connecting sends nothing any more, and neither does the next call.
        """
        self._interrupted = True
        sock = self._socket
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _connected(self, deadline: float, connect_timeout: float) -> socket.socket:
        if self._socket is not None and _has_input(self._socket):
            self.close()  # between calls a server has nothing to say but that it closed the connection
        if self._socket is None:
            self._socket = self._connect(deadline, connect_timeout)
            self._parser = codec.ResponseParser()
        if self._interrupted:
            raise ConnectionFailed(self.server, "the call was ended before it was sent")
        return self._socket

    def _connect(self, deadline: float, connect_timeout: float) -> socket.socket:
        seconds = min(connect_timeout, _remaining(deadline))
        try:
            sock = socket.create_connection(self._address, timeout=seconds)
        except TimeoutError as e:
            raise RpcTimeout(self.server, "connecting", seconds) from e
        except (OSError, UnicodeError, OverflowError) as e:  # the latter two of a name or port that cannot be one
            raise ConnectionFailed(self.server, f"connecting: {e}") from e
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
            # A server that refuses a request midway says why before it closes.
            sock.settimeout(0)
            with contextlib.suppress(OSError):
                self._receive(sock, deadline=None)
            raise

    def _receive(self, sock: socket.socket, deadline: float | None) -> Result:
        """The result of the call under way; raises its RemoteError. Without a deadline: from what has arrived already."""
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


def _remaining(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _has_input(sock: socket.socket) -> bool:
    """Whether the other end closed the connection, or sent something, since the last call."""
    try:
        sock.settimeout(0)
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _send_all(sock: socket.socket, buffers: Sequence[Buffer], deadline: float) -> None:
    """Send all buffers in order; big ones are not copied. Raises TimeoutError at the deadline (monotonic)."""
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
    """The same bytes in fewer buffers: runs of small ones joined, big ones as they are."""
    start = 0
    for i in [i for i, length in enumerate(map(len, buffers)) if length >= _SMALL_BYTES]:
        if start < i:
            yield b"".join(buffers[start:i])
        yield buffers[i]
        start = i + 1
    if start < len(buffers):
        yield b"".join(buffers[start:])
