"""Assembles the contents of a ReplicateWALEntry request, by copying bytes of the WAL.

    request parameter   { 0x0A varint len | WALEntry }* | for a bulk load, the fields that say where its files are
    WALEntry            0x0A varint len | WALKey bytes of the file [cluster_ids: the source]  |  0x18 varint cell count
    cell block          the kept cells, as they lie in the file

Appending a field to a protobuf message's bytes adds to it, so a key is marked without being parsed. Uncompressed cells of a WAL
have the form of a KeyValueCodecWithTags cell block. (HBase: ReplicationProtobufUtil, Admin.proto.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.types import Bytes, Flags, Int32s, Ints, OutBytes
from walferry.base.kernels.write import copy_bytes, put_varint, varint_len
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits

SHOWN_FILES = 2  # shown of a bulk load in messages, as family/file
_FRAMING = 32  # maximum bytes around a key: two tags with lengths, the count with its tag


@dataclass(frozen=True)
class BulkLoad:
    """A bulk load of one region. Files are below the namespaces' directory or the archive: namespace/table/region/family/file."""

    table: str
    region: str
    files: tuple[str, ...]  # the files that the sink copies
    released: tuple[str, ...] = ()  # the files that the peer does not need

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which the source refers to all these files."""
        return tuple(file.rpartition("/")[2] for file in (*self.files, *self.released))

    def __str__(self) -> str:
        shown = ", ".join("/".join(file.split("/")[-2:]) for file in self.files[:SHOWN_FILES])
        shown += f" and {len(self.files) - SHOWN_FILES} more" if len(self.files) > SHOWN_FILES else ""
        return f"bulk load of region {self.region} of table {self.table} ({shown})"


@dataclass(frozen=True)
class Shipment:
    """Edits that one sender sends, in the order of the WAL."""

    entries: tuple[Bytes, ...]  # WALEntry messages, tagged as field 1 of the request
    cells: tuple[Bytes, ...]  # together the cell block
    entry_count: int
    cell_count: int
    row_count: int
    cell_bytes: int
    last_write_time: int  # ms since the epoch, of the last entry
    bulk_load: BulkLoad | None = None  # the only entry; without entries, nothing is sent and only the load's files are released

    @property
    def size(self) -> int:
        """The bytes that the shipment takes in memory and over the wire."""
        return self.cell_bytes + sum(entry.size for entry in self.entries)

    @property
    def hfile_count(self) -> int:
        """The number of files that the sink copies."""
        return len(self.bulk_load.files) if self.bulk_load else 0


def assemble(batch: WalBatch, kept: KeptEdits, chosen: Ints, mark: Bytes) -> Shipment:
    """Return the entries `chosen` (indices into the WAL batch, ascending, at least one) as a shipment.

    `mark` is `filters.uuid_field` of the source.
    """
    index = batch.index
    whole = _whole(batch, kept, chosen)
    key_bytes = int((index.key_end[chosen] - index.key_start[chosen]).sum())
    entries = np.empty(key_bytes + chosen.size * (mark.size + _FRAMING), np.uint8)
    copied = np.empty(int(kept.size[chosen].sum()) if whole is None else 0, np.uint8)
    length, cell_bytes = _assemble(
        batch.buf, chosen, index.key_start, index.key_end, kept.cells, kept.marked, mark,
        kept.span_first, kept.span_start, kept.span_end, entries, copied, whole is None,
    )  # fmt: skip
    cells = copied if whole is None else whole
    if cell_bytes != cells.size:  # otherwise the rest would be uninitialized memory
        raise AssertionError(f"{cell_bytes} bytes of cells where {cells.size} were announced")
    return Shipment(
        entries=(entries[:length],),
        cells=(cells,),
        entry_count=int(chosen.size),
        cell_count=int(kept.cells[chosen].sum()),
        row_count=int(kept.rows[chosen].sum()),
        cell_bytes=int(cells.size),
        last_write_time=int(index.write_time[chosen[-1]]),
    )


def _whole(batch: WalBatch, kept: KeptEdits, chosen: Ints) -> Bytes | None:
    """Return the cells of one entry as a view of the batch, not a copy, if the batch contains little else."""
    i = int(chosen[0])
    first = int(kept.span_first[i])
    if chosen.size > 1 or int(kept.span_first[i + 1]) != first + 1 or 2 * int(kept.size[i]) < batch.buf.size:
        return None
    return batch.buf[int(kept.span_start[first]) : int(kept.span_end[first])]


def join(parts: Sequence[Shipment]) -> Shipment:
    """Join shipments for one sender, in order, into one; nothing is copied."""
    return Shipment(
        entries=tuple(entry for part in parts for entry in part.entries),
        cells=tuple(cells for part in parts for cells in part.cells),
        entry_count=sum(part.entry_count for part in parts),
        cell_count=sum(part.cell_count for part in parts),
        row_count=sum(part.row_count for part in parts),
        cell_bytes=sum(part.cell_bytes for part in parts),
        last_write_time=parts[-1].last_write_time,
    )


@unmanaged
def _assemble(
    buf: Bytes, chosen: Ints, key_start: Ints, key_end: Ints, cell_count: Int32s, marked: Flags,
    mark: Bytes, span_first: Ints, span_start: Ints, span_end: Ints, entries: OutBytes, cells: OutBytes,
    fill_cells: bool,
) -> tuple[int, int]:  # fmt: skip
    """Fill `entries`, and with `fill_cells` also `cells`. Returns the bytes used of each."""
    at = 0
    cells_at = 0
    for c in range(chosen.size):
        i = chosen[c]
        key_len = key_end[i] - key_start[i]
        mark_len = 0 if marked[i] else mark.size
        count = cell_count[i]
        body = 1 + varint_len(key_len + mark_len) + key_len + mark_len + 1 + varint_len(count)
        entries[at] = 0x0A
        at = put_varint(entries, at + 1, body)
        entries[at] = 0x0A
        at = put_varint(entries, at + 1, key_len + mark_len)
        at = copy_bytes(entries, at, buf, key_start[i], key_len)
        at = copy_bytes(entries, at, mark, 0, mark_len)
        entries[at] = 0x18
        at = put_varint(entries, at + 1, count)
        for j in range(span_first[i], span_first[i + 1]):
            if fill_cells:
                copy_bytes(cells, cells_at, buf, span_start[j], span_end[j] - span_start[j])
            cells_at += span_end[j] - span_start[j]
    return at, cells_at
