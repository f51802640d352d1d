"""Reads the two ends of a WAL file.

    file    = "PWAL" varint(len) WALHeader entry* trailer
    trailer = WALTrailer int32(size of WALTrailer) "LAWP"      absent after an unclean close; WALTrailer has no fields yet

A client's value may end in the same bytes as a trailer, so the file's last bytes alone prove nothing. A trailer begins where the
last entry ends, and only the reader, which walks the entries, knows that place. All releases of HBase write an empty trailer.

Source: HBase's AbstractProtobufWALReader and AbstractProtobufLogWriter (branch-2.6), ProtobufLogReader and -Writer (branch-1.4).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError

from walferry.base.protos.hbase_pb2 import WALHeader
from walferry.base.protos.parsing import length_at, parse_message
from walferry.hbase.wal.errors import WalCorruptError, WalTruncatedError, WalUnsupportedError

MAGIC = b"PWAL"
TRAILER_MAGIC = b"LAWP"
EMPTY_TRAILER = struct.pack(">i", 0) + TRAILER_MAGIC
MAX_HEADER_BYTES = 64 << 10  # HBase writes about 80 bytes; a wrapped encryption key adds a few hundred
MAX_TRAILER_BYTES = 1 << 10
TAIL_BYTES = MAX_TRAILER_BYTES + len(EMPTY_TRAILER)


class ValueCodec(enum.IntEnum):
    """The readable codecs of values, by their ordinals in HBase's Compression.Algorithm."""

    GZ = 1
    NONE = 2
    SNAPPY = 3
    LZ4 = 4
    ZSTD = 6


_PACKAGE = "org.apache.hadoop.hbase.regionserver.wal."
_SECURE_CODEC = _PACKAGE + "SecureWALCellCodec"  # this codec writes plain cells if the WAL has no key
_PHOENIX_CODEC = _PACKAGE + "IndexedWALEditCodec"  # Phoenix's class is in HBase's package
_CODECS = ("", _PACKAGE + "WALCellCodec", _SECURE_CODEC, _PHOENIX_CODEC)
_WRITERS = ("", "ProtobufLogWriter", "AsyncProtobufLogWriter", "SecureProtobufLogWriter", "SecureAsyncProtobufLogWriter")


@dataclass(frozen=True)
class Compression:
    """The parts of a compressed WAL's cells that are compressed in addition to rows, families and qualifiers."""

    tags: bool
    values: ValueCodec | None
    phoenix: bool = False  # a marker precedes each cell, which may be one of Phoenix's indexes (codecs/phoenix.py)


@dataclass(frozen=True)
class Header:
    """A WAL's header. `first_entry` is the file offset of the first entry, or of an empty WAL's trailer."""

    first_entry: int
    writer: str
    cell_codec: str
    compression: Compression | None
    wrapped_key: bytes | None = None  # the WAL's key, encrypted with the cluster's key; None if the cells are plain

    @property
    def phoenix(self) -> bool:
        """Whether the cells are in Phoenix's codec."""
        return self.cell_codec == _PHOENIX_CODEC


def parse_header(head: bytes, path: str) -> Header:
    """Parse the header in a file's first bytes. `MAX_HEADER_BYTES` of them always suffice.

    Raises WalCorruptError (not a WAL), WalTruncatedError (`head` ends inside the header), WalUnsupportedError.
    """
    if head[: len(MAGIC)] != MAGIC[: len(head)]:
        raise WalCorruptError(path, 0, f"the file is not a WAL: it begins with {head[: len(MAGIC)]!r} and not with {MAGIC!r}")
    length, start = _header_length(head, path)
    if start + length > len(head):
        raise WalTruncatedError(path, 0, start + length, len(head))
    try:
        header = parse_message(WALHeader, head[start : start + length])
    except DecodeError as error:
        raise WalCorruptError(path, start, f"the header of {length} bytes is not a WALHeader ({error})") from error
    compression = _compression(header, path)
    _require_readable(header, compression, path)
    key = header.encryption_key if _is_encrypted(header) else None
    return Header(start + length, header.writer_cls_name, header.cell_codec_cls_name, compression, key)


def trailer_start(tail: bytes, file_length: int) -> int | None:
    """Return where the trailer would begin, given the file's last bytes (`TAIL_BYTES` suffice), or None if it has none.

    Like HBase, this accepts bytes as a trailer only if the message parses. The bytes may still be the end of a value; they are
    the trailer only if the last entry ends where they begin.
    """
    if len(tail) < len(EMPTY_TRAILER) or not tail.endswith(TRAILER_MAGIC):
        return None
    size_at = len(tail) - len(EMPTY_TRAILER)
    size = int(struct.unpack_from(">i", tail, size_at)[0])
    start = file_length - len(EMPTY_TRAILER) - size
    if not 0 <= size <= min(MAX_TRAILER_BYTES, size_at) or start <= len(MAGIC):
        return None
    try:
        parse_message(Empty, tail[size_at - size : size_at])  # WALTrailer has no fields either, so every field is unknown
    except DecodeError:
        return None
    return start


def ends_like_closed(tail: bytes, file_length: int) -> bool:
    """Return whether the file's last bytes are the trailer that HBase writes, or a value that ends like it.

    Bytes that would be a trailer with fields do not count: an entry may begin with them, but not with an empty trailer.
    """
    return tail.endswith(EMPTY_TRAILER) and file_length > len(MAGIC) + len(EMPTY_TRAILER)


def is_partial_trailer(rest: bytes) -> bool:
    """Return whether `rest`, all that follows a file's last entry, is a trailer whose last bytes were never written."""
    return len(rest) < len(EMPTY_TRAILER) and EMPTY_TRAILER.startswith(rest)


def _header_length(head: bytes, path: str) -> tuple[int, int]:
    """Return the length of the WALHeader message and the offset at which it begins."""
    found = length_at(head, len(MAGIC))
    if found is None:
        if len(head) >= len(MAGIC) + 5:
            raise WalCorruptError(path, len(MAGIC), "the header's length is not a varint")
        raise WalTruncatedError(path, 0, len(head) + 1, len(head))
    if found[0] > MAX_HEADER_BYTES - len(MAGIC) - 5:
        raise WalCorruptError(path, len(MAGIC), f"the header claims {found[0]} bytes, but at most {MAX_HEADER_BYTES} fit")
    return found


def _is_encrypted(header: WALHeader) -> bool:
    return header.HasField("encryption_key") and header.cell_codec_cls_name == _SECURE_CODEC


def _compression(header: WALHeader, path: str) -> Compression | None:
    if not header.has_compression or _is_encrypted(header):  # an encrypted WAL is not compressed, even if its header says so
        return None
    phoenix = header.cell_codec_cls_name == _PHOENIX_CODEC
    if not header.has_value_compression:
        return Compression(header.has_tag_compression, None, phoenix)
    try:
        return Compression(header.has_tag_compression, ValueCodec(header.value_compression_algorithm), phoenix)
    except ValueError:
        raise WalUnsupportedError(
            path, 0, f"the WAL's values are compressed by number {header.value_compression_algorithm} of HBase's algorithms, "
            f"which cannot be read; these can: {', '.join(codec.name for codec in ValueCodec)}"
        ) from None  # fmt: skip


def _require_readable(header: WALHeader, compression: Compression | None, path: str) -> None:
    """Refuse a file that this reader would misread."""
    if compression is not None and header.cell_codec_cls_name == _SECURE_CODEC:
        raise WalUnsupportedError(path, 0, "the WAL is compressed and has a codec with which HBase cannot read it either")
    if header.cell_codec_cls_name not in _CODECS:
        raise WalUnsupportedError(path, 0, f"the WAL's cells are in a codec that cannot be read, {header.cell_codec_cls_name}")
    if header.writer_cls_name not in _WRITERS:
        raise WalUnsupportedError(path, 0, f"the WAL comes from a writer that HBase does not know, {header.writer_cls_name}")
