"""Writes an HFile's metadata: the file information, and the trailer at its end.

    information = "PBUF", delimited FileInfoProto: names and values, sorted by name
    trailer     = "TRABLK\\"$", delimited FileTrailerProto, zeros, int32 minor version << 24 | major version        4096 bytes

The file is marked as made for a bulk load (BULKLOAD_TIMESTAMP) and not by a major compaction: it may contain delete markers and
the cells that they delete. It contains all tags, but no edit's number (mvcc), which a load would replace by its own.

Source: HBase's HFileInfo, HFileWriterImpl, StoreFileWriter, HFileOutputFormat2, FixedFileTrailer (branch-2.6).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from walferry.base.kernels.types import Ints
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import delimited
from walferry.hbase.hfiles.bloom import Bloom
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.filling import Fill
from walferry.hbase.hfiles.index import RootIndex
from walferry.hbase.hfiles.keys import Key, first_key
from walferry.hbase.hfiles.settings import FileSettings

PBUF: Final[bytes] = b"PBUF"
TRAILER_BYTES: Final = 4096
_TRAILER_MAGIC: Final[bytes] = b'TRABLK"$'
_VERSION: Final = 3 << 24 | 3
_COMPARATOR: Final = "org.apache.hadoop.hbase.KeyValue$KVComparator"
_FALSE: Final[bytes] = b"\0"
_int32, _int64 = struct.Struct(">i").pack, struct.Struct(">q").pack


@dataclass(frozen=True)
class Origin:
    """A file's origin: the time when it is made, in ms since the epoch, and the task that makes it."""

    created_ms: int
    task: str


@dataclass(frozen=True)
class Contents:
    """A file's contents: its first and last key, the key of its largest cell, and the kernel's counts."""

    first: Key
    last: Key
    largest: Key
    counted: Ints

    def number(self, what: Fill) -> int:
        """Return one of the kernel's counts."""
        return int(self.counted[what])

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.number(Fill.CELLS)


def file_information(settings: FileSettings, origin: Origin, contents: Contents) -> bytes:
    """Return the data of the file information block."""
    entries = {
        b"BULKLOAD_TIMESTAMP": _int64(origin.created_ms),
        b"BULKLOAD_SOURCE_TASK": origin.task.encode(),
        b"MAJOR_COMPACTION_KEY": _FALSE,
        b"EXCLUDE_FROM_MINOR_COMPACTION": _FALSE,
        b"HISTORICAL": _FALSE,
        b"TIMERANGE": _int64(contents.number(Fill.MIN_TIME)) + _int64(contents.number(Fill.MAX_TIME)),
        b"EARLIEST_PUT_TS": _int64(contents.number(Fill.FIRST_PUT)),
        b"DELETE_FAMILY_COUNT": _int64(contents.number(Fill.FAMILIES_DELETED)),
        b"hfile.AVG_KEY_LEN": _int32(contents.number(Fill.KEY_BYTES) // contents.cells),
        b"hfile.AVG_VALUE_LEN": _int32(contents.number(Fill.VALUE_BYTES) // contents.cells),
        b"hfile.CREATE_TIME_TS": _int64(origin.created_ms),
        b"hfile.KEY_OF_BIGGEST_CELL": contents.largest.data,
        b"hfile.LASTKEY": contents.last.data,
        b"hfile.LEN_OF_BIGGEST_CELL": _int64(contents.number(Fill.LARGEST)),
        b"hfile.MAX_TAGS_LEN": _int32(contents.number(Fill.MAX_TAGS)),
        b"hfile.TAGS_COMPRESSED": _FALSE,
    }
    if settings.encoding is not Encoding.NONE:
        entries[b"DATA_BLOCK_ENCODING"] = settings.encoding.name.encode()
    if settings.bloom is not Bloom.NONE:
        entries[b"BLOOM_FILTER_TYPE"] = settings.bloom.name.encode()
        entries[b"LAST_BLOOM_KEY"] = filter_key(settings, contents.last)
    if settings.bloom is Bloom.ROWPREFIX_FIXED_LENGTH:
        entries[b"BLOOM_FILTER_PARAM"] = _int32(settings.prefix_len)
    message = pb.FileInfoProto(map_entry=[pb.BytesBytesPair(first=name, second=entries[name]) for name in sorted(entries)])
    return PBUF + delimited(message.SerializeToString())


def filter_key(settings: FileSettings, key: Key) -> bytes:
    """Return the key of the bloom filter's index for a cell."""
    if settings.bloom is Bloom.ROWCOL:
        return first_key(key.row, b"", key.qualifier)
    return key.row[: settings.prefix_len] if settings.bloom is Bloom.ROWPREFIX_FIXED_LENGTH else key.row


def trailer(settings: FileSettings, cells: int, index: RootIndex, information: int, data: Sequence[int], raw_bytes: int) -> bytes:
    """Return the file's last bytes.

    `information` and `data` are offsets: of the file information, and of the first and the last data block. `raw_bytes` is the
    uncompressed size of all blocks but the index blocks.
    """
    message = pb.FileTrailerProto(
        file_info_offset=information,
        load_on_open_data_offset=index.offset,
        uncompressed_data_index_size=index.raw_bytes,
        total_uncompressed_bytes=raw_bytes + TRAILER_BYTES,
        data_index_count=index.entries,
        meta_index_count=0,
        entry_count=cells,
        num_data_index_levels=index.levels,
        first_data_block_offset=data[0],
        last_data_block_offset=data[-1],
        comparator_class_name=_COMPARATOR,
        compression_codec=settings.compression,
    )
    return (_TRAILER_MAGIC + delimited(message.SerializeToString())).ljust(TRAILER_BYTES - 4, b"\0") + _VERSION.to_bytes(4)
