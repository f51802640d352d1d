"""The typed columns of a table of a lake: parts of the row key, and values, as the peer's mapping says.

    one column for each part of the row key     filled in each row
    one column for each mapped column of HBase  filled where the row's cell is one of that column
    unread  string                              the typed columns that this row should have filled, and could not be read

The bytes stay in `row` and `value`, so what cannot be read is not lost. Columns are added to a table that lacks them. Rows that
were written before that have null in them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from walferry.base.kernels.types import Ints
from walferry.replication.peers.column_mappings import ROW_KEY, UNREAD, Coder, ColumnMapping, KeyPart, MappedColumn
from walferry.replication.sinks.iceberg.typed_values import Bools, Spans, arrow_type, read_values

PUT = "Put"
BATCH_ROWS = 65_536


def fields_of(mapping: ColumnMapping | None) -> list[pa.Field]:
    """Return the typed columns, with the one that names what could not be read."""
    if mapping is None:
        return []
    mapped: list[KeyPart | MappedColumn] = [*mapping.key, *mapping.columns]
    return [*(pa.field(each.name, arrow_type(each.type)) for each in mapped), pa.field(UNREAD, pa.string())]


def with_typed(rows: pa.Table, mapping: ColumnMapping) -> tuple[pa.Table, int]:
    """Return rows of a table of changes, or of a state, with the typed columns, and how many have one that could not be read."""
    done = [_typed(batch, mapping) for batch in rows.to_batches(BATCH_ROWS)]
    return pa.Table.from_batches([batch for batch, _ in done]), sum(unread for _, unread in done)


def _typed(rows: pa.RecordBatch, mapping: ColumnMapping) -> tuple[pa.RecordBatch, int]:
    count, unread = rows.num_rows, dict[str, Bools]()
    found, lost = _key_columns(rows["row"], mapping.key)
    if lost.any():
        unread[ROW_KEY] = lost
    is_put = pc.equal(rows["type"], PUT) if "type" in rows.schema.names else pa.repeat(True, count)
    of_family = {family: pc.equal(rows["family"], pa.scalar(family)) for family in {each.family for each in mapping.columns}}
    for column in mapping.columns:
        of_column = pc.and_(of_family[column.family], pc.equal(rows["qualifier"], pa.scalar(column.qualifier)))
        places = np.flatnonzero(pc.and_(of_column, is_put).to_numpy(zero_copy_only=False))
        spans = Spans.of(rows["value"].take(pa.array(places)))
        values = read_values(column.type, spans)
        odd = _is_null(values) & (spans.ends > spans.starts)
        if odd.any():
            unread[column.name] = np.zeros(count, np.bool_)
            unread[column.name][places[odd]] = True
        found.append(_spread(values, places, count))
    names = _names(unread, count)
    for field, values in zip(fields_of(mapping), [*found, names], strict=True):
        rows = rows.append_column(field, values)
    return rows, count - names.null_count


def _is_null(values: pa.Array) -> Bools:
    found: Bools = values.is_null().to_numpy(zero_copy_only=False)
    return found


def _spread(values: pa.Array, places: Ints, count: int) -> pa.Array:
    """Return an array of `count` with the values at their places, and null elsewhere."""
    of = np.full(count, -1, np.int64)
    of[places] = np.arange(len(places))
    return values.take(pa.array(of, mask=of < 0))


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
    zeros = np.flatnonzero(whole.data == 0)
    for number, part in enumerate(key):
        size = part.type.size
        if size is not None:
            end = np.minimum(at + size, whole.ends)
        else:
            end = whole.ends if number == len(key) - 1 else np.minimum(_next(zeros, at), whole.ends)
        values = read_values(part.type, Spans(whole.data, at, end))
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
