"""Opens an HFile: reads its trailer, its file information, and its other blocks.

    HFile    = blocks, trailer of 4096 bytes
    trailer  = "TRABLK\\"$" delimited FileTrailerProto, zeros, int32 version               the version's low 24 bits are 2 or 3
    block    = magic[8] int32 onDisk int32 raw int64 previous uint8 checksumType int32 bytesPerChecksum int32 dataWithHeader
               data, checksums                                       the data is compressed with the file's codec, and may be
                                                                     encrypted
    info     = "PBUF" delimited FileInfoProto: a map              in the block at file_info_offset, with the magic "FILEINF2"
    index    = root block at load_on_open_data_offset, see index.py; of one level, its entries are of data blocks

A codec other than GZ and NONE frames its data as Hadoop does: { int32 rawLen, { int32 length, block }* }*. ZSTD of Hadoop's own
library writes one plain frame. Checksums are not checked.

Source: HBase's FixedFileTrailer, HFileBlock, HFileInfo, HFileBlockIndex, HStoreFile (branch-2.6).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import length_at, parse_message
from walferry.base.texts import one_line
from walferry.hbase.hfiles.blocks import HEADER, HEADER_BYTES, BlockKind
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.errors import UnreadableHFile
from walferry.hbase.hfiles.index import MAX_LEVELS, PLACE
from walferry.hbase.values import PBUF
from walferry.hbase.wal.header import ValueCodec
from walferry.hbase.wal.wal_batches import RandomAccess

TRAILER_BYTES: Final = 4096
TRAILER_MAGIC: Final = b'TRABLK"$'
INFO_MAGIC: Final = BlockKind.FILE_INFO.value
DATA_MAGICS: Final = (BlockKind.DATA.value, BlockKind.ENCODED_DATA.value)
MAX_INFO_BYTES: Final = 64 << 20  # it may contain keys of rows, and names of compacted files
MAX_INFO_ENTRIES: Final = 10_000  # HBase writes some 30; a parsed entry takes some hundred bytes, however short
MAX_BLOCK_BYTES: Final = 256 << 20  # a block has 64 kB, or one cell that is larger
MAX_INDEX_BYTES: Final = 16 << 20  # of a block of an index; HBase writes 128 kB, and a larger root if keys are long
READ_BYTES: Final = 2 << 20  # at a time
MAX_NAME_CHARS: Final = 100
UNKNOWN_SEQUENCE_ID: Final = -1  # also in HBase, for a file without one
ZSTD_FRAME: Final = b"\x28\xb5\x2f\xfd"
ARROW_NAMES: Final = {ValueCodec.SNAPPY: "snappy", ValueCodec.LZ4: "lz4_raw", ValueCodec.ZSTD: "zstd"}
UNREADABLE: Final = (ValueError, KeyError, struct.error, zlib.error, DecodeError, OSError, pa.ArrowException)
_BETWEEN_DATA: Final = frozenset({*DATA_MAGICS, BlockKind.LEAF_INDEX.value, BlockKind.BLOOM_CHUNK.value})
_WITH_SEQUENCE_IDS: Final = (1).to_bytes(4)  # HFileWriterImpl.KEY_VALUE_VER_WITH_MEMSTORE
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_ENTRY = b"\x0a"  # the tag of FileInfoProto.map_entry, its only field
_BULK_LOADED = re.compile(r"_SeqId_(\d{1,18})_")

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class HFileInfo:
    """The metadata of a file. `sequence_id` grows with the time of writing: of equal keys, the cell of the largest id counts."""

    sequence_id: int
    has_tags: bool
    cells: int


def read_info(file: RandomAccess, url: str, name: str) -> HFileInfo:
    """Read the metadata of an open HFile; `name` is the file's name in its region. Raises UnreadableHFile, StoreError."""
    opened = open_hfile(file, url)
    encoding = opened.information.get(b"DATA_BLOCK_ENCODING", b"NONE").decode(errors="replace")
    if encoding not in Encoding.__members__:  # such as HBase 1's PREFIX_TREE, which HBase 2 does not know
        raise UnreadableHFile(f"{url} cannot be used: its blocks are in the encoding {one_line(encoding, MAX_NAME_CHARS)}")
    return HFileInfo(opened.sequence_id(name), opened.some_tags, opened.cells)


@dataclass(frozen=True)
class Block:
    """A block of data: its encoding and its cells, or an index, as they are before compression."""

    magic: bytes
    data: bytes


class _Entry(NamedTuple):
    """A block in an index."""

    row: bytes
    offset: int
    size: int


@dataclass(frozen=True)
class HFile:
    """An open HFile, whose data blocks can be read."""

    file: RandomAccess
    url: str
    trailer: pb.FileTrailerProto
    information: dict[bytes, bytes]

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.trailer.entry_count

    @property
    def has_tags(self) -> bool:
        """Whether each cell is followed by its tags, of which there may be none."""
        return b"hfile.MAX_TAGS_LEN" in self.information

    @property
    def some_tags(self) -> bool:
        """Whether any cell has a tag."""
        return int.from_bytes(self.information.get(b"hfile.MAX_TAGS_LEN", b"")) > 0

    @property
    def tags_compressed(self) -> bool:
        """Whether the tags in encoded blocks are compressed with a dictionary."""
        return self.information.get(b"hfile.TAGS_COMPRESSED") not in (None, b"\0")

    @property
    def has_sequence_ids(self) -> bool:
        """Whether each cell is followed by its sequence id, of which nothing may be left but a zero."""
        return self.information.get(b"KEY_VALUE_VERSION") == _WITH_SEQUENCE_IDS

    def sequence_id(self, name: str) -> int:
        """Return the largest sequence id of the file's edits, or UNKNOWN_SEQUENCE_ID; `name` is its name in its region.

        Raises UnreadableHFile.
        """
        if loaded := _BULK_LOADED.search(name):  # a bulk load's own number counts, whatever cluster wrote the file
            return int(loaded[1])
        number = self.information.get(b"MAX_SEQ_ID_KEY")
        if number is not None and len(number) != _INT64.size:
            raise UnreadableHFile(f"{self.url} cannot be read: its sequence id has {len(number)} bytes")
        return UNKNOWN_SEQUENCE_ID if number is None else int(_INT64.unpack(number)[0])

    @property
    def was_loaded(self) -> bool:
        """Whether the file was made for a bulk load: then only the number in its name (`is_numbered`) is one of the region."""
        return b"BULKLOAD_TIMESTAMP" in self.information

    @staticmethod
    def is_numbered(name: str) -> bool:
        """Return whether a file's name has the number of the bulk load that has brought it."""
        return _BULK_LOADED.search(name) is not None

    @property
    def has_mob_values(self) -> bool:
        """Whether values of the file lie in other files (MOB)."""
        return int.from_bytes(self.information.get(b"MOB_CELLS_COUNT", b"")) > 0

    @cached_property
    def codec(self) -> ValueCodec:
        """The compression. Raises ValueError."""
        return ValueCodec(self.trailer.compression_codec)

    def data_blocks(self, start: bytes = b"", at_once: int = READ_BYTES) -> Iterator[Block]:
        """Yield the data blocks, from the one on that may contain the row `start`. Raises UnreadableHFile, StoreError."""
        if not self.trailer.data_index_count:
            return
        try:
            reading = _Reading(self.file, self.trailer.load_on_open_data_offset, at_once)
            at = self._first(start) if start else self.trailer.first_data_block_offset
            while at <= self.trailer.last_data_block_offset:
                block, after = self._block(reading, at)
                if block.magic in DATA_MAGICS and block.data:
                    yield block
                elif block.magic not in _BETWEEN_DATA:
                    raise ValueError(f"there is no block of data at byte {at:,}")
                at = after
        except UNREADABLE as error:
            raise UnreadableHFile(f"{self.url} cannot be read: {error}") from error

    def _first(self, row: bytes) -> int:
        """Return the offset of the first data block that may contain a row. Raises one of UNREADABLE."""
        levels = self.trailer.num_data_index_levels
        if not 1 <= levels <= MAX_LEVELS:
            raise ValueError(f"its index has {levels} levels")
        root, _ = self._block(_Reading(self.file, self.file.size), self.trailer.load_on_open_data_offset, MAX_INDEX_BYTES)
        entry = _before(_root_entries(root.data, self.trailer.data_index_count), row)
        for _ in range(levels - 1):
            block, _ = self._block(_Reading(self.file, self.file.size, entry.size), entry.offset, MAX_INDEX_BYTES)
            entry = _before(_entries(block.data), row)
        return entry.offset

    def _block(self, reading: _Reading, at: int, most: int = MAX_BLOCK_BYTES) -> tuple[Block, int]:
        """Read the block at an offset. Returns it, and the offset after it. Raises one of UNREADABLE."""
        magic, on_disk, raw_bytes, _, _, _, with_header = HEADER.unpack(reading.take(at, HEADER_BYTES))
        if not (0 <= raw_bytes <= most and HEADER_BYTES <= with_header <= HEADER_BYTES + on_disk <= most + HEADER_BYTES):
            raise ValueError(f"there is no block at byte {at:,}")
        data = reading.take(at, HEADER_BYTES + on_disk)[HEADER_BYTES:with_header]
        raw = decompressed(data, raw_bytes, self.codec)
        if len(raw) != raw_bytes:
            raise ValueError(f"the block at byte {at:,} has {len(raw):,} bytes, and not {raw_bytes:,}")
        return Block(magic, raw), at + HEADER_BYTES + on_disk


def open_hfile(file: RandomAccess, url: str) -> HFile:
    """Read what is needed to read an HFile's blocks. Raises UnreadableHFile, StoreError."""
    try:
        trailer = read_trailer(file)
        entries = read_information(file, trailer).message.map_entry
        return HFile(file, url, trailer, {entry.first: entry.second for entry in entries})
    except UNREADABLE as error:
        raise UnreadableHFile(f"the metadata of {url} cannot be read: {error}") from error


class _Reading:
    """Reads a file from front to back, many bytes at a time, up to `end`."""

    def __init__(self, file: RandomAccess, end: int, at_once: int = READ_BYTES) -> None:
        self._file, self._end, self._at_once = file, min(end, file.size), at_once
        self._begin, self._data = 0, b""

    def take(self, at: int, length: int) -> bytes:
        """Return bytes of the file. Raises ValueError if they are not all there."""
        if at < self._begin or at + length > self._begin + len(self._data):
            wanted = min(max(length, self._at_once), self._end - at)
            self._begin, self._data = at, bytes(self._file.read_at(at, wanted)) if wanted > 0 else b""
        start = at - self._begin
        if start + length > len(self._data):
            raise ValueError(f"it ends before byte {at + length:,}")
        return self._data[start : start + length]


def _before(entries: Iterator[_Entry], row: bytes) -> _Entry:
    """Return the last entry that lies before a row: blocks after it have only cells from the row on. Raises ValueError."""
    found = next(entries, None)
    if found is None:
        raise ValueError("a block of its index is empty")
    for entry in entries:
        if entry.row >= row:
            break
        found = entry
    return found


def _root_entries(data: bytes, count: int) -> Iterator[_Entry]:
    """Read the entries of a root block. Raises ValueError, struct.error."""
    at = 0
    for _ in range(count):
        offset, size = PLACE.unpack_from(data, at)
        length, at = _vint(data, at + PLACE.size)
        yield _Entry(_row_of(data, at, at + length), offset, size)
        at += length


def _entries(data: bytes) -> Iterator[_Entry]:
    """Read the entries of another block of an index. Raises ValueError, struct.error."""
    (count,) = _INT32.unpack_from(data)
    if not 0 < count <= len(data) // PLACE.size:
        raise ValueError(f"a block of its index has {count} entries")
    starts = struct.unpack_from(f">{count + 1}i", data, _INT32.size)
    first = _INT32.size * (count + 2)
    for start, end in pairwise(starts):
        offset, size = PLACE.unpack_from(data, first + start)
        yield _Entry(_row_of(data, first + start + PLACE.size, first + end), offset, size)


def _row_of(data: bytes, key: int, end: int) -> bytes:
    """Return the row of the key at `key`, which ends at `end`. Raises ValueError."""
    length = int.from_bytes(data[key : key + 2])
    if not 0 <= key <= key + 2 + length <= min(end, len(data)):
        raise ValueError("a key of its index cannot be read")
    return data[key + 2 : key + 2 + length]


def _vint(data: bytes, at: int) -> tuple[int, int]:
    """Return Hadoop's VInt of a length, and the offset after it. Raises ValueError."""
    first = data[at] if at < len(data) else 0xFF
    if first <= 127:
        return first, at + 1
    width = 0x90 - first
    if not 1 <= width <= _INT32.size:
        raise ValueError("a length of its index cannot be read")
    return int.from_bytes(data[at + 1 : at + 1 + width]), at + 1 + width


@dataclass(frozen=True)
class Information:
    """A file's information, the data of its block as stored, and where the block ends."""

    message: pb.FileInfoProto
    data: bytes
    end: int


def read_trailer(file: RandomAccess) -> pb.FileTrailerProto:
    """Read the trailer. Raises one of UNREADABLE."""
    trailer = bytes(file.read_at(max(0, file.size - TRAILER_BYTES), TRAILER_BYTES))
    if not trailer.startswith(TRAILER_MAGIC):
        raise ValueError("there is no trailer of an HFile of version 2 or 3")
    if (trailer[-4], trailer[-1]) == (0, 2):  # minor and major version; HBase 1 writes version 3.0, with checksums
        raise ValueError("its blocks have no checksums")
    found = _delimited(pb.FileTrailerProto, trailer[len(TRAILER_MAGIC) :])
    if found.encryption_key:
        raise ValueError("it is encrypted")
    return found


def read_information(file: RandomAccess, trailer: pb.FileTrailerProto) -> Information:
    """Read the file information. Raises one of UNREADABLE."""
    at = trailer.file_info_offset
    head = bytes(file.read_at(at, HEADER_BYTES))
    magic, on_disk, raw_bytes, _, _, _, with_header = HEADER.unpack(head)
    sound = 0 <= raw_bytes <= MAX_INFO_BYTES and HEADER_BYTES <= with_header <= HEADER_BYTES + on_disk <= MAX_INFO_BYTES
    if magic != INFO_MAGIC or not sound:
        raise ValueError(f"there is no file info at byte {at}")
    data = bytes(file.read_at(at + HEADER_BYTES, with_header - HEADER_BYTES))
    raw = decompressed(data, raw_bytes, ValueCodec(trailer.compression_codec))
    if not raw.startswith(PBUF):
        raise ValueError("its file info is not in protobuf")
    _check_entries(raw)
    return Information(_delimited(pb.FileInfoProto, raw[len(PBUF) :]), data, at + HEADER_BYTES + on_disk)


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


def decompressed(data: bytes, raw_bytes: int, codec: ValueCodec) -> bytes:
    """Decompress a block's data, at most `raw_bytes`. Raises one of UNREADABLE."""
    if codec is ValueCodec.NONE:
        return data
    if codec is ValueCodec.GZ:
        unpacking = zlib.decompressobj(wbits=47)  # with a header of gzip or of zlib
        out = unpacking.decompress(data, raw_bytes + 1)
        if len(out) > raw_bytes:
            raise ValueError(f"a block has more than the {raw_bytes} bytes that it tells of")
        return out
    if codec is ValueCodec.ZSTD and data.startswith(ZSTD_FRAME):
        return bytes(pa.decompress(data, raw_bytes, "zstd", asbytes=True))
    name = ARROW_NAMES[codec]
    return _unframed(data, raw_bytes, lambda block, size: bytes(pa.decompress(block, size, name, asbytes=True)))


def _unframed(data: bytes, raw_bytes: int, decompress: Callable[[bytes, int], bytes]) -> bytes:
    """Decompress Hadoop's blocks. A unit of several blocks is refused, because only the whole unit's size is known.

    Arrow itself would decompress its first block, and leave the rest of the memory as it is.
    """
    out, at = bytearray(), 0
    while at < len(data) and len(out) < raw_bytes:
        (size,), (length,) = _INT32.unpack_from(data, at), _INT32.unpack_from(data, at + _INT32.size)
        at += 2 * _INT32.size
        if not (0 < size <= raw_bytes - len(out) and 0 < length <= len(data) - at):
            raise ValueError("a block is broken")
        out += decompress(data[at : at + length], size)
        at += length
    if at != len(data):
        raise ValueError("a block is compressed in several parts, whose sizes are not known")
    return bytes(out)
