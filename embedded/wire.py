"""Encodes mutations and decodes cells for the Java client. java/CellFormat.java, the other end, describes the layout."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

Column = str | bytes  # "family:qualifier"
Tag = tuple[int, bytes]  # type, content


class CellType(IntEnum):
    """HBase's key types (org.apache.hadoop.hbase.KeyValue.Type)."""

    MINIMUM = 0  # HBase itself only searches with MINIMUM and MAXIMUM, but accepts them in a put
    MAXIMUM = 255
    PUT = 4
    DELETE = 8
    DELETE_FAMILY_VERSION = 10
    DELETE_COLUMN = 12
    DELETE_FAMILY = 14


@dataclass(frozen=True)
class Cell:
    """One cell as HBase's client or WAL reader sees it, with `timestamp` in ms and `tags` as stored in the cell."""

    row: bytes
    family: bytes
    qualifier: bytes
    timestamp: int
    type: CellType
    value: bytes
    tags: bytes


@dataclass(frozen=True)
class WalEntry:
    """One WAL entry as HBase's own reader sees it; `end` is the file offset just after it."""

    end: int
    region: bytes
    table: str
    sequence_id: int
    write_time: int
    cluster_ids: tuple[uuid.UUID, ...]
    scopes: Mapping[bytes, int]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Edit:
    kind: str  # the kind of a put's cell or of a delete: see java/CellFormat.java
    family: bytes
    qualifier: bytes
    value: bytes
    timestamp: int | None
    tags: tuple[Tag, ...] = ()


@dataclass(frozen=True)
class Mutation:
    """The change of one row. The functions below make it."""

    kind: str
    row: bytes
    edits: tuple[Edit, ...]
    ttl_ms: int | None = None
    visibility: str = ""  # an expression of labels for all of its cells


def put(
    row: Column,
    values: Mapping[Column, bytes],
    *,
    timestamp: int | None = None,
    ttl_ms: int | None = None,
    tags: Iterable[Tag] = (),
    cell_type: CellType = CellType.PUT,
) -> Mutation:
    """Put `values` ({"family:qualifier": value}). Each cell gets `tags` and `cell_type` (PUT, MINIMUM or MAXIMUM)."""
    tags = tuple(tags)
    kind = {CellType.PUT: "p", CellType.MINIMUM: "m", CellType.MAXIMUM: "M"}[cell_type]
    edits = tuple(Edit(kind, *_split(column), value, timestamp, tags) for column, value in values.items())
    return Mutation("P", _bytes(row), edits, ttl_ms)


def delete_row(row: Column, *, timestamp: int | None = None) -> Mutation:
    return Mutation("D", _bytes(row), (Edit("r", b"", b"", b"", timestamp),))


def delete_family(row: Column, family: Column, *, timestamp: int | None = None) -> Mutation:
    return Mutation("D", _bytes(row), (Edit("f", _bytes(family), b"", b"", timestamp),))


def delete_family_version(row: Column, family: Column, timestamp: int) -> Mutation:
    return Mutation("D", _bytes(row), (Edit("F", _bytes(family), b"", b"", timestamp),))


def delete_column(row: Column, column: Column, *, timestamp: int | None = None) -> Mutation:
    """Delete all versions of a column, or the versions up to `timestamp`."""
    return Mutation("D", _bytes(row), (Edit("c", *_split(column), b"", timestamp),))


def delete_version(row: Column, column: Column, *, timestamp: int | None = None) -> Mutation:
    """Delete one version of a column, by default the newest."""
    return Mutation("D", _bytes(row), (Edit("C", *_split(column), b"", timestamp),))


def increment(row: Column, amounts: Mapping[Column, int]) -> Mutation:
    edits = tuple(Edit("i", *_split(column), struct.pack(">q", amount), None) for column, amount in amounts.items())
    return Mutation("I", _bytes(row), edits)


def append(row: Column, values: Mapping[Column, bytes]) -> Mutation:
    return Mutation("A", _bytes(row), tuple(Edit("a", *_split(column), value, None) for column, value in values.items()))


def encode_mutations(mutations: Iterable[Mutation]) -> bytes:
    parts: list[bytes] = []
    for mutation in mutations:
        parts += [
            mutation.kind.encode(),
            _framed(mutation.row),
            struct.pack(">q", _or_minus_one(mutation.ttl_ms)),
            _framed(mutation.visibility.encode()),
            struct.pack(">i", len(mutation.edits)),
        ]
        for edit in mutation.edits:
            parts += [
                edit.kind.encode(),
                _framed(edit.family),
                _framed(edit.qualifier),
                struct.pack(">q", _or_minus_one(edit.timestamp)),
            ]
            parts += [_framed(edit.value), struct.pack(">i", len(edit.tags))]
            parts += [struct.pack(">b", kind) + _framed(content) for kind, content in edit.tags]
    return b"".join(parts)


def decode_cells(data: bytes) -> list[Cell]:
    return list(_Reader(data).cells())


def decode_wal_entries(data: bytes) -> list[WalEntry]:
    return list(_Reader(data).wal_entries())


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def cells(self) -> Iterator[Cell]:
        while self._at < len(self._data):
            yield self._cell()

    def wal_entries(self) -> Iterator[WalEntry]:
        while self._at < len(self._data):
            (end,) = self._numbers(">q")
            region, table = self._bytes(), self._bytes().decode()
            sequence_id, write_time = self._numbers(">qq")
            cluster_ids = tuple(uuid.UUID(bytes=self._take(16)) for _ in range(self._count()))
            scopes = {self._bytes(): self._count() for _ in range(self._count())}
            cells = tuple(self._cell() for _ in range(self._count()))
            yield WalEntry(end, region, table, sequence_id, write_time, cluster_ids, scopes, cells)

    def _cell(self) -> Cell:
        row, family, qualifier = self._bytes(), self._bytes(), self._bytes()
        timestamp, kind = self._numbers(">qB")
        return Cell(row, family, qualifier, timestamp, CellType(kind), self._bytes(), self._bytes())

    def _count(self) -> int:
        return int(self._numbers(">i")[0])

    def _bytes(self) -> bytes:
        return self._take(self._count())

    def _numbers(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        self._at += length
        return taken


def _framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def _or_minus_one(number: int | None) -> int:
    return -1 if number is None else number


def _bytes(text: Column) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _split(column: Column) -> tuple[bytes, bytes]:
    family, colon, qualifier = _bytes(column).partition(b":")
    if not colon:
        raise ValueError(f"column {column!r} has no colon: write it as family:qualifier")
    return family, qualifier
