"""What the exceptions in the result of a Multi mean: to send those actions again, or that it will never help."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from walferry.protos import hbase_pb2 as pb
from walferry.protos.parsing import parse_message
from walferry.rpc.errors import MAX_TRACE_CHARS, ProtocolError, RemoteError, remote_error

# In a result, unlike in the header of an answer, nothing says whether trying again helps: HBase's clients go by the class. These
# are the DoNotRetryIOExceptions that a put or a delete may meet, and what a server throws for a method that it does not have.
_FINAL = frozenset(
    {
        "AccessDeniedException",
        "ConstraintException",
        "CoprocessorException",
        "DoNotRetryIOException",
        "FailedSanityCheckException",
        "InvalidQuotaSettingsException",
        "NoSuchColumnFamilyException",
        "QuotaExceededException",
        "SpaceLimitingException",
        "TableNotFoundException",
        "UnknownProtocolException",
        "UnsupportedOperationException",
    }
)
# The server says with a FailedSanityCheckException that another region has the row (HRegion.checkRow).
_WRONG_REGION = "Requested row out of range for"


def action_error(server: str, encoded: bytes) -> RemoteError:
    """The error that a NameBytesPair of a result tells of; its `do_not_retry` says whether sending the action again helps.

    Raises ProtocolError.
    """
    try:
        pair = parse_message(pb.NameBytesPair, encoded)
    except DecodeError as error:
        raise ProtocolError(server, f"Multi: an exception in the result: {error}") from error
    trace = pair.value[:MAX_TRACE_CHARS].decode("utf-8", "replace")
    found = remote_error(server, pb.ExceptionResponse(exception_class_name=pair.name, stack_trace=trace))
    found.do_not_retry = is_final(found)
    return found


def is_final(error: RemoteError) -> bool:
    """Whether sending the same again never helps, at whatever place."""
    named = error.class_name.rpartition(".")[2] in _FINAL
    return error.do_not_retry or (named and _WRONG_REGION not in error.message)
