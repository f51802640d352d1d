"""Encodes and decodes HBase's RPC without any I/O (RPC.proto, IPCUtil.write, ServerRpcConnection).

    to the server    = preamble, connection header, request*
    preamble         = "HBas", version 0x00, auth                      auth: 0x50 SIMPLE, 0x51 KERBEROS, 0x52 DIGEST
    connection header= int32 length, ConnectionHeader                  not answered if the server accepts it
    request          = int32 total, delimited RequestHeader, delimited parameter, [cell block]
    from the server  = response*
    response         = int32 total, delimited ResponseHeader, [delimited result, [cell block]]
    delimited        = varint32 length, message

All int32 are big-endian; `total` does not count its own four bytes. The header's CellBlockMeta gives the length of a cell block,
and the codec that the connection header names writes its cells. Nothing follows a response header with an exception. An exception
with call id -1 does not answer a call; the server then closes the connection.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import delimited, length_at, parse_message, varint
from walferry.hbase.rpc.errors import RequestTooLarge

Buffer = bytes | bytearray | memoryview  # of one-byte items, so that len() is bytes

KEY_VALUE_CODEC_WITH_TAGS = "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags"
# Like HBase's sender, Walferry keeps its requests under 95 % of the server's hbase.ipc.max.request.size (256 MiB).
MAX_REQUEST_BYTES = int(0.95 * 256 * 1024 * 1024)
# Most answers have bytes to kilobytes. Exceptions contain stack traces, and a list of peers may be long.
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_FIRST_BYTES = 4 * 1024 * 1024  # more than most answers of a scan have
NO_CALL = 0xFFFFFFFF  # call id -1, as a uint32 on the wire
INT32 = struct.Struct(">i")


class AuthMethod(enum.IntEnum):
    """The preamble's last byte (AuthMethod.java, SaslAuthMethod)."""

    SIMPLE = 0x50
    KERBEROS = 0x51
    DIGEST = 0x52


class CodecError(WalferryError):
    """Bytes from the other end break the layout. The message says which rule and where in the stream."""


@dataclass(frozen=True)
class Result:
    """The answer to call `call_id`: the encoded result message, and the cell block after it, which is often empty."""

    call_id: int
    message: bytes
    cells: memoryview


@dataclass(frozen=True)
class Failure:
    """The exception that ended call `call_id`, or the whole connection if the id is NO_CALL."""

    call_id: int
    exception: pb.ExceptionResponse


def preamble(auth: AuthMethod = AuthMethod.SIMPLE) -> bytes:
    """Return the first six bytes of a connection."""
    return b"HBas" + bytes((0, auth))


def connection_header(service: str, user: str | None, cell_codec: str | None = None) -> bytes:
    """Return the frame after the preamble: protobuf service, effective user, and the codec's class if cell blocks follow.

    After an authentication `user` must be None: any name but the full principal would count as an impersonation.
    """
    header = pb.ConnectionHeader(service_name=service)
    if user is not None:
        header.user_info.effective_user = user
    if cell_codec:
        header.cell_block_codec_class = cell_codec
    return framed(header.SerializeToString())


def framed(data: bytes) -> bytes:
    """Return the bytes with their length, an int32, before them."""
    return INT32.pack(len(data)) + data


def encode_request(
    call_id: int, method: str, param: Buffer | Sequence[Buffer], cell_block: Sequence[Buffer] = (), *, timeout_ms: int = 0
) -> list[Buffer]:
    """Encode one request as buffers to be sent in this order, without copying `param` and `cell_block`.

    `param` is the encoded parameter message, whole or in pieces. The server chooses the priority by method, and begins no request
    after `timeout_ms` (0: not sent). Raises RequestTooLarge.
    """
    pieces = [param] if isinstance(param, (bytes, bytearray, memoryview)) else list(param)
    param_bytes, cell_bytes = check_size(method, pieces, cell_block)
    header = pb.RequestHeader(call_id=call_id, method_name=method, request_param=True)
    if timeout_ms:
        header.timeout = timeout_ms
    if cell_bytes:
        header.cell_block_meta.length = cell_bytes
    head = delimited(header.SerializeToString()) + varint(param_bytes)
    return [INT32.pack(len(head) + param_bytes + cell_bytes) + head, *pieces, *cell_block]


def check_size(method: str, param: Buffer | Sequence[Buffer], cell_block: Sequence[Buffer] = ()) -> tuple[int, int]:
    """Return the bytes of a request's parameter and cells. Raises RequestTooLarge if their sum is over MAX_REQUEST_BYTES."""
    pieces = [param] if isinstance(param, (bytes, bytearray, memoryview)) else param
    param_bytes, cell_bytes = sum(map(len, pieces)), sum(map(len, cell_block))
    if param_bytes + cell_bytes > MAX_REQUEST_BYTES:
        raise RequestTooLarge(method, param_bytes + cell_bytes, MAX_REQUEST_BYTES)
    return param_bytes, cell_bytes


class ResponseParser:
    """Collects a server's bytes until a response is whole. The caller writes them to `space`, where they stay: no copy is made.

    Takes no frame over `max_bytes`. However long a frame is said to be, its memory is at most _FIRST_BYTES, or twice the bytes
    that have arrived.
    """

    def __init__(self, max_bytes: int = MAX_RESPONSE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._offset = 0  # the offset of the frame's length in the stream, for messages
        self._begin()

    def _begin(self) -> None:
        self._total: int | None = None  # the frame's bytes after its length, once the length is known
        self._buffer, self._filled = bytearray(INT32.size), 0

    @property
    def missing(self) -> int:
        """The number of bytes still missing from the unfinished response, or from its length."""
        return (INT32.size if self._total is None else self._total) - self._filled

    @property
    def space(self) -> memoryview:
        """Where the next bytes belong, some or all of the missing ones."""
        if self._filled == len(self._buffer):
            grown = bytearray(min(self._filled + self.missing, 2 * self._filled))
            grown[: self._filled] = self._buffer
            self._buffer = grown
        return memoryview(self._buffer)[self._filled :]

    def took(self, count: int) -> Result | Failure | None:
        """Return the response that `count` more bytes in `space` complete; None if more are missing.

        Raises CodecError, after which the connection is unusable.
        """
        self._filled += count
        if self.missing:
            return None
        if self._total is None:
            (total,) = INT32.unpack(self._buffer)
            if not 0 < total <= self._max_bytes:
                raise CodecError(f"a response of {total} bytes at byte {self._offset}, where 1 to {self._max_bytes} are allowed")
            self._total, self._buffer, self._filled = total, bytearray(min(total, _FIRST_BYTES)), 0
            return None
        response = _parse_frame(memoryview(self._buffer).toreadonly(), self._offset + INT32.size)
        self._offset += INT32.size + self._total
        self._begin()
        return response

    def feed(self, data: Buffer) -> list[Result | Failure]:
        """Return the responses that `data` completes, in order. Raises CodecError, after which the connection is unusable."""
        left, responses = memoryview(data), list[Result | Failure]()
        while left:
            space = self.space[: len(left)]
            space[:] = left[: len(space)]
            if (response := self.took(len(space))) is not None:
                responses.append(response)
            left = left[len(space) :]
        return responses


def _parse_frame(frame: memoryview, offset: int) -> Result | Failure:
    """Parse one response without its leading int32. `offset` is its place in the stream."""
    start, end = delimited_range(frame, 0, "response header", offset)
    try:
        header = parse_message(pb.ResponseHeader, bytes(frame[start:end]))
    except DecodeError as error:
        raise CodecError(f"response header at byte {offset + start}: {error}") from error
    if header.HasField("exception"):
        return Failure(header.call_id, header.exception)
    start, end = delimited_range(frame, end, "result", offset)
    left, cells = len(frame) - end, header.cell_block_meta.length
    if left != cells:
        raise CodecError(f"{left} bytes follow the result at byte {offset + end}, but the header announces {cells} of cells")
    return Result(header.call_id, bytes(frame[start:end]), frame[end:])


def delimited_range(frame: bytes | memoryview, position: int, what: str, offset: int) -> tuple[int, int]:
    """Return the start and end, within the frame, of the message whose length is at `position`. Raises CodecError.

    `what` names the message for the error, and `offset` is the frame's place in the stream.
    """
    if (found := length_at(frame, position)) is None:
        raise CodecError(f"no length of the {what} at byte {offset + position}")
    length, start = found
    if length > (left := len(frame) - start):
        raise CodecError(f"{what} of {length} bytes at byte {offset + start}, but its frame has only {left} more")
    return start, start + length
