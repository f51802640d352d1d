"""Defines the errors of a call to an HBase server as types that callers can tell apart.

RpcError
├── ConnectionFailed          no connection, or it broke: the request may or may not have been executed
│   ├── ProtocolError         the bytes that came back are not HBase RPC
│   └── NotAuthenticated      one side could not prove who it is, or the other did not accept it; nothing was executed
│       └── SaslRefused, NotSecured, WrongServerPrincipal, PrincipalNotNamed
├── RpcTimeout                no answer in time: the request may or may not have been executed
├── RequestTooLarge           refused here, before a byte was sent
└── RemoteError               the server's own exception
    ├── TableNotFound, ColumnFamilyNotFound, AccessDenied, CellTooLarge, PeerNotFound, RequestTooBig, FatalConnection
    ├── ServerStopped         the server stops or aborts: another server may well answer
    │   └── ServerAborted
    ├── ServerNotReady        the server starts, or is not the active master
    └── ServerOverloaded
        └── CallQueueTooBig
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from walferry.base.errors import WalferryError
from walferry.base.protos.hbase_pb2 import ExceptionResponse
from walferry.base.texts import one_line

MAX_MESSAGE_CHARS = 1000
MAX_CLASS_NAME_CHARS = 200
MAX_TABLE_CHARS = 200
MAX_TRACE_CHARS = 16_000
_MISSING_ADVICE = (
    "Create it there as it is in the source, or exclude it from the peer; until then its WAL group waits. If it is deleted at "
    "the source too, set {} to drop its edits"
)


class RpcError(WalferryError):
    """A call to an HBase server did not succeed."""


class ConnectionFailed(RpcError):
    """`server` (host:port) could not be reached, or the connection broke for `reason`."""

    _problem: ClassVar[str] = "connection to {} failed: {}"  # filled with server and reason

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(self._problem.format(server, reason))
        self.server = server
        self.reason = reason


class ProtocolError(ConnectionFailed):
    """`server` sent bytes that are not HBase RPC, so nothing on that connection can be trusted any more."""

    _problem = "{} does not speak HBase RPC as expected: {}"


class RpcTimeout(RpcError):
    """`server` did not do `what` within `seconds`."""

    def __init__(self, server: str, what: str, seconds: float) -> None:
        super().__init__(f"{server}: {what} took longer than {seconds:.1f} s")
        self.server = server
        self.what = what
        self.seconds = seconds


class RequestTooLarge(RpcError):
    """A request has `size` bytes, but a server accepts only `limit`; nothing was sent."""

    retry_helps = False
    advice = "Ship fewer or smaller entries in one request"

    def __init__(self, method: str, size: int, limit: int) -> None:
        super().__init__(
            f"a {method} request of {size:,} bytes is over the {limit:,} that an HBase server takes by default"
            " (hbase.ipc.max.request.size); nothing was sent"
        )


class NotAuthenticated(ConnectionFailed):
    """`server` and this side could not authenticate each other. `reason` says which side refused what, and what to do.

    `others_may` says whether other servers of the cluster may succeed, because this server is not set up as it should be.
    """

    _problem = "no authenticated connection to {}: {}"

    def __init__(self, server: str, reason: str, *, retry_helps: bool = True, others_may: bool = False) -> None:
        super().__init__(server, reason)
        self.others_may = retry_helps or others_may
        self.retry_helps = retry_helps  # type: ignore[misc]  # the underlying error decides


class SaslRefused(NotAuthenticated):
    """The server, which should be `principal`, refused our identity with the exception of Java `class_name` and `message`."""

    def __init__(self, server: str, principal: str, class_name: str, message: str) -> None:
        words = f"{class_name.rpartition('.')[2]}: {message}"
        advice = (
            f". The server's log says more. Its principal may be another one than {principal} (server_principals), its key may "
            "have changed (then the next try takes a new ticket), or its clock or ours may be wrong"
        )
        super().__init__(server, f"it refused us: {words}{advice}")
        self.class_name = class_name
        self.message = message


class NotSecured(NotAuthenticated):
    """The server says that it does not use Kerberos, which the login demands."""

    def __init__(self, server: str) -> None:
        reason = (
            "it says that it is not secured (hbase.security.authentication=simple), while its connection has a principal. "
            "Nothing was sent to it. Find out whether that is the server; if it is, remove principal and keytab"
        )
        super().__init__(server, reason, retry_helps=False, others_may=True)


class WrongServerPrincipal(NotAuthenticated):
    """The server says that it is `found`, which is not one of the accepted principals."""

    def __init__(self, server: str, found: str, accepted: Sequence[str]) -> None:
        only = f"it says that it is {found}, and accepted are only {', '.join(accepted)}"
        advice = "If it is right, add it to server_principals of its connection"
        super().__init__(server, f"{only}. {advice}", retry_helps=False, others_may=True)


class PrincipalNotNamed(NotAuthenticated):
    """The server cannot say which of the principals `candidates` it has, like HBase before 2.6. It has closed the connection."""

    def __init__(self, server: str, candidates: Sequence[str]) -> None:
        names = ", ".join(candidates)
        super().__init__(server, f"it is older than HBase 2.6, and cannot say which one of {names} it is (server_principals)")
        self.candidates = candidates


class RemoteError(RpcError):
    """The exception in the answer of `server`: Java `class_name`, its `message`, and whether the server rules out a retry.

    `stack_trace` is the server's stack trace, cut at MAX_TRACE_CHARS.
    """

    def __init__(self, server: str, class_name: str, message: str, do_not_retry: bool = False, stack_trace: str = "") -> None:
        self.server = server
        self.class_name = class_name
        self.message = message
        self.do_not_retry = do_not_retry
        self.stack_trace = stack_trace
        super().__init__(*self._problem_and_advice())

    def _problem_and_advice(self) -> tuple[str, str]:
        return f"{self.server}: {self.class_name.rpartition('.')[2]}: {self.message}", self.advice


class TableNotFound(RemoteError):
    """The server does not know table `table` (None if the server did not name it).

    A caller that knows the table for certain passes its name: a name found in a server's message is only a guess.
    """

    retry_helps = False
    advice = _MISSING_ADVICE.format("hbase.replication.drop.on.deleted.table")

    def __init__(
        self, server: str, class_name: str, message: str, do_not_retry: bool = False, stack_trace: str = "", *,
        table: str | None = None,
    ) -> None:  # fmt: skip
        self._table = table
        super().__init__(server, class_name, message, do_not_retry, stack_trace)

    @property
    def table(self) -> str | None:
        """The table's name, as the caller gave it or as the server's message contains it."""
        if self._table is not None:
            return self._table
        return next((match[1] for pattern in _TABLE_PATTERNS if (match := pattern.search(self.message))), None)

    def _problem_and_advice(self) -> tuple[str, str]:
        named = one_line(self.message if self.table is None else self.table, MAX_TABLE_CHARS)
        return f"{self.server}: table {named} does not exist there", self.advice


class ColumnFamilyNotFound(RemoteError):
    """`table` lacks column family `family` (each None if the server did not name it)."""

    retry_helps = False
    advice = _MISSING_ADVICE.format("hbase.replication.drop.on.deleted.columnfamily")

    @property
    def family(self) -> str | None:
        """The family's name in the server's message."""
        match = _FAMILY.search(self.message)
        return match[1] if match else None

    @property
    def table(self) -> str | None:
        """The table's name in the server's message."""
        match = _FAMILY.search(self.message)
        return match[2] if match else None

    def _problem_and_advice(self) -> tuple[str, str]:
        if self.family is None:
            return super()._problem_and_advice()
        return f"{self.server}: column family {self.family} of table {self.table} does not exist there", self.advice


class AccessDenied(RemoteError):
    """The server requires another authentication, or the user lacks a permission."""

    retry_helps = False

    def _problem_and_advice(self) -> tuple[str, str]:
        problem, _ = super()._problem_and_advice()
        if "Authentication is required" in self.message:
            return f"{problem} (the cluster is secured by Kerberos)", "Give its connection a principal and a keytab"
        return problem, ""


class CellTooLarge(RemoteError):
    """A cell has more bytes than the server accepts. `limit` is None if the server did not name its limit."""

    retry_helps = False

    @property
    def limit(self) -> int | None:
        """The server's limit in bytes, as its message says."""
        match = _LIMIT.search(self.message)
        return int(match[1]) if match else None


class PeerNotFound(RemoteError):
    """The master does not know the replication peer."""

    retry_helps = False


class RequestTooBig(RemoteError):
    """The server's hbase.ipc.max.request.size is smaller than the request."""

    retry_helps = False


class FatalConnection(RemoteError):
    """The server refused the connection itself: its version, service, codec or authentication."""

    retry_helps = False


class ServerStopped(RemoteError):
    """The server is stopping. This says nothing about the request."""


class ServerAborted(ServerStopped):
    """The server is aborting."""


class ServerNotReady(RemoteError):
    """The server is still starting, or it is a master that is not active."""


class ServerOverloaded(RemoteError):
    """The server dropped the call because it has too much to do."""


class CallQueueTooBig(ServerOverloaded):
    """The server's call queue is full."""


_BY_CLASS: dict[str, type[RemoteError]] = {
    "TableNotFoundException": TableNotFound,
    "NoSuchColumnFamilyException": ColumnFamilyNotFound,
    "AccessDeniedException": AccessDenied,
    "ReplicationPeerNotFoundException": PeerNotFound,
    "RequestTooBigException": RequestTooBig,
    "FatalConnectionException": FatalConnection,
    "WrongVersionException": FatalConnection,
    "BadAuthException": FatalConnection,
    "UnknownServiceException": FatalConnection,
    "EmptyServiceNameException": FatalConnection,
    "UnsupportedCellCodecException": FatalConnection,
    "UnsupportedCompressionCodecException": FatalConnection,
    "RegionServerStoppedException": ServerStopped,
    "StoppedRpcClientException": ServerStopped,  # the sink's own client is already closed
    "LocalConnectionClosedException": ServerStopped,
    "MasterStoppedException": ServerStopped,
    "RegionServerAbortedException": ServerAborted,
    "ServerNotRunningYetException": ServerNotReady,
    "MasterNotRunningException": ServerNotReady,
    "PleaseHoldException": ServerNotReady,
    "CallDroppedException": ServerOverloaded,
    "CallQueueTooBigException": CallQueueTooBig,
    "IllegalArgumentException": RemoteError,  # e.g. an illegal table name
}
# A sink writes through its own client, which wraps these in exceptions that look as if a retry could help.
_CAUSES_THAT_DECIDE = re.compile(r"\b(TableNotFoundException|NoSuchColumnFamilyException|IllegalArgumentException)\b: ?(.*)")
_CLIENT_CLOSED = re.compile(r"\b(Client|Connection) (is )?(already )?closed\b", re.IGNORECASE)  # ReadOnlyZKClient and others
# A server, or a sink's client before sending, refuses a cell that is too large with an exception of a general class. In its text
# the cell's description, mostly its row, precedes the limit, and may be longer than the part of a trace that is kept.
_TOO_LARGE = re.compile(r"DoNotRetryIOException: Cell(\[| with size )|\bKeyValue size too large\b")
_LIMIT = re.compile(r"with size \d{1,18} exceeds limit of (\d{1,18}) bytes")
_FAMILY = re.compile(r"Column family (\S+) does not exist in region .*? in table '([^']+)'")
_TABLE_PATTERNS = (
    re.compile(r"[Tt]able '?([^\s',]+)'? (?:was not found|does not exist)"),
    re.compile(r"'([^\s']+)'"),
    re.compile(r"^([\w.:-]+)$"),
)


def remote_error(server: str, exception: ExceptionResponse) -> RemoteError:
    """Return the typed error for the exception in the answer of `server` (host:port)."""
    trace = exception.stack_trace[:MAX_TRACE_CHARS]
    class_name = one_line(exception.exception_class_name, MAX_CLASS_NAME_CHARS) or "unnamed exception"
    kind = _BY_CLASS.get(re.split(r"[.$]", class_name)[-1])
    message, do_not_retry = _message(class_name, trace), exception.do_not_retry
    if kind in (None, RemoteError) and _TOO_LARGE.search(trace):
        limit = _LIMIT.search(trace)
        return CellTooLarge(server, class_name, limit[0] if limit else message, True, trace)
    if kind is None and (cause := _CAUSES_THAT_DECIDE.search(trace)):
        kind, message, do_not_retry = _BY_CLASS[cause[1]], one_line(cause[2].strip(), MAX_MESSAGE_CHARS), True
    if kind is None:
        kind = ServerStopped if _CLIENT_CLOSED.search(message) else RemoteError
    if issubclass(kind, ServerStopped):
        do_not_retry = False  # some of them are DoNotRetryIOExceptions, but that rules out only this server
    return kind(server, class_name, message, do_not_retry, trace)


def _message(class_name: str, trace: str) -> str:
    """Return the text before the first frame of a Java stack trace, without the class name, and the innermost cause."""
    head, _, frames = trace.partition("\n\tat ")
    head = " ".join(head.removeprefix(class_name).removeprefix(":").split())
    causes = re.findall(r"^Caused by: (.*)$", frames, re.MULTILINE)
    if causes:
        head = f"{head} (caused by {causes[-1]})"
    return one_line(head, MAX_MESSAGE_CHARS) or "no message"
