"""What an HFile says about itself: how many cells it has, how late they were written, and whether they have tags.

    HFile    = blocks, trailer of 4096 bytes
    trailer  = "TRABLK\\"$" delimited FileTrailerProto, zeros, int32 version               the version's low 24 bits are 2 or 3
    block    = magic[8] int32 onDisk int32 raw int64 previous uint8 checksumType int32 bytesPerChecksum int32 dataWithHeader
               data, checksums                                       the data is compressed with the file's codec, and may be
                                                                     encrypted
    info     = "PBUF" delimited FileInfoProto: a map              in the block at file_info_offset, with the magic "FILEINF2"

A codec other than GZ and NONE frames its data as Hadoop does: { int32 rawLen, { int32 length, block }* }*. ZSTD of Hadoop's own
library writes one plain frame.

Source: HBase's FixedFileTrailer, HFileBlock, HFileInfo, HStoreFile, StoreFileComparators (branch-2.6).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from walferry.bootstrap.errors import UnreadableHFile
from walferry.files.systems import OpenWal
from walferry.hbase.values import PBUF
from walferry.protos import hbase_pb2 as pb
from walferry.protos.parsing import parse_message
from walferry.wal.header import ValueCodec

TRAILER_BYTES = 4096
TRAILER_MAGIC = b'TRABLK"$'
INFO_MAGIC = b"FILEINF2"
MAX_INFO_BYTES = 64 << 20  # keys of rows may be in it, and names of compacted files
UNKNOWN_SEQUENCE_ID = -1  # also in HBase, for a file without one
_BLOCK = struct.Struct(">8siiqBii")
_INT32 = struct.Struct(">i")
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
_BULK_LOADED = re.compile(r"_SeqId_(\d+)_")

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class HFileInfo:
    """`sequence_id` grows with the time of writing: of two cells with equal keys, that of the file with the larger one counts."""

    sequence_id: int
    has_tags: bool
    cells: int


def read_info(file: OpenWal, url: str, name: str) -> HFileInfo:
    """Read the metadata of an open HFile; `name` is its name in its region. Raises UnreadableHFile, StoreError."""
    try:
        trailer = _trailer(file)
        entries = {entry.first: entry.second for entry in _info(file, trailer).map_entry}
        sequence_id = int.from_bytes(entries.get(b"MAX_SEQ_ID_KEY", b""), signed=True) if b"MAX_SEQ_ID_KEY" in entries else None
        has_tags = int.from_bytes(entries.get(b"hfile.MAX_TAGS_LEN", b"")) > 0
    except (ValueError, KeyError, struct.error, zlib.error, DecodeError, OSError, pa.ArrowException) as error:
        raise UnreadableHFile(f"the metadata of {url} cannot be read: {error}") from error
    if loaded := _BULK_LOADED.search(name):  # a bulk load's own number counts, whatever cluster wrote the file
        sequence_id = int(loaded[1])
    return HFileInfo(UNKNOWN_SEQUENCE_ID if sequence_id is None else sequence_id, has_tags, trailer.entry_count)


def _trailer(file: OpenWal) -> pb.FileTrailerProto:
    trailer = file.read_at(max(0, file.size - TRAILER_BYTES), TRAILER_BYTES)
    if not trailer.startswith(TRAILER_MAGIC):
        raise ValueError("there is no trailer of an HFile of version 2 or 3")
    found = _delimited(pb.FileTrailerProto, trailer[len(TRAILER_MAGIC) :])
    if found.encryption_key:
        raise ValueError("it is encrypted")
    return found


def _info(file: OpenWal, trailer: pb.FileTrailerProto) -> pb.FileInfoProto:
    head = file.read_at(trailer.file_info_offset, _BLOCK.size)
    magic, _, raw, _, _, _, with_header = _BLOCK.unpack(head)
    if magic != INFO_MAGIC or not (0 <= raw <= MAX_INFO_BYTES and _BLOCK.size <= with_header <= MAX_INFO_BYTES):
        raise ValueError(f"there is no file info at byte {trailer.file_info_offset}")
    data = file.read_at(trailer.file_info_offset + _BLOCK.size, with_header - _BLOCK.size)
    data = _decompressed(data, raw, ValueCodec(trailer.compression_codec))
    if not data.startswith(PBUF):
        raise ValueError("its file info is not in protobuf")
    return _delimited(pb.FileInfoProto, data[len(PBUF) :])


def _delimited(kind: type[M], data: bytes) -> M:
    length, shift = 0, 0
    for i, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return parse_message(kind, data[i + 1 : i + 1 + length])
        shift += 7
    raise ValueError(f"no {kind.DESCRIPTOR.name}")


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
    name = {ValueCodec.SNAPPY: "snappy", ValueCodec.LZ4: "lz4_raw", ValueCodec.ZSTD: "zstd"}[codec]
    return _unframed(data, raw_bytes, lambda block, size: bytes(pa.decompress(block, size, name, asbytes=True)))


def _unframed(data: bytes, raw_bytes: int, decompress: Callable[[bytes, int], bytes]) -> bytes:
    """Decompress Hadoop's blocks; of those that make up one unit, only the whole size is known, so it must be one block."""
    out, at = b"", 0
    while at < len(data) and len(out) < raw_bytes:
        (size,), (length,) = _INT32.unpack_from(data, at), _INT32.unpack_from(data, at + _INT32.size)
        at += 2 * _INT32.size
        if not (0 < size <= raw_bytes - len(out) and 0 < length <= len(data) - at):
            raise ValueError("its file info has a broken block")
        out += decompress(data[at : at + length], size)
        at += length
    return out
