"""Reads an HFile's metadata (number of cells, age, whether cells have tags), and writes the metadata of its copy.

A region that loads a file trusts the file's own metadata about the order of its cells, unless the load gave the file a number.
Then cells with numbers that the region has not reached yet are hidden, and after a crash recovered edits up to the file's number
are skipped. The numbers are the source's, and mean nothing at the peer cluster. A file whose metadata say that it was bulk-loaded
has no such numbers: its cells are visible at once, and count as the oldest ones until a load has given the file a number.

    HFile    = blocks, trailer of 4096 bytes
    trailer  = "TRABLK\\"$" delimited FileTrailerProto, zeros, int32 version               the version's low 24 bits are 2 or 3
    block    = magic[8] int32 onDisk int32 raw int64 previous uint8 checksumType int32 bytesPerChecksum int32 dataWithHeader
               data, checksums                                       the data is compressed with the file's codec, and may be
                                                                     encrypted
    info     = "PBUF" delimited FileInfoProto: a map              in the block at file_info_offset, with the magic "FILEINF2"

Only blocks with Bloom filters' indexes follow the info. Readers find them one after the other, so no offset points to them.

A codec other than GZ and NONE frames its data as Hadoop does: { int32 rawLen, { int32 length, block }* }*. ZSTD of Hadoop's own
library writes one plain frame.

Source: HBase's FixedFileTrailer, HFileBlock, HFileInfo, HStoreFile, StoreFileComparators (branch-2.6).
"""

from __future__ import annotations

import gzip
import re
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import delimited, length_at, parse_message
from walferry.hbase.files.systems import OpenWal
from walferry.hbase.hfiles.blocks import UNIT_BLOCK_BYTES, BlockKind, BlockWriter, Checksum
from walferry.hbase.values import PBUF
from walferry.hbase.wal.header import ValueCodec
from walferry.load.errors import UnreadableHFile

TRAILER_BYTES = 4096
TRAILER_MAGIC = b'TRABLK"$'
INFO_MAGIC = b"FILEINF2"
MAX_INFO_BYTES = 64 << 20  # it may contain keys of rows, and names of compacted files
MAX_INFO_ENTRIES = 10_000  # HBase writes some 30; a parsed entry takes some hundred bytes, however short
UNKNOWN_SEQUENCE_ID = -1  # also in HBase, for a file without one
_NUMBERS = frozenset({b"MAX_SEQ_ID_KEY", b"SKIP_RESET_SEQ_ID"})  # these make a region trust the numbers of a file's cells
_BLOCK = struct.Struct(">8siiqBii")
_INT32 = struct.Struct(">i")
_ENTRY = b"\x0a"  # the tag of FileInfoProto.map_entry, its only field
_GZIP = b"\x1f\x8b"
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
_ARROW_NAMES = {ValueCodec.SNAPPY: "snappy", ValueCodec.LZ4: "lz4_raw", ValueCodec.ZSTD: "zstd"}
_BULK_LOADED = re.compile(r"_SeqId_(\d+)_")
_UNREADABLE = (ValueError, KeyError, struct.error, zlib.error, DecodeError, OSError, pa.ArrowException)

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class HFileInfo:
    """The metadata of a file. `sequence_id` grows with the time of writing: of equal keys, the cell of the largest id counts."""

    sequence_id: int
    has_tags: bool
    cells: int


def read_info(file: OpenWal, url: str, name: str) -> HFileInfo:
    """Read the metadata of an open HFile; `name` is the file's name in its region. Raises UnreadableHFile, StoreError."""
    try:
        trailer = _trailer(file)
        entries = {entry.first: entry.second for entry in _info(file, trailer).message.map_entry}
        sequence_id = int.from_bytes(entries.get(b"MAX_SEQ_ID_KEY", b""), signed=True) if b"MAX_SEQ_ID_KEY" in entries else None
        has_tags = int.from_bytes(entries.get(b"hfile.MAX_TAGS_LEN", b"")) > 0
    except _UNREADABLE as error:
        raise UnreadableHFile(f"the metadata of {url} cannot be read: {error}") from error
    if loaded := _BULK_LOADED.search(name):  # a bulk load's own number counts, whatever cluster wrote the file
        sequence_id = int(loaded[1])
    return HFileInfo(UNKNOWN_SEQUENCE_ID if sequence_id is None else sequence_id, has_tags, trailer.entry_count)


@dataclass(frozen=True)
class OtherInfo:
    """The block that a copy of an HFile contains instead of the original's bytes from `start` to before `end`."""

    start: int
    end: int
    block: bytes


def info_without_numbers(file: OpenWal, url: str, task: str) -> OtherInfo:
    """Return the info for an HFile's copy, which says that `task` made it for a bulk load. Raises UnreadableHFile, StoreError."""
    try:
        trailer = _trailer(file)
        info = _info(file, trailer)
        block = _block(_without_numbers(info.message, task), info.data, ValueCodec(trailer.compression_codec))
        return OtherInfo(trailer.file_info_offset, info.end, block)
    except _UNREADABLE as error:
        raise UnreadableHFile(f"the metadata of {url} cannot be read: {error}") from error


@dataclass(frozen=True)
class _Info:
    """A file's info, the data of its block as stored, and where the block ends."""

    message: pb.FileInfoProto
    data: bytes
    end: int


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


def _trailer(file: OpenWal) -> pb.FileTrailerProto:
    trailer = file.read_at(max(0, file.size - TRAILER_BYTES), TRAILER_BYTES)
    if not trailer.startswith(TRAILER_MAGIC):
        raise ValueError("there is no trailer of an HFile of version 2 or 3")
    if trailer[-4:-3] == b"\0":
        raise ValueError("its blocks have no checksums")
    found = _delimited(pb.FileTrailerProto, trailer[len(TRAILER_MAGIC) :])
    if found.encryption_key:
        raise ValueError("it is encrypted")
    return found


def _info(file: OpenWal, trailer: pb.FileTrailerProto) -> _Info:
    at = trailer.file_info_offset
    head = file.read_at(at, _BLOCK.size)
    magic, on_disk, raw_bytes, _, _, _, with_header = _BLOCK.unpack(head)
    sound = 0 <= raw_bytes <= MAX_INFO_BYTES and _BLOCK.size <= with_header <= _BLOCK.size + on_disk <= MAX_INFO_BYTES
    if magic != INFO_MAGIC or not sound:
        raise ValueError(f"there is no file info at byte {at}")
    data = file.read_at(at + _BLOCK.size, with_header - _BLOCK.size)
    raw = _decompressed(data, raw_bytes, ValueCodec(trailer.compression_codec))
    if not raw.startswith(PBUF):
        raise ValueError("its file info is not in protobuf")
    _check_entries(raw)
    return _Info(_delimited(pb.FileInfoProto, raw[len(PBUF) :]), data, at + _BLOCK.size + on_disk)


def _check_entries(raw: bytes) -> None:
    """Raise ValueError if a file info has very many entries, or anything else in front of further entries."""
    length, at = _varint(raw, len(PBUF))
    end = min(len(raw), at + length)
    for _ in range(MAX_INFO_ENTRIES):
        if at >= end:
            return
        if not raw.startswith(_ENTRY, at):
            raise ValueError("its file info has something else than entries")
        length, at = _varint(raw, at + len(_ENTRY))
        at += length
    raise ValueError(f"its file info has more than {MAX_INFO_ENTRIES:,} entries")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and the offset of its end. Raises ValueError."""
    if (found := length_at(data, at)) is None:
        raise ValueError("a length cannot be read")
    return found


def _delimited(kind: type[M], data: bytes) -> M:
    length, start = _varint(data, 0)
    return parse_message(kind, data[start : start + length])


def _compressed(raw: bytes, like: bytes, codec: ValueCodec) -> bytes:
    """Compress `raw` in the way of the file's other data: there are two ways to frame ZSTD."""
    if codec is ValueCodec.NONE:
        return raw
    if codec is ValueCodec.GZ:
        return gzip.compress(raw) if like.startswith(_GZIP) else zlib.compress(raw)
    data = bytes(pa.compress(raw, _ARROW_NAMES[codec], asbytes=True))
    if codec is ValueCodec.ZSTD and like.startswith(_ZSTD_FRAME):
        return data
    if len(raw) > UNIT_BLOCK_BYTES:
        raise ValueError(f"its file info has {len(raw)} bytes, too many for one block of its codec")
    return _INT32.pack(len(raw)) + _INT32.pack(len(data)) + data


def _decompressed(data: bytes, raw_bytes: int, codec: ValueCodec) -> bytes:
    if codec is ValueCodec.NONE:
        return data
    if codec is ValueCodec.GZ:
        unpacking = zlib.decompressobj(wbits=47)  # with a header of gzip or of zlib
        out = unpacking.decompress(data, raw_bytes + 1)
        if len(out) > raw_bytes:
            raise ValueError(f"its file info has more than the {raw_bytes} bytes that it tells of")
        return out
    if codec is ValueCodec.ZSTD and data.startswith(_ZSTD_FRAME):
        return bytes(pa.decompress(data, raw_bytes, "zstd", asbytes=True))
    name = _ARROW_NAMES[codec]
    return _unframed(data, raw_bytes, lambda block, size: bytes(pa.decompress(block, size, name, asbytes=True)))


def _unframed(data: bytes, raw_bytes: int, decompress: Callable[[bytes, int], bytes]) -> bytes:
    """Decompress Hadoop's blocks. A unit of several blocks is refused, because only the whole unit's size is known."""
    out, at = bytearray(), 0
    while at < len(data) and len(out) < raw_bytes:
        (size,), (length,) = _INT32.unpack_from(data, at), _INT32.unpack_from(data, at + _INT32.size)
        at += 2 * _INT32.size
        if not (0 < size <= raw_bytes - len(out) and 0 < length <= len(data) - at):
            raise ValueError("its file info has a broken block")
        out += decompress(data[at : at + length], size)
        at += length
    return bytes(out)
