"""Defines the rows of Spark's shuffle: sorted runs, and notes.

    row     partition, region, family, wal, number, size, crc, data
    data    the row's bytes, or fewer than `size`: then they are compressed (an LZ4 block)
    crc     CRC-32 of the row's numbers up to `size`, and of its bytes: a row must not come out as a row of another region, either
    run     the numbers of the store's region and family, and of the run's WAL; the run's number within the WAL; the run's bytes
    note    region −1: facts that the tasks of all partitions need before any of them loads       family, number 0; a Note as JSON
            region −2: the report on a WAL, for the driver                                       a WalReport as JSON

Spark's own compression and checks of shuffled data cost more than these, and would see the bytes only after Spark's JVM has
copied them several times. With spark.shuffle.compress=false Spark leaves them out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa
from zlib_ng import zlib_ng

from walferry.base.records import Record, text_of
from walferry.base.texts import one_line
from walferry.load.errors import BrokenRow

NOTE = -1
REPORT = -2
BATCH_BYTES = 4 << 20
MAX_ERROR_CHARS = 2000
NUMBERS = ("partition", "region", "family", "wal", "number")
COLUMNS = (*NUMBERS, "size", "crc", "data")
SCHEMA = pa.schema([*((name, pa.int32()) for name in COLUMNS[:-1]), ("data", pa.binary())])
LEAST_COMPRESSED_BYTES, TRIED_BYTES = 4 << 10, 64 << 10
WORTH_IT = 0.7  # compressed bytes per byte; above that, compression costs more than it saves
_MOST_TIMES = 255  # the most times that an LZ4 block grows when it is unpacked
_NUMBERS = struct.Struct("<6i")  # the numbers up to the size, in the form that the CRC covers
_LZ4 = pa.Codec("lz4_raw")

T = TypeVar("T")


@dataclass(frozen=True)
class ShuffleRow:
    """One row."""

    partition: int
    region: int
    family: int
    wal: int
    number: int
    data: memoryview


@dataclass(frozen=True)
class Note(Record):
    """The edits that are not loaded, and why: WALs from `first` to before `end`, of which `first` failed; and whole tables."""

    first: int = 0
    end: int = 0
    error: str = ""
    unfit: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return this note for `from_json`, with an error of bounded length."""
        return text_of(asdict(self) | {"error": one_line(self.error, MAX_ERROR_CHARS)})


@dataclass
class WalReport(Record):
    """What the peer gets from a WAL. `tables` contains [edits, cells, bytes, operations] of each table that goes into files."""

    wal: int
    end: int = 0  # the offset after the last entry; 0: no entry behind the position
    clean: bool = True
    read_edits: int = 0
    read_bytes: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    last_written: int = 0  # ms since the epoch
    tables: dict[str, list[int]] = field(default_factory=dict)
    others: bool = False  # whether some edits do not go into files
    runs: int = 0
    ignored: int = 0  # bytes behind the last whole entry
    let_go: list[str] = field(default_factory=list)  # files of bulk loads that the peer does not get


def batches(rows: Iterable[ShuffleRow]) -> Iterator[pa.RecordBatch]:
    """Yield the rows as batches of about BATCH_BYTES."""
    yield from map(_batch, in_parts(map(_packed, rows), lambda packed: len(packed.data), BATCH_BYTES))


def in_parts(things: Iterable[T], size_of: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield the things in parts of at most this size, or of one thing."""
    held: list[T] = []
    size = 0
    for thing in things:
        if held and size + size_of(thing) > most:
            yield held
            held, size = [], 0
        held.append(thing)
        size += size_of(thing)
    if held:
        yield held


@dataclass(frozen=True)
class _Packed:
    """A row in the form for the shuffle: the numbers of all columns but the last, and the row's data."""

    numbers: tuple[int, ...]
    data: memoryview


def _packed(row: ShuffleRow) -> _Packed:
    numbers = (row.partition, row.region, row.family, row.wal, row.number, len(row.data))
    return _Packed((*numbers, _crc(numbers, row.data)), _compressed(row.data))


def _compressed(data: memoryview) -> memoryview:
    """Return the data as an LZ4 block if that saves enough, judging by its beginning; otherwise the data itself."""
    if len(data) < LEAST_COMPRESSED_BYTES:
        return data
    tried = data[:TRIED_BYTES]
    if len(_LZ4.compress(tried)) > WORTH_IT * len(tried):
        return data
    compressed = memoryview(_LZ4.compress(data, asbytes=True))
    return compressed if len(compressed) < len(data) else data


def _crc(numbers: tuple[int, ...], data: memoryview) -> int:
    """Return the CRC-32 of both as a signed number, because Spark has no unsigned ones."""
    crc = zlib_ng.crc32(data, zlib_ng.crc32(_NUMBERS.pack(*numbers)))
    return crc - (1 << 32) if crc >> 31 else crc


def _batch(rows: list[_Packed]) -> pa.RecordBatch:
    numbers = [pa.array(column, pa.int32()) for column in zip(*(row.numbers for row in rows), strict=True)]
    ends = np.cumsum([0, *(len(row.data) for row in rows)], dtype=np.int32)
    data = rows[0].data if len(rows) == 1 else b"".join(row.data for row in rows)
    binary = pa.BinaryArray.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(data)])
    return pa.RecordBatch.from_arrays([*numbers, binary], schema=SCHEMA)


def rows_in(some: Iterable[pa.RecordBatch]) -> Iterator[ShuffleRow]:
    """Yield the rows of batches. A row's data may be a view of the batch's memory. Raises BrokenRow."""
    for batch in some:
        *numbers, data = (batch.column(name) for name in COLUMNS)
        places = zip(*(column.to_pylist() for column in numbers), strict=True)
        for i, (partition, region, family, wal, number, size, crc) in enumerate(places):
            found = _whole(memoryview(data[i].as_buffer()), size)
            if found is None or _crc((partition, region, family, wal, number, size), found) != crc:
                raise BrokenRow(f"row {number} of the load's WAL {wal} came out of Spark's shuffle with other bytes than went in")
            yield ShuffleRow(partition, region, family, wal, number, found)


def _whole(data: memoryview, size: int) -> memoryview | None:
    """Return the row's bytes, unpacked if need be; None if they cannot have this size."""
    if len(data) != size:
        if not len(data) < size <= _MOST_TIMES * len(data):
            return None
        try:
            return memoryview(_LZ4.decompress(data, size))
        except (OSError, pa.ArrowInvalid):
            return None
    return data
