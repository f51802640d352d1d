"""The disk space of the file system behind a URL.

hdfs-native has no call for it, so a NameNode is asked directly: ClientProtocol.getFsStats over Hadoop's RPC, version 9, without
SASL. A cluster with Kerberos refuses that. Object stores have no limit that could be asked for.

    connection   = "hrpc", version, service class 0, auth 0 (none)
    context      = int32 total, delimited RpcRequestHeader (call -3), delimited IpcConnectionContext
    request      = int32 total, delimited RpcRequestHeader, delimited RequestHeader, delimited GetFsStatusRequest (empty)
    response     = int32 total, delimited RpcResponseHeader, delimited GetFsStatsResponse
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from uuid import uuid4

from google.protobuf.message import DecodeError, Message

from walferry.files.namenodes import namenodes
from walferry.files.systems import HDFS_SCHEMES, StoreError, file_system, local_path, remote, scheme
from walferry.protos import hdfs_pb2 as pb
from walferry.protos.parsing import parse_message
from walferry.users import user_name

CALL_SECONDS = 20.0
MAX_ANSWER_BYTES = 1 << 20
_PREAMBLE = b"hrpc" + bytes((9, 0, 0))
_PROTOCOL = "org.apache.hadoop.hdfs.protocol.ClientProtocol"
_CONTEXT_CALL = -3
_PROTOBUF_KIND = 2


@dataclass(frozen=True)
class Space:
    """The size of a file system and what is left of it, in bytes on its disks."""

    capacity: int
    remaining: int


def space_at(url: str) -> Space:
    """The space of the file system that has this folder. Raises StoreError if it is not known, saying why."""
    kind = scheme(url)
    if kind == "file":
        try:
            found = os.statvfs(local_path(url))
        except OSError as error:
            raise StoreError(f"{url}: {error.strerror}") from error
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
    if kind not in HDFS_SCHEMES:
        raise StoreError(f"{url}: {kind}:// has no disk space that can be asked for")
    problems = []
    for host, port in namenodes(url):
        try:
            return _ask(host, port)
        except (OSError, StoreError, DecodeError) as error:
            problems.append(f"NameNode {host}:{port}: {error}")
    raise StoreError(f"{url}: {'; '.join(problems) or 'its NameNodes are not known'}")


def bytes_on_disk(url: str) -> tuple[int, int]:
    """The bytes of all files in a folder, and how many they take on the disks, where each copy counts. Raises StoreError."""
    if scheme(url) not in HDFS_SCHEMES:
        raise StoreError(f"{url}: only HDFS keeps copies that can be counted")
    system = file_system(url)
    used = remote(url, lambda: system.client.get_content_summary(system._strip_protocol(url)))
    return int(used.length), int(used.space_consumed)


def _ask(host: str, port: int) -> Space:
    client = uuid4().bytes
    user = os.environ.get("HADOOP_USER_NAME") or user_name()
    context = pb.IpcConnectionContext(userInfo=pb.UserInformation(effectiveUser=user), protocol=_PROTOCOL)
    call = pb.RequestHeader(methodName="getFsStats", declaringClassProtocolName=_PROTOCOL, clientProtocolVersion=1)
    with socket.create_connection((host, port), timeout=CALL_SECONDS) as sock:
        sock.sendall(
            _PREAMBLE
            + _frame(_header(_CONTEXT_CALL, client), _delimited(context))
            + _frame(_header(0, client), _delimited(call), b"\0")
        )
        (length,) = struct.unpack(">i", _exactly(sock, 4))
        if not 0 < length <= MAX_ANSWER_BYTES:
            raise StoreError(f"an answer of {length} bytes is not one of Hadoop's RPC")
        answer = _exactly(sock, length)
    header, rest = _first(answer)
    told = parse_message(pb.RpcResponseHeader, header)
    if told.status:
        raise StoreError(f"{told.exceptionClassName.rpartition('.')[2]}: {told.errorMsg.partition(chr(10))[0]}")
    stats = parse_message(pb.GetFsStatsResponse, _first(rest)[0])
    return Space(stats.capacity, stats.remaining)


def _header(call_id: int, client: bytes) -> bytes:
    return _delimited(pb.RpcRequestHeader(rpcKind=_PROTOBUF_KIND, rpcOp=0, callId=call_id, clientId=client, retryCount=-1))


def _frame(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body


def _delimited(message: Message) -> bytes:
    data = message.SerializeToString()
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def _first(data: bytes) -> tuple[bytes, bytes]:
    """The first delimited message, and what follows it. Raises DecodeError."""
    length = shift = 0
    for at, byte in enumerate(data[:5], 1):
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if len(data) < at + length:
                break
            return data[at : at + length], data[at + length :]
    raise DecodeError("a message is cut off")


def _exactly(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            raise StoreError("it hung up without an answer")
        data += more
    return data
