"""Writes the metadata of an HFile's copy.

A region that loads a file trusts the file's own metadata about the order of its cells, unless the load gave the file a number.
Then cells with numbers that the region has not reached yet are hidden, and after a crash recovered edits up to the file's number
are skipped. The numbers are the source's, and mean nothing at the peer cluster. A file whose metadata say that it was bulk-loaded
has no such numbers: its cells are visible at once, and count as the oldest ones until a load has given the file a number.

Only blocks with Bloom filters' indexes follow the information (see walferry.hbase.hfiles.opened). Readers find them one after the
other, so no offset points to them.

Source: HBase's HFileInfo, HStoreFile, StoreFileComparators (branch-2.6).
"""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from dataclasses import dataclass

import pyarrow as pa

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import delimited
from walferry.hbase.files.systems import OpenWal
from walferry.hbase.hfiles.blocks import UNIT_BLOCK_BYTES, BlockKind, BlockWriter, Checksum
from walferry.hbase.hfiles.errors import UnreadableHFile
from walferry.hbase.hfiles.opened import ARROW_NAMES, UNREADABLE, ZSTD_FRAME, read_information, read_trailer
from walferry.hbase.values import PBUF
from walferry.hbase.wal.header import ValueCodec

_NUMBERS = frozenset({b"MAX_SEQ_ID_KEY", b"SKIP_RESET_SEQ_ID"})  # these make a region trust the numbers of a file's cells
_INT32 = struct.Struct(">i")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class OtherInfo:
    """The block that a copy of an HFile contains instead of the original's bytes from `start` to before `end`."""

    start: int
    end: int
    block: bytes


def info_without_numbers(file: OpenWal, url: str, task: str) -> OtherInfo:
    """Return the info for an HFile's copy, which says that `task` made it for a bulk load. Raises UnreadableHFile, StoreError."""
    try:
        trailer = read_trailer(file)
        info = read_information(file, trailer)
        block = _block(_without_numbers(info.message, task), info.data, ValueCodec(trailer.compression_codec))
        return OtherInfo(trailer.file_info_offset, info.end, block)
    except UNREADABLE as error:
        raise UnreadableHFile(f"the metadata of {url} cannot be read: {error}") from error


def _without_numbers(info: pb.FileInfoProto, task: str) -> pb.FileInfoProto:
    entries = {entry.first: entry.second for entry in info.map_entry if entry.first not in _NUMBERS}
    entries |= {b"BULKLOAD_TIMESTAMP": struct.pack(">q", int(time.time() * 1000)), b"BULKLOAD_SOURCE_TASK": task.encode()}
    return pb.FileInfoProto(map_entry=[pb.BytesBytesPair(first=name, second=entries[name]) for name in sorted(entries)])


def _block(info: pb.FileInfoProto, like: bytes, codec: ValueCodec) -> bytes:
    """Return the block of a file's info, compressed like the data `like`."""
    out = bytearray()
    blocks = BlockWriter(out.extend, lambda raw: _compressed(bytes(raw), like, codec), Checksum.CRC32)
    blocks.put(BlockKind.FILE_INFO, PBUF + delimited(info.SerializeToString()))
    return bytes(out)


def _compressed(raw: bytes, like: bytes, codec: ValueCodec) -> bytes:
    """Compress `raw` in the way of the file's other data: there are two ways to frame ZSTD."""
    if codec is ValueCodec.NONE:
        return raw
    if codec is ValueCodec.GZ:
        return gzip.compress(raw) if like.startswith(_GZIP) else zlib.compress(raw)
    data = bytes(pa.compress(raw, ARROW_NAMES[codec], asbytes=True))
    if codec is ValueCodec.ZSTD and like.startswith(ZSTD_FRAME):
        return data
    if len(raw) > UNIT_BLOCK_BYTES:
        raise ValueError(f"its file info has {len(raw)} bytes, too many for one block of its codec")
    return _INT32.pack(len(raw)) + _INT32.pack(len(data)) + data
