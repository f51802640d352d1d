"""What goes through Spark's shuffle: sorted runs, and notes.

    row     partition, region, family, wal, number, data
    run     the numbers of the store's region and family; of the WAL that it is of; within the WAL, in order; the run's bytes
    note    region −1: what the tasks of all partitions must know, before any of them loads       family, number 0; a Note as JSON
            region −2: what became of a WAL, for the driver                                     a WalReport as JSON
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa

from walferry.texts import one_line

NOTE = -1
REPORT = -2
BATCH_BYTES = 4 << 20
MAX_ERROR_CHARS = 2000
COLUMNS = ("partition", "region", "family", "wal", "number", "data")
SCHEMA = pa.schema([*((name, pa.int32()) for name in COLUMNS[:-1]), ("data", pa.binary())])


@dataclass(frozen=True)
class Row:
    """One row."""

    partition: int
    region: int
    family: int
    wal: int
    number: int
    data: memoryview


@dataclass(frozen=True)
class Note:
    """What is not loaded: WALs from `first` to before `end`, because the first of them cannot be, and tables, with the reason."""

    first: int = 0
    end: int = 0
    error: str = ""
    unfit: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """This note for `from_json`."""
        return json.dumps(asdict(self) | {"error": one_line(self.error, MAX_ERROR_CHARS)}).encode()

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """The note that `to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class WalReport:
    """What a WAL had that the peer gets. `tables` has [edits, cells, bytes, operations] of each table that goes into files."""

    wal: int
    end: int = 0  # the offset after its last entry; 0: it has none behind its position
    clean: bool = True
    read_edits: int = 0
    read_bytes: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    last_written: int = 0  # ms since the epoch
    tables: dict[str, list[int]] = field(default_factory=dict)
    others: bool = False  # whether it has edits that do not go into files
    runs: int = 0
    ignored: int = 0  # bytes behind its last whole entry

    def to_json(self) -> bytes:
        """This report for `from_json`."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """The report that `to_json` wrote."""
        return cls(**json.loads(text))


def batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Yield the rows as batches of about BATCH_BYTES."""
    held: list[Row] = []
    size = 0
    for row in rows:
        if held and size + len(row.data) > BATCH_BYTES:
            yield _batch(held)
            held, size = [], 0
        held.append(row)
        size += len(row.data)
    if held:
        yield _batch(held)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    numbers = [pa.array([getattr(row, name) for row in rows], pa.int32()) for name in COLUMNS[:-1]]
    ends = np.cumsum([0, *(len(row.data) for row in rows)], dtype=np.int32)
    data = rows[0].data if len(rows) == 1 else b"".join(row.data for row in rows)
    binary = pa.BinaryArray.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(data)])
    return pa.RecordBatch.from_arrays([*numbers, binary], schema=SCHEMA)


def rows_in(some: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of batches. The data is a view of the batch's memory."""
    for batch in some:
        *numbers, data = (batch.column(name) for name in COLUMNS)
        places = zip(*(column.to_pylist() for column in numbers), strict=True)
        for i, (partition, region, family, wal, number) in enumerate(places):
            yield Row(partition, region, family, wal, number, memoryview(data[i].as_buffer()))
