"""The meaning of the exceptions in the result of a Multi: whether to send those actions again, or whether that never helps."""

from __future__ import annotations

import re

import numpy as np

from walferry.base.errors import WalferryError
from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.read import WireType, read_field
from walferry.base.kernels.types import Bytes
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc.errors import MAX_TRACE_CHARS, ProtocolError, RemoteError, remote_error

# A result, unlike the header of an answer, does not say whether trying again helps: HBase's clients go by the class. These are
# the DoNotRetryIOExceptions that a put or a delete may meet, and the exception that a server throws for a method it lacks.
_FINAL = frozenset({
    "AccessDeniedException", "ConstraintException", "CoprocessorException", "DoNotRetryIOException", "FailedSanityCheckException",
    "InvalidQuotaSettingsException", "NoSuchColumnFamilyException", "QuotaExceededException", "SpaceLimitingException",
    "TableNotFoundException", "UnknownProtocolException", "UnsupportedOperationException",
})  # fmt: skip
_SHOWN_BYTES = 100  # of unreadable bytes, in messages
# The answer of a server with hbase.rpc.rows.size.threshold.reject to more actions than hbase.rpc.rows.warning.threshold.
_TOO_MANY_ACTIONS = "Rejecting large batch operation"
_THROTTLED = "RpcThrottlingException"
_BUSY = re.compile(rf"\b({_THROTTLED}|RegionTooBusyException|CallQueueTooBigException|CallDroppedException)\b")
_WAIT = re.compile(r"- wait (?:(\d{1,4})hrs?, )?(?:(\d{1,4})mins?, )?(?:(\d{1,6}(?:\.\d{1,6})?)sec(?:, )?)?(?:(\d{1,6})ms)?")
_UNSOUND = "FailedSanityCheckException"
# A server throws the same exception when another region contains the row (HRegion.checkRow).
_WRONG_REGION = "Requested row out of range for"


def action_error(server: str, encoded: bytes) -> RemoteError:
    """Return the error in a NameBytesPair of a result; `do_not_retry` is set if sending the action again never helps.

    The end of the value may have been cut off. Raises ProtocolError.
    """
    name, value = _name_and_value(server, encoded)
    try:
        class_name = name.decode()
    except UnicodeDecodeError as error:
        raise _unreadable(server, f"the class name {name[:_SHOWN_BYTES]!r} is not UTF-8") from error
    trace = value[:MAX_TRACE_CHARS].decode("utf-8", "replace")
    found = remote_error(server, pb.ExceptionResponse(exception_class_name=class_name, stack_trace=trace))
    found.do_not_retry = is_final(found)
    return found


def _name_and_value(server: str, encoded: bytes) -> tuple[bytes, bytes]:
    name, name_end, value, value_end, broken = _find(np.frombuffer(encoded, np.uint8))
    if broken >= 0:
        raise _unreadable(server, f"there is no field at its byte {broken}")
    if name < 0:
        raise _unreadable(server, "it has no class name")
    return encoded[name:name_end], encoded[value:value_end]


@unmanaged
def _find(pair: Bytes) -> tuple[int, int, int, int, int]:
    """Return the start and end of the name and of the value, and the position of unreadable bytes. Without a name its start is
    -1; without unreadable bytes their position is -1. The value ends with the buffer if the rest of it was cut off.
    """
    name, name_end, value, value_end, pos = -1, 0, 0, 0, 0
    while pos < pair.size:
        tag, _, first, after = read_field(pair, pos, pair.size)
        if tag == 2 << 3 | WireType.BYTES and first > pos:
            after = after if after >= 0 else pair.size
            value, value_end = first, after
        elif after < 0:
            return name, name_end, value, value_end, pos
        elif tag == 1 << 3 | WireType.BYTES:
            name, name_end = first, after
        pos = after
    return name, name_end, value, value_end, -1


def _unreadable(server: str, problem: str) -> ProtocolError:
    return ProtocolError(server, f"Multi: an exception in the result: {problem}")


def is_final(error: RemoteError) -> bool:
    """Return whether sending the same edit again never helps, at any server."""
    named = error.class_name.rpartition(".")[2] in _FINAL
    return error.do_not_retry or (named and _WRONG_REGION not in error.message)


def is_unsound(error: WalferryError) -> bool:
    """Return whether a server has refused an edit's content, such as an unknown visibility label: no other way would help."""
    return isinstance(error, RemoteError) and error.class_name.rpartition(".")[2] == _UNSOUND


def is_busy(error: WalferryError) -> bool:
    """Return whether a server, or one behind it, says that it is too busy now: it throttles us, or a region or queue is full.

    So the peer cluster is alive, and its regions are where they were.
    """
    if not isinstance(error, RemoteError) or error.do_not_retry:
        return False
    return _BUSY.search(f"{error.class_name} {error.message}") is not None


def is_throttled(error: WalferryError) -> bool:
    """Return whether a quota is used up. A request that asks for more at once than a quota ever has never gets through."""
    return is_busy(error) and _THROTTLED in str(error)


def seconds_to_wait(error: WalferryError) -> float | None:
    """Return how many seconds a throttling server says to wait, as in "write size limit exceeded - wait 1mins, 2sec, 10ms"."""
    match = _WAIT.search(str(error))
    if match is None or not any(match.groups()):
        return None
    return sum(float(each or 0) * factor for each, factor in zip(match.groups(), (3600.0, 60.0, 1.0, 0.001), strict=True))


def is_too_many(error: WalferryError) -> bool:
    """Return whether a server has refused a request because of the number of its actions."""
    return isinstance(error, RemoteError) and _TOO_MANY_ACTIONS in error.message
