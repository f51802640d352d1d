"""Bounds the answers of ZooKeeper servers, and ends the connection to a server whose answers make no sense."""

import ssl
import struct
from typing import Any

from kazoo.exceptions import MarshallingError
from kazoo.protocol.connection import ConnectionDropped

from walferry.base.zk.secured import SecuredClient

MAX_SKIPPED_BYTES = 512 << 20  # of an answer that is read to its end but dropped, so that the connection stays usable
SKIP_BYTES = 1 << 20  # bytes of a dropped answer that are read at once
REPLY_HEADER = struct.Struct(">iqi")  # xid, zxid, error


def bound_answers(zk: SecuredClient, most_bytes: int) -> None:
    """Drop a server that announces an impossibly long answer, and skip one that is only too long. kazoo collects up to 2 GiB."""
    read = zk._connection._read
    zk.handler.most_bytes = most_bytes

    def skipped(length: int, timeout: float) -> bytes:
        """Read and drop an answer; return its header, with an error in place of the rest."""
        xid, zxid, error = REPLY_HEADER.unpack(read(REPLY_HEADER.size, timeout))
        left = length - REPLY_HEADER.size
        while left:
            left -= len(read(min(left, SKIP_BYTES), timeout))
        return REPLY_HEADER.pack(xid, zxid, error or MarshallingError.code)

    def bounded(length: int, timeout: float) -> Any:
        if not 0 <= length <= (MAX_SKIPPED_BYTES if zk.connected else most_bytes):
            zk.handler.no_zookeeper |= not zk.connected
            raise ConnectionDropped(f"an answer of {length} bytes; at most {most_bytes} are accepted")
        try:
            return read(length, timeout) if length <= most_bytes else skipped(length, timeout)
        except ConnectionDropped as dropped:
            zk.handler.dropped |= not zk.connected
            if isinstance(dropped.__context__, ssl.SSLError):
                zk.tls_ended(dropped.__context__)
            raise

    zk._connection._read = bounded


def drop_unreadable(zk: SecuredClient) -> None:
    """Drop a server whose answer cannot be parsed: such an answer would end kazoo's thread, and so the client for good."""
    read = zk._connection._read_socket

    def dropping(timeout: float) -> Any:
        try:
            return read(timeout)
        except (struct.error, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConnectionDropped(f"an answer that cannot be read: {error!r}") from error

    zk._connection._read_socket = dropping
