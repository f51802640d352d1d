"""Decodes a client's requests and encodes the answers, without any I/O: the server's side of `codec`, with the same layouts.

A client may also send -1 in place of a request's length. That is a ping, and gets no answer.

Source: HBase's RpcServer.Connection and RpcServer.Call (branch-1.4).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from google.protobuf.message import DecodeError, Message

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import delimited, parse_message
from walferry.base.texts import one_line
from walferry.hbase.rpc.codec import INT32, NO_CALL, AuthMethod, Buffer, CodecError, delimited_range, framed, preamble

MAX_TEXT_CHARS = 1000
_PING = -1
_HBASE = "org.apache.hadoop.hbase"
_PREAMBLE = preamble(AuthMethod.SIMPLE)
_MAGIC = _PREAMBLE[:4]
_MAX_HEADER_BYTES = 64 * 1024  # the limit of a connection header, which names a user and two classes


class JavaException(enum.StrEnum):
    """The exceptions that HBase's clients tell apart."""

    IO = "java.io.IOException"
    DO_NOT_RETRY = f"{_HBASE}.DoNotRetryIOException"
    FATAL_CONNECTION = f"{_HBASE}.ipc.FatalConnectionException"
    WRONG_VERSION = f"{_HBASE}.ipc.WrongVersionException"
    BAD_AUTH = f"{_HBASE}.ipc.BadAuthException"
    UNKNOWN_SERVICE = f"{_HBASE}.ipc.UnknownServiceException"
    QUEUE_TOO_BIG = f"{_HBASE}.CallQueueTooBigException"
    UNSUPPORTED = "java.lang.UnsupportedOperationException"
    NOT_RUNNING_YET = f"{_HBASE}.ipc.ServerNotRunningYetException"
    CLOCK_OUT_OF_SYNC = f"{_HBASE}.ClockOutOfSyncException"
    YOU_ARE_DEAD = f"{_HBASE}.YouAreDeadException"
    TABLE_NOT_FOUND = f"{_HBASE}.TableNotFoundException"
    TABLE_NOT_ENABLED = f"{_HBASE}.TableNotEnabledException"
    TABLE_NOT_DISABLED = f"{_HBASE}.TableNotDisabledException"
    ACCESS_DENIED = f"{_HBASE}.security.AccessDeniedException"


class CallRefused(WalferryError):
    """The exception with which the server answers a call or ends a whole connection."""

    def __init__(self, kind: JavaException, message: str, *, do_not_retry: bool = False) -> None:
        super().__init__(one_line(message, MAX_TEXT_CHARS))
        self.kind = kind
        self.do_not_retry = do_not_retry


@dataclass(frozen=True)
class ReceivedCall:
    """A call as received, with its method's name cut to one line. `param` is the encoded parameter message."""

    call_id: int
    method: str
    param: bytes


class RequestParser:
    """Collects a client's bytes until requests are whole. Holds only bytes that have arrived, and no frame over `max_bytes`."""

    def __init__(self, services: Collection[str], max_bytes: int) -> None:
        self.service = ""  # the service in the client's connection header, once that has come
        self.user = ""
        self.frames = 0  # the number of whole frames and pings
        self._services = services
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._offset = 0  # the offset of the buffer's first byte in the stream, for messages
        self._has_preamble = False

    @property
    def held(self) -> int:
        """The number of bytes of an unfinished preamble or frame."""
        return len(self._buffer)

    def feed(self, data: Buffer) -> Iterator[ReceivedCall]:
        """Yield the requests that `data` completes, in order. Raises CallRefused, after which the connection is unusable."""
        self._buffer += data
        if not self._has_preamble and not self._take_preamble():
            return
        while (frame := self._take_frame()) is not None:
            offset = self._offset - len(frame)
            try:
                if self.service:
                    yield _parse_request(frame, offset)
                else:
                    self._take_header(frame, offset)
            except (CodecError, DecodeError) as error:
                raise CallRefused(JavaException.FATAL_CONNECTION, f"at byte {offset}: {error}", do_not_retry=True) from error

    def _take_preamble(self) -> bool:
        found = bytes(self._buffer[: len(_PREAMBLE)])
        if found[: len(_MAGIC)] != _MAGIC[: len(found)]:
            problem = f"a connection begins with {_MAGIC!r}, not {found!r}"
            raise CallRefused(JavaException.FATAL_CONNECTION, problem, do_not_retry=True)
        if len(found) < len(_PREAMBLE):
            return False
        version, auth = found[len(_MAGIC)], found[-1]
        if version != 0:
            raise CallRefused(JavaException.WRONG_VERSION, f"version {version} of HBase RPC; only 0 is served", do_not_retry=True)
        if auth != AuthMethod.SIMPLE:
            raise CallRefused(JavaException.BAD_AUTH, f"authentication {auth:#x}; only SIMPLE is served", do_not_retry=True)
        self._drop(len(_PREAMBLE))
        self._has_preamble = True
        return True

    def _take_frame(self) -> bytes | None:
        """Return the next whole frame without its length, or None if it has not arrived yet."""
        limit = self._max_bytes if self.service else _MAX_HEADER_BYTES
        while len(self._buffer) >= INT32.size:
            (length,) = INT32.unpack_from(self._buffer)
            if length == _PING and self.service:
                self._drop(INT32.size)
                self.frames += 1
                continue
            if not 0 < length <= limit:
                problem = f"a frame of {length} bytes at byte {self._offset}, where 1 to {limit} are allowed"
                raise CallRefused(JavaException.FATAL_CONNECTION, problem, do_not_retry=True)
            end = INT32.size + length
            if len(self._buffer) < end:
                return None
            frame = bytes(memoryview(self._buffer)[INT32.size : end])
            self._drop(end)
            self.frames += 1
            return frame
        return None

    def _drop(self, length: int) -> None:
        del self._buffer[:length]
        self._offset += length

    def _take_header(self, frame: bytes, offset: int) -> None:
        # The client also names the codec of its cell blocks. No service here uses cell blocks.
        header = parse_message(pb.ConnectionHeader, frame)
        if header.service_name not in self._services:
            raise CallRefused(JavaException.UNKNOWN_SERVICE, f"service {header.service_name!r} is not served", do_not_retry=True)
        self.service = header.service_name
        self.user = one_line(header.user_info.effective_user, MAX_TEXT_CHARS)


def _parse_request(frame: bytes, offset: int) -> ReceivedCall:
    start, end = delimited_range(frame, 0, "request header", offset)
    header = parse_message(pb.RequestHeader, frame[start:end])
    param = b""
    if header.request_param:
        start, end = delimited_range(frame, end, "parameter", offset)
        param = frame[start:end]
    left, cells = len(frame) - end, header.cell_block_meta.length
    if left != cells:
        raise CodecError(f"{left} bytes follow the parameter, but the header announces {cells} of cells")
    return ReceivedCall(header.call_id, one_line(header.method_name, MAX_TEXT_CHARS), param)


def encode_result(call_id: int, result: Message) -> bytes:
    """Encode the answer to a call."""
    header = pb.ResponseHeader(call_id=call_id)
    return framed(delimited(header.SerializeToString()) + delimited(result.SerializeToString()))


def encode_refusal(refused: CallRefused, call_id: int = NO_CALL) -> bytes:
    """Encode the exception that ends a call, or the whole connection if there is no call id."""
    header = pb.ResponseHeader(call_id=call_id)
    exception = header.exception
    exception.exception_class_name = refused.kind
    exception.stack_trace = f"{refused.kind}: {refused}"
    exception.do_not_retry = refused.do_not_retry
    return framed(delimited(header.SerializeToString()))
