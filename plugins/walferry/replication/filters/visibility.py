"""Ships cells with visibility labels, which only users with certain labels may see.

A cluster with the VisibilityController writes the tags of such a cell like this (VisibilityUtils.createVisibilityExpTags):

    4  the format of the other tags: 1, sorted ordinals
    2  varint ordinals of labels; the user must have all of them, or, for a negative ordinal, must not have the label
    2  … or these

An ordinal refers to the cluster's own table `hbase:labels`. In another cluster it means a different label, or none. HBase ships
these tags as they are, unless the source's RegionServers load the coprocessor VisibilityReplication. This coprocessor replaces
them by one tag of type 7, the expression in words, which the peer cluster's VisibilityController turns into its own ordinals. The
connection decides what Walferry does:

    visibility_labels: refuse     the queue stops at the first such cell (default)
                       strings    the same as VisibilityReplication
                       ship       ship the tags as they are: right only if both clusters have the same `hbase:labels`

If HBase cannot put a cell's labels in words (because the table lacks a label, or the format differs), it ships the cell in a way
that lets other users see it. Walferry stops there.

ReplicationSink makes one mutation of adjacent cells with the same row and type, and the peer cluster applies the mutation's first
expression to all its cells. So an entry in which they differ, as by two puts to one row, is shipped as several entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from walferry.base.kernels.types import Bytes, Ints
from walferry.hbase.cluster import visibility_labels
from walferry.hbase.wal.cells import MAX_TAGS, Cell, TagType, encode_tag, split_cells, split_tags
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits
from walferry.replication.filters.rules import Reason
from walferry.replication.source.cluster import VisibilityLabels
from walferry.replication.source.session import Session

SORTED_ORDINALS = b"\x01"
_TRIMMED = "".join(map(chr, range(0x21)))  # what ExpressionParser strips from the ends of a label (String.trim)
CACHED_BYTES = 8 << 20
CACHED_TAGS = 10_000

ReadLabels = Callable[[], Mapping[int, bytes]]
"""Reads the source's current labels, by their ordinals."""


class LabelsRefused(WalError):
    """A cell has visibility labels and cannot be shipped so that the same users see it."""

    retry_helps = False
    advice = (
        "They are numbers in the source's hbase:labels. Set visibility_labels in the connection's extra to strings, which ships "
        "expressions of labels as HBase's VisibilityReplication does, or to ship, if both clusters have the same hbase:labels; "
        "until then this queue waits"
    )


class LabelsUnknown(LabelsRefused):
    """A cell's labels cannot be put in words."""

    retry_helps = True  # the source may write the label to its znode a moment later
    advice = (
        "The cell is not shipped, because other users would see it. Compare with hbase:labels of the source, and with its znode "
        "visibility/labels, from which the labels are read; the queue waits"
    )


class Untranslatable(ValueError):
    """A cell's tags cannot be put in words; the message says why."""


class LabelFilter:
    """Handles the labelled cells of one source as its connection says."""

    def __init__(self, policy: VisibilityLabels, read_labels: ReadLabels) -> None:
        self._policy = policy
        self._read_labels = read_labels
        self._labels: Mapping[int, bytes] = {}
        self._translated: dict[bytes, _Translated] = {}
        self._cached = 0  # bytes of translated tags in the cache

    @classmethod
    def of(cls, session: Session) -> LabelFilter:
        """Return the filter for a session's source."""
        return cls(VisibilityLabels(session.source.visibility_labels), partial(visibility_labels, session.zk, session.nodes))

    def apply(self, batch: WalBatch, kept: KeptEdits, path: str) -> tuple[WalBatch, KeptEdits]:
        """Return the WAL batch as it is shipped. Raises LabelsRefused, with `path`, at the first entry that must not go."""
        found = np.flatnonzero(kept.labelled)
        if not found.size or self._policy is VisibilityLabels.SHIP:
            return batch, kept
        if self._policy is VisibilityLabels.REFUSE:
            i = int(found[0])
            raise LabelsRefused(path, batch.entry_offset(i), f"{_where(batch, i)} has visibility labels (tags of type 2)")
        parts = {}
        for i in map(int, found):
            try:
                parts[i] = self._parts(batch, kept, i)
            except Untranslatable as error:
                reason = f"{_where(batch, i)} has visibility labels, {error}"
                raise LabelsUnknown(path, batch.entry_offset(i), reason) from error
        return _with_parts(batch, kept, parts)

    def _parts(self, batch: WalBatch, kept: KeptEdits, i: int) -> list[_Part]:
        """Return an entry's cells with their labels in words, split into one part for each new entry."""
        parts = [_Part()]
        row_and_type = expression = None
        for cell in chain.from_iterable(map(split_cells, kept.spans(batch, i))):
            row, tags = cell.row, self._translate(cell.tags)
            if row_and_type == (row, cell.type) and expression != tags.expression:
                parts.append(_Part())
            parts[-1].add(cell.with_tags(tags.tags), row)
            row_and_type, expression = (row, cell.type), tags.expression
        return parts

    def _translate(self, tags: bytes) -> _Translated:
        if (known := self._translated.get(tags)) is None:
            try:
                known = in_words(tags, self._labels)
            except Untranslatable:
                self._labels = self._read_labels()  # labels are only added, never removed
                known = in_words(tags, self._labels)
            size = len(tags) + len(known.tags)
            if len(self._translated) < CACHED_TAGS and self._cached + size <= CACHED_BYTES:
                self._translated[tags] = known
                self._cached += size
        return known


@dataclass(frozen=True)
class _Translated:
    tags: bytes
    expression: bytes | None  # the expression that the peer cluster's VisibilityController will find


class _Part:
    """Cells of an entry that may be shipped in one entry."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.cells = 0
        self.rows = 0
        self._row: bytes | None = None

    def add(self, cell: Cell, row: bytes) -> None:
        self.data += cell.data
        self.cells += 1
        self.rows += row != self._row
        self._row = row


def in_words(tags: bytes, labels: Mapping[int, bytes]) -> _Translated:
    """Replace the ordinals in a cell's tags by an expression, like VisibilityReplicationEndpoint. Raises Untranslatable."""
    ordinals, others, formats, expressions = list[list[int]](), list[bytes](), set[bytes](), list[bytes]()
    for kind, content, whole in split_tags(tags):
        if kind == TagType.VISIBILITY:
            ordinals.append(_ordinals(content))
        elif kind == TagType.VISIBILITY_FORMAT:
            formats.add(content)
        elif kind == TagType.VISIBILITY_EXPRESSION:
            expressions.append(whole)
        else:
            others.append(whole)
    if not ordinals:
        return _Translated(tags, expressions[0][3:] if expressions else None)
    if formats - {SORTED_ORDINALS}:
        raise Untranslatable(f"in a format other than sorted ordinals ({', '.join(f.hex() for f in sorted(formats))})")
    words = {ordinal: _label(ordinal, labels) for each in ordinals for ordinal in each}
    # Checked before the expression is built: a few bytes of ordinals may stand for gigabytes of labels.
    size = sum(len(words[ordinal]) + 1 for each in ordinals for ordinal in each) + 2 * len(ordinals) - 1
    if sum(map(len, others)) + 3 + size > MAX_TAGS:
        raise Untranslatable(f"whose expression has {size} bytes, more than a cell's tags can hold")
    expression = b"|".join(b"(%b)" % b"&".join(words[ordinal] for ordinal in each) for each in ordinals)
    # An expression of another origin next to the ordinals is dropped: it does not count here, but the peer cluster would find it
    # first.
    return _Translated(b"".join(others) + encode_tag(TagType.VISIBILITY_EXPRESSION, expression), expression)


def _label(ordinal: int, labels: Mapping[int, bytes]) -> bytes:
    """Return a label as CellVisibility.quote writes it, with `!` for a negative ordinal."""
    name = labels.get(abs(ordinal))
    if name is None:
        raise Untranslatable(f"and the source's label table has none of ordinal {abs(ordinal)}")
    if name.decode(errors="ignore").strip(_TRIMMED).encode() != name or not name:
        raise Untranslatable(f"and that of ordinal {abs(ordinal)}, {name[:64]!r}, is another one for the peer cluster's parser")
    quoted = name.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return (b'!"%b"' if ordinal < 0 else b'"%b"') % quoted


def _ordinals(content: bytes) -> list[int]:
    """Decode varints until the end, like StreamUtils.readRawVarint32."""
    found, value, shift = list[int](), 0, 0
    for byte in content:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            value &= 0xFFFFFFFF
            found.append(value - (1 << 32) if value >> 31 else value)
            value = shift = 0
        elif shift > 28:
            raise Untranslatable(f"whose ordinals cannot be parsed ({content.hex()})")
    if shift or not found:
        raise Untranslatable(f"whose ordinals cannot be parsed ({content.hex()})")
    return found


def _where(batch: WalBatch, i: int) -> str:
    index = batch.index
    names = ((index.region_start, index.region_len), (index.table_start, index.table_len))
    region, table = (batch.buf[int(s[i]) : int(s[i] + n[i])].tobytes().decode(errors="replace") for s, n in names)
    return f"a cell of table {table}, region {region},"


def _with_parts(batch: WalBatch, kept: KeptEdits, parts: Mapping[int, list[_Part]]) -> tuple[WalBatch, KeptEdits]:
    """Replace the cells of some entries, each by one or more entries. The new cells follow the old ones in the buffer.

    After each of an entry's parts except the last, the position is still the one before the entry.
    """
    counts = np.ones(len(batch.index), np.int64)
    counts[list(parts)] = [len(p) for p in parts.values()]
    taken = np.repeat(np.arange(counts.size), counts)
    last = np.cumsum(counts) - 1
    index = batch.index.chosen(taken)
    file_start, file_end = batch.positions[taken], batch.positions[taken]
    file_end[last] = batch.next_positions
    arrays = {name: getattr(kept, name)[taken] for name in ("reason", "cells", "rows", "size", "marked", "labelled")}
    data: list[Bytes] = [batch.buf]
    spans: dict[int, tuple[int, int]] = {}
    at = int(batch.buf.size)
    for i, pieces in parts.items():
        first = int(last[i]) - len(pieces) + 1
        for k, part in enumerate(pieces, first):
            data.append(np.frombuffer(part.data, np.uint8))
            spans[k] = (at, at + len(part.data))
            at += len(part.data)
            arrays["cells"][k], arrays["rows"][k], arrays["size"][k] = part.cells, part.rows, len(part.data)
            if k < last[i]:  # a bulk load among the cells goes with the last part
                arrays["reason"][k] = Reason.SHIPPED
                index.cell_count[last[i]] -= part.cells
                index.cell_count[k] = part.cells
    first_span, start, end = _spans(kept, taken, spans)
    changed = replace(kept, **arrays, span_first=first_span, span_start=start, span_end=end)
    return WalBatch(np.concatenate(data), batch.base, index, file_start, file_end), changed


def _spans(kept: KeptEdits, taken: Ints, replaced: Mapping[int, tuple[int, int]]) -> tuple[Ints, Ints, Ints]:
    """Return where each entry's spans begin, and the spans: from `kept`, except for the entries in `replaced`."""
    counts = (kept.span_first[1:] - kept.span_first[:-1])[taken]
    counts[list(replaced)] = 1
    first = np.concatenate([[0], np.cumsum(counts)])
    # The j-th span of entry k was the j-th span of entry taken[k].
    source = np.repeat(kept.span_first[:-1][taken] - first[:-1], counts) + np.arange(int(first[-1]))
    at = first[list(replaced)]
    source[at] = 0
    start, end = kept.span_start[source], kept.span_end[source]
    start[at], end[at] = [s for s, _ in replaced.values()], [e for _, e in replaced.values()]
    return first, start, end
