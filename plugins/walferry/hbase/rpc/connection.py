"""Defines a blocking connection to one HBase server, for one call at a time, each with a deadline."""

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
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from walferry.base.closing import Closing
from walferry.base.protos.parsing import parse_message
from walferry.base.security.gssapi import HostNotNamed, KerberosError
from walferry.base.security.login import UNSECURED, Login, Protection
from walferry.base.security.sasl import ProtectionRefused
from walferry.base.security.tls import TlsClient, TlsError
from walferry.hbase.rpc import codec, negotiation
from walferry.hbase.rpc.channel import Channel, remaining
from walferry.hbase.rpc.codec import AuthMethod, Buffer, Failure, Result
from walferry.hbase.rpc.errors import (
    ConnectionFailed,
    FatalConnection,
    NotAuthenticated,
    PrincipalNotNamed,
    ProtocolError,
    RpcError,
    RpcTimeout,
    SaslRefused,
    remote_error,
)

CONNECT_TIMEOUT_SECONDS = 10.0
CALL_TIMEOUT_SECONDS = 60.0  # hbase.rpc.timeout
MOST_DELIVERY_SECONDS, LEAST_DELIVERY_SECONDS = 20.0, 2.0
_LATE_SECONDS = 0.1  # for an answer that arrived while the caller waited for another server

M = TypeVar("M", bound=Message)
T = TypeVar("T")


@dataclass(frozen=True)
class Security:
    """The protection of an open connection."""

    protection: Protection | None  # by Kerberos
    tls: str | None  # the protocol, e.g. "TLSv1.3"


@dataclass(frozen=True)
class _Call:
    """A call with a time limit: `seconds` in all, until `deadline` on time.monotonic."""

    method: str
    seconds: float
    deadline: float


def delivery_seconds(seconds: float) -> float:
    """Return how long bytes of a request with a limit of `seconds` may stay unacknowledged before the connection is given up.

    That is less than the extra time for which such a request may still take effect (base/zk/right.py).
    """
    return min(MOST_DELIVERY_SECONDS, max(LEAST_DELIVERY_SECONDS, seconds / 3))


def default_user() -> str:
    """Return the operating system's name of the user that runs this process. Raises RpcError if the user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        problem = f"the user of this process (uid {os.getuid()}) has no name"
        raise RpcError(problem, "Give the name that HBase should see") from error


class Connection(Closing):
    """A connection to `service` ("AdminService", "MasterService") of the server at host:port.

    The first call opens the connection, and so does the call after a failure. Only one thread at a time may use it, except for
    `interrupt`. `login` says who we are and what the server must prove; `cell_codec` is the Java class for cell blocks.
    """

    def __init__(
        self,
        host: str,
        port: int,
        service: str,
        *,
        login: Login = UNSECURED,
        cell_codec: str | None = None,
        connect_timeout: float = CONNECT_TIMEOUT_SECONDS,
        call_timeout: float = CALL_TIMEOUT_SECONDS,
        max_response_bytes: int = codec.MAX_RESPONSE_BYTES,
    ) -> None:
        self.server = f"{host}:{port}"
        self._address = (host, port)
        self._login = login
        # The server knows the user of an authenticated connection.
        header = codec.connection_header(service, None if login.kerberos else login.user or default_user(), cell_codec)
        self._hello = header if login.kerberos else codec.preamble(AuthMethod.SIMPLE) + header
        self._connect_timeout = connect_timeout
        self._call_timeout = call_timeout
        self._channel: Channel | None = None
        self.security: Security | None = None  # of the open connection
        self._principal: str | None = None  # the server's principal, if it was found by trying
        self._max_response_bytes = max_response_bytes
        self._parser = codec.ResponseParser(max_response_bytes)
        self._call_id = 0
        self._under_way: _Call | None = None
        self._interrupted = False

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, as far as this side knows, so that the next call need not connect first."""
        return self._channel is not None and not self._channel.has_input

    def call(
        self,
        method: str,
        param: Message | Buffer | Sequence[Buffer],
        response_type: type[M],
        cell_block: Sequence[Buffer] = (),
        *,
        timeout: float | None = None,
    ) -> M:
        """Send one request and wait for its answer, for at most `timeout` seconds in all (None means the connection's timeout).

        `param` is a message, or an encoded message, whole or in pieces. `cell_block` contains cells in `cell_codec`.

        Raises an RpcError. Unless it is a RemoteError or RequestTooLarge, the server may or may not have executed the request.
        """
        self.begin(method, param, cell_block, timeout=timeout)
        return self.end(lambda result: parse_message(response_type, result.message))

    def call_for_cells(
        self, method: str, param: Message, response_type: type[M], *, timeout: float | None = None
    ) -> tuple[M, memoryview]:
        """Do the same as `call`, and also return the answer's cell block, which is written in `cell_codec`."""
        self.begin(method, param, timeout=timeout)
        return self.end(lambda result: (parse_message(response_type, result.message), result.cells))

    def open(self, seconds: float) -> None:
        """Connect now, if not yet connected, within `seconds` or the connection's timeout. Without this the first call connects.

        Raises ConnectionFailed and RpcTimeout. `interrupt` ends this as it ends a call that is still connecting.
        """
        with self._typed_errors(_Call("connecting", seconds, deadline := time.monotonic() + seconds)):
            self._connected(deadline, self._connect_timeout)

    def begin(
        self,
        method: str,
        param: Message | Buffer | Sequence[Buffer],
        cell_block: Sequence[Buffer] = (),
        *,
        timeout: float | None = None,
        connect_timeout: float | None = None,
        may_go_on: Callable[[], None] | None = None,
    ) -> None:
        """Send a request as `call` does. `end` waits for the answer, so calls to several servers can run side by side.

        If the call has to connect first, that takes at most `connect_timeout` of these seconds, or the connection's own connect
        timeout if it is shorter. `may_go_on` is called before each part of the request is sent. An error that it raises ends the
        call, and closes the connection if a part was already sent.

        Raises the errors of `call`; then there is nothing to `end`.
        """
        seconds = self._call_timeout if timeout is None else timeout
        self._call_id = (self._call_id + 1) % 0x7FFFFFFF
        encoded = param.SerializeToString() if isinstance(param, Message) else param
        call = _Call(method, seconds, time.monotonic() + seconds)
        with self._typed_errors(call):
            codec.check_size(method, encoded, cell_block)
            channel = self._connected(call.deadline, min(self._connect_timeout, connect_timeout or self._connect_timeout))
            # The server does not begin the call after this time. So it does not begin a call long after it timed out here.
            left = math.ceil(remaining(call.deadline) * 1000)
            patience = int(delivery_seconds(seconds) * 1000)
            channel.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience)
            request = codec.encode_request(self._call_id, method, encoded, cell_block, timeout_ms=left)
            self._send(channel, request, call.deadline, may_go_on)
        self._under_way = call

    def end(self, parse: Callable[[Result], T]) -> T:
        """Wait for the answer to the request of `begin`, and parse it. Raises the errors of `call`. A DecodeError or CodecError
        of `parse` becomes a ProtocolError.

        An answer that arrived in time is returned even if the caller asks for it late.
        """
        call, self._under_way = self._under_way, None
        if call is None:
            raise RuntimeError("no call is under way")
        try:
            with self._typed_errors(call):
                if self._channel is None:
                    raise ConnectionFailed(self.server, "it was closed before the answer came")
                return parse(self._receive(self._channel, max(call.deadline, time.monotonic() + _LATE_SECONDS)))
        finally:
            self._interrupted = False

    @contextlib.contextmanager
    def _typed_errors(self, call: _Call) -> Iterator[None]:
        """Turn the errors of a call into RpcErrors, and close a connection that is no longer usable."""
        failed = True
        try:
            yield
            failed = False
        except TimeoutError as error:
            self._close(abort=True)
            if error.errno is not None:  # the kernel has given up the connection
                raise ConnectionFailed(self.server, f"{call.method}: {error}") from error
            raise RpcTimeout(self.server, call.method, call.seconds) from error
        except (codec.CodecError, DecodeError) as error:
            self.close()
            raise ProtocolError(self.server, f"{call.method}: {error}") from error
        except (KerberosError, TlsError) as error:
            self.close()
            wrong = isinstance(error, ProtectionRefused | HostNotNamed)
            raise NotAuthenticated(self.server, str(error), retry_helps=error.retry_helps, others_may=wrong) from error
        except OSError as error:
            self._close(abort=True)
            raise ConnectionFailed(self.server, f"{call.method}: {error}") from error
        except (ConnectionFailed, RpcTimeout, FatalConnection):
            self.close()
            raise
        finally:
            if failed:
                self._interrupted = False  # the interruption was meant for this call

    def close(self) -> None:
        """Close the connection if it is open, and end the call that is under way. A later call opens a new one."""
        self._close(abort=self._under_way is not None)

    def _close(self, *, abort: bool) -> None:
        """Close the connection. With `abort`, a request that has not reached the server yet must not reach it any more."""
        if self._channel is not None:
            self._channel.close(abort=abort)
            self._channel = None
            self.security = None

    def interrupt(self) -> None:
        """Make the waiting call of another thread fail now with ConnectionFailed.

        A call that is still connecting sends nothing any more, and neither does the next call.
        """
        self._interrupted = True
        if (channel := self._channel) is not None:
            channel.interrupt()

    def _connected(self, deadline: float, connect_timeout: float) -> Channel:
        if self._channel is not None and self._channel.has_input:
            self.close()  # between calls, the only input is that the server closed the connection
        if self._channel is None:
            self._channel = self._connect(deadline, connect_timeout)
            self._parser = codec.ResponseParser(self._max_response_bytes)
        if self._interrupted:
            raise ConnectionFailed(self.server, "the call was ended before it was sent")
        return self._channel

    def _connect(self, deadline: float, connect_timeout: float) -> Channel:
        seconds = min(connect_timeout, remaining(deadline))
        give_up = time.monotonic() + seconds
        known, self._principal = self._principal, None
        try:
            return self._connect_to(known, give_up, seconds)
        except PrincipalNotNamed as error:
            *others, last = error.candidates
        for principal in others:
            with contextlib.suppress(KerberosError, SaslRefused):  # then the server has another principal
                return self._connect_to(principal, give_up, remaining(give_up))
        return self._connect_to(last, give_up, remaining(give_up))

    def _connect_to(self, principal: str | None, give_up: float, seconds: float) -> Channel:
        """Connect to the server with this principal. If it is None, use the configured one, or ask the server."""
        try:
            sock = socket.create_connection(self._address, timeout=seconds)
        except TimeoutError as error:
            raise RpcTimeout(self.server, "connecting", seconds) from error
        except (OSError, UnicodeError, OverflowError) as error:  # the latter two come from impossible names and ports
            raise ConnectionFailed(self.server, f"connecting: {error}") from error
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            channel = Channel(sock)
            self.security = self._secure(channel, principal, give_up)
            channel.send([self._hello], give_up)
        except TimeoutError as error:
            sock.close()
            raise RpcTimeout(self.server, "connecting", seconds) from error
        except EOFError as error:
            sock.close()
            why = f"it closed the connection before both sides knew each other. {self._perhaps()}"
            raise NotAuthenticated(self.server, why) from error
        except BaseException:
            sock.close()
            raise
        self._principal = principal
        return channel

    def _perhaps(self) -> str:
        """Return the most frequent reason why a server hangs up without an error."""
        if self._login.tls is None:
            return "If it wants TLS (hbase.server.netty.tls.enabled), set tls_ca in its connection"
        if self._login.tls.certificate is None:
            return "If it demands a certificate of ours, set tls_certificate and tls_key in its connection"
        return "Its log says more"

    def _secure(self, channel: Channel, principal: str | None, give_up: float) -> Security:
        """Set up the protection that the login demands, before anything else is sent."""
        server = negotiation.Server(self._address[0], self.server)
        tls, protection = None, None
        if self._login.tls is not None:
            tls = TlsClient(self._login.tls, server.host)
            channel.run(tls.handshake(), give_up)
            channel.add(tls)
        if self._login.kerberos is not None:
            steps = negotiation.kerberos(server, self._login.kerberos, self._max_response_bytes, principal)
            protection, layers = channel.run(steps, give_up)
            for layer in layers:
                channel.add(layer)
        return Security(protection, tls.version if tls else None)

    def _send(self, channel: Channel, buffers: Sequence[Buffer], deadline: float, may_go_on: Callable[[], None] | None) -> None:
        whole = False
        try:
            channel.send(buffers, deadline, may_go_on)
            whole = True
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a request midway says why before it closes the connection.
            with contextlib.suppress(OSError):
                self._receive(channel, deadline=None)
            raise
        finally:
            if not whole:
                self._close(abort=True)

    def _receive(self, channel: Channel, deadline: float | None) -> Result:
        """Return the result of the call under way; without a deadline, do not wait for it. Raises the server's RemoteError."""
        while True:
            count = channel.receive_into(self._parser.space, deadline)
            if not count:
                raise ConnectionFailed(self.server, "the server closed the connection without an answer")
            if (response := self._parser.took(count)) is None:
                continue
            if response.call_id not in (self._call_id, codec.NO_CALL):
                raise codec.CodecError(f"an answer to call {response.call_id}, while only {self._call_id} is under way")
            if isinstance(response, Failure):
                if response.call_id == codec.NO_CALL:
                    self.close()
                raise remote_error(self.server, response.exception)
            return response


def first_to_answer(connections: Sequence[Connection]) -> int:
    """Return the index of a connection whose `end` need not wait long, as soon as there is one: an answer has come, its call was
    ended, or its time is over. Each connection has a call under way."""
    poll, places = select.poll(), dict[int, int]()
    for place, connection in enumerate(connections):
        channel, call = connection._channel, connection._under_way
        if channel is None or channel.sock.fileno() < 0 or call is None:
            return place
        poll.register(channel.sock, select.POLLIN)
        places[channel.sock.fileno()] = place
    deadlines = [connection._under_way.deadline for connection in connections if connection._under_way]
    left = max(0.0, min(deadlines) - time.monotonic())
    ready = poll.poll(math.ceil(left * 1000))
    return places[ready[0][0]] if ready else deadlines.index(min(deadlines))
