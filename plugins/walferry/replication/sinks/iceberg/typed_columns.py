"""The typed columns of a table of a lake: parts of the row key, and values, as the peer's mapping says.

    one column for each part of the row key     filled in each row
    one column for each mapped column of HBase  filled where the row's cell is one of that column
    unread  string                              the typed columns that this row should have filled, and could not be read

The bytes stay in `row` and `value`, so what cannot be read is not lost. Columns are added to a table that lacks them. Rows that
were written before that have null in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from walferry.base.kernels.types import Ints
from walferry.replication.peers.column_mappings import ROW_KEY, UNREAD, Coder, ColumnMapping, KeyPart, MappedColumn
from walferry.replication.sinks.iceberg.kinds import type_within
from walferry.replication.sinks.iceberg.typed_values import Bools, Spans, arrow_type, read_values

PUT = "Put"
BATCH_ROWS, BATCH_BYTES = 65_536, 16 << 20  # that get their typed columns at once


def fields_of(mapping: ColumnMapping | None) -> list[pa.Field]:
    """Return the typed columns, with the one that names what could not be read."""
    if mapping is None:
        return []
    mapped: list[KeyPart | MappedColumn] = [*mapping.key, *mapping.columns]
    return [*(pa.field(each.name, arrow_type(each.type)) for each in mapped), pa.field(UNREAD, pa.string())]


def row_bytes(mapping: ColumnMapping | None) -> int:
    """Return the bytes that typed columns add to each row in memory, also where they are null."""
    return sum(_bytes_of(each.type) for each in fields_of(mapping))


def _bytes_of(type_: pa.DataType) -> int:
    return 5 if pa.types.is_string(type_) or pa.types.is_binary(type_) else type_.bit_width // 8 + 1


@dataclass
class TypedColumns:
    """Adds typed columns to rows of a table of changes, or of a state, which has them with this schema."""

    mapping: ColumnMapping
    schema: Schema
    unread: int = 0  # rows so far of which a typed column could not be read

    def added(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield rows with their typed columns, some at a time."""
        fields = [self._as_there(each) for each in fields_of(self.mapping)]
        size = max(1, min(BATCH_ROWS, rows.num_rows * BATCH_BYTES // max(1, rows.nbytes)))
        for batch in rows.to_batches(size):
            columns, unread = _typed(batch, self.mapping)
            self.unread += unread
            for field, values in zip(fields, columns, strict=True):
                batch = batch.append_column(field, values.cast(field.type))
            yield batch

    def _as_there(self, field: pa.Field) -> pa.Field:
        """Return a typed column with the type that it has in the table, which others may have made wider."""
        there = self.schema.find_field(field.name).field_type
        return field.with_type(type_within(field.type, there) or field.type)


def _typed(rows: pa.RecordBatch, mapping: ColumnMapping) -> tuple[list[pa.Array], int]:
    """Return the typed columns of rows, and in how many rows some could not be read."""
    count, unread = rows.num_rows, dict[str, Bools]()
    found, lost = _key_columns(rows["row"], mapping.key)
    if lost.any():
        unread[ROW_KEY] = lost
    places_of = _places(rows)
    for column in mapping.columns:
        places = places_of(column)
        if not places.size:
            found.append(pa.nulls(count, arrow_type(column.type)))
            continue
        spans = Spans.of(rows["value"].take(pa.array(places)))
        values = read_values(column.type, spans)
        odd = _is_null(values) & (spans.ends > spans.starts)
        if odd.any():
            unread[column.name] = np.zeros(count, np.bool_)
            unread[column.name][places[odd]] = True
        found.append(_spread(values, places, count))
    names = _names(unread, count)
    return [*found, names], count - names.null_count


def _places(rows: pa.RecordBatch) -> Callable[[MappedColumn], Ints]:
    """Return a function that returns the places of the puts of a column of HBase, in their order."""
    families, qualifiers = rows["family"].dictionary_encode(), rows["qualifier"].dictionary_encode()
    family_of = {family: number for number, family in enumerate(families.dictionary.to_pylist())}
    qualifier_of = {qualifier: number for number, qualifier in enumerate(qualifiers.dictionary.to_pylist())}
    numbers = families.indices.to_numpy().astype(np.int64) * len(qualifier_of) + qualifiers.indices.to_numpy()
    if "type" in rows.schema.names:
        numbers[~pc.equal(rows["type"], PUT).to_numpy(zero_copy_only=False)] = -1
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]

    def places(column: MappedColumn) -> Ints:
        family, qualifier = family_of.get(column.family), qualifier_of.get(column.qualifier)
        if family is None or qualifier is None:
            return order[:0]
        number = family * len(qualifier_of) + qualifier
        return order[np.searchsorted(in_order, number) : np.searchsorted(in_order, number, side="right")]

    return places


def _is_null(values: pa.Array) -> Bools:
    found: Bools = values.is_null().to_numpy(zero_copy_only=False)
    return found


def _spread(values: pa.Array, places: Ints, count: int) -> pa.Array:
    """Return an array of `count` with the values at their places, and null elsewhere."""
    return pc.scatter(values, pa.array(places), max_index=count - 1)


def _names(unread: Mapping[str, Bools], count: int) -> pa.Array:
    """Return which columns could not be read, split by commas; null where all were."""
    found = np.full(count, None, object)
    for name, where in unread.items():
        found[where] = [name if before is None else f"{before},{name}" for before in found[where]]
    return pa.array(found, pa.string())


def _key_columns(rows: pa.Array, key: tuple[KeyPart, ...]) -> tuple[list[pa.Array], Bools]:
    """Return the parts of row keys, and which row keys could not be read: all parts of those are null."""
    whole, found = Spans.of(rows), list[pa.Array]()
    at, sound = whole.starts, np.ones(len(rows), np.bool_)
    if not key:
        return [], ~sound
    zeros = whole.zeros() if any(part.type.size is None for part in key[:-1]) else whole.starts[:0]
    for number, part in enumerate(key):
        size = part.type.size
        if size is not None:
            end = np.minimum(at + size, whole.ends)
        else:
            end = whole.ends if number == len(key) - 1 else np.minimum(_next(zeros, at), whole.ends)
        values = read_values(part.type, whole.of_each(at, end))
        may_be_empty = size is None or part.type.coder is Coder.PHOENIX  # which leaves out null at the end of a row key
        sound &= ~_is_null(values) | ((end == at) & may_be_empty)
        found.append(values)
        at = end if size is not None else np.minimum(end + 1, whole.ends)  # behind the byte 0
    sound &= at == whole.ends
    return [pc.if_else(pa.array(sound), values, pa.scalar(None, values.type)) for values in found], ~sound


def _next(zeros: Ints, at: Ints) -> Ints:
    """Return for each place the first of `zeros` from there on; a place behind all others if there is none."""
    places = np.append(zeros, np.iinfo(np.int64).max)
    return places[np.searchsorted(zeros, at)]
