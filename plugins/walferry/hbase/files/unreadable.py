"""Handles bytes that a file system cannot read: finds the readable ones among them, and the reason for the rest.

hdfs-native reports only that all DataNodes of a block have failed, whatever the reason. If the block has no DataNodes, the
NameNode knows no copy of it. If a DataNode does not answer, it may have a sound copy. If all answer, their copies are damaged: a
DataNode sends checksums, and hdfs-native compares them.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from walferry.base.hosts import unreachable
from walferry.base.texts import one_line, shell_word
from walferry.hbase.files.errors import UnreadableBytes
from walferry.hbase.files.namenodes import hadoop_settings, path_of

DAMAGED = (errno.EIO, errno.EBADMSG, errno.EUCLEAN)  # a local disk's errors for a bad sector or a wrong checksum
SKIPPED_BYTES = 64 << 10  # the size of a hole around unreadable bytes
_CONNECT_SECONDS = 5.0
_MAX_TEXT_CHARS = 300
_MAX_NODES = 10  # no block has more copies
_ALL_FAILED = "All DataNodes failed"
_NODE = re.compile(r'ip_addr: \\?"([^"\\]*)\\?", host_name: \\?"([^"\\]*)\\?",.{0,300}?xfer_port: (\d{1,5})')

Read = Callable[[int, int], bytes]
"""Reads from an offset on a number of bytes."""


@dataclass(frozen=True)
class Reason:
    """Why bytes are unreadable, the remedy, and whether every copy that the file system knows is damaged or gone."""

    why: str
    advice: str
    lost: bool = False


def reason_on_hdfs(url: str, error: BaseException | None, text: str) -> Reason:
    """Find out why bytes on HDFS are unreadable. `error` is hdfs-native's error, or None if it did not answer."""
    said = str(error or "")
    nodes = list(dict.fromkeys(_NODE.findall(said)))[:_MAX_NODES]
    fsck = f"hdfs fsck {shell_word(path_of(url))} -files -blocks -locations"
    if _ALL_FAILED in said and nodes:
        by_name = hadoop_settings().get("dfs.client.use.datanode.hostname") == "true"
        servers = [(name if by_name else address, int(port)) for address, name, port in nodes]
        silent = [why for server in servers if (why := unreachable([server], _CONNECT_SECONDS))]
        if silent:
            why = f"a DataNode that has these bytes does not answer ({one_line('; '.join(silent), _MAX_TEXT_CHARS)})"
            return Reason(why, f"Start it, and run again: its copy may be sound. See {fsck}")
        named = one_line(", ".join(f"{host}:{port}" for host, port in servers), _MAX_TEXT_CHARS)
        why = f"HDFS does not give these bytes: each DataNode that has them ({named}) answers, but its copy is damaged or gone"
        return Reason(why, f"See {fsck}, and the DataNodes' logs", lost=True)
    if _ALL_FAILED in said or "BlocksNotFound" in said:
        why = "HDFS does not give these bytes: their block is missing, no DataNode that lives has a copy"
        return Reason(why, f"See {fsck}. A DataNode that comes back may have one", lost=True)
    return Reason(f"HDFS does not give these bytes: {one_line(text, _MAX_TEXT_CHARS)}", f"Look at its DataNodes: {fsck}")


def readable_bytes(read: Read, offset: int, length: int) -> int:
    """Return how many of `length` bytes from `offset` on are readable, if one read of all of them fails. Reads about 25 times.

    Returns `length` if it finds no unreadable byte: then the file system's failure was temporary.
    """
    readable, not_all = 0, length
    if not _can_be_read(read, offset, 1):
        return 0
    while not_all - readable > 1:
        middle = (readable + not_all) // 2
        if _can_be_read(read, offset + readable, middle - readable):
            readable = middle
        else:
            not_all = middle
    return length if _can_be_read(read, offset + readable, 1) else readable


def _can_be_read(read: Read, offset: int, length: int) -> bool:
    try:
        read(offset, length)
    except Exception:  # any error: the caller reports the error of the whole read
        return False
    return True


def readable_pieces(read: Read, size: int, piece: int, holes: list[tuple[int, int]]) -> Iterator[bytes]:
    """Yield a file of `size` bytes in pieces, with zeros for lost bytes, and note their places in `holes`. Raises StoreError."""
    offset = 0
    while offset < size:
        try:
            data = read(offset, piece)
        except UnreadableBytes as error:
            if not error.lost:
                raise
            if error.offset > offset:
                yield read(offset, error.offset - offset)
            offset = min(size, (error.offset // SKIPPED_BYTES + 1) * SKIPPED_BYTES)
            yield bytes(offset - error.offset)
            first = holes.pop()[0] if holes and holes[-1][1] == error.offset else error.offset
            holes.append((first, offset))
        else:
            yield data
            offset += len(data)
            if not data:  # the file became shorter
                return
