"""Visibility labels: cells that only users with certain labels may see.

The tags of such a cell, as a cluster with the VisibilityController writes them (VisibilityUtils.createVisibilityExpTags):

    4  the format of what follows: 1, sorted ordinals
    2  varint ordinals of labels, all of which the user must have; of a negative one the user must not have the label
    2  … or these

An ordinal counts in the cluster's own table `hbase:labels`; elsewhere it means another label, or none. HBase ships these tags as
they are, unless the source's RegionServers load the coprocessor VisibilityReplication. That one puts one tag of type 7 in their
place, the expression in words, of which the slave's VisibilityController makes its own ordinals. The connection says what we do:

    visibility_labels: refuse     the queue stops at the first such cell (default)
                       strings    as VisibilityReplication does
                       ship       the tags as they are: right only if both clusters have the same `hbase:labels`

Where HBase cannot put a cell's labels in words (the table lacks one, another format) it ships the cell so that others see it. We
stop there.

ReplicationSink makes one mutation of neighbouring cells of one row and type, and the slave gives all of it the first expression
found in it. So an entry in which these differ, as of a batch with two puts to one row, is shipped as several.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from walferry.filters.rules import Reason
from walferry.filters.window import Bytes, Ints, Kept
from walferry.source.cluster import VisibilityLabels
from walferry.wal.errors import WalError
from walferry.wal.reader import Window
from walferry.wal.scan import MAX_TAGS, EntryIndex

VISIBILITY, FORMAT, EXPRESSION = 2, 4, 7  # TagType.java
SORTED_ORDINALS = b"\x01"
_TRIMMED = "".join(map(chr, range(0x21)))  # what ExpressionParser takes off the ends of a label (String.trim)
CACHED_BYTES = 8 << 20
_LENGTHS = struct.Struct(">iii")  # of a cell, its key, its value

ReadLabels = Callable[[], Mapping[int, bytes]]
"""The source's labels by their ordinals, as they are now."""


class LabelsRefused(WalError):
    """A cell with visibility labels that cannot be shipped so that the same users see it."""

    advice = (
        "They are numbers in the source's hbase:labels. Set visibility_labels in the connection's extra to strings, which ships "
        "expressions of labels as HBase's VisibilityReplication does, or to ship, if both clusters have the same hbase:labels; "
        "until then this queue waits"
    )


class LabelsUnknown(LabelsRefused):
    """Labels that cannot be put in words."""

    advice = (
        "Nothing of it is shipped, since other users would see it. Compare with hbase:labels of the source, and with its znode "
        "visibility/labels, from which the labels are read; the queue waits"
    )


class Untranslatable(ValueError):
    """Why a cell's tags cannot be put in words."""


class LabelFilter:
    """Deals with the cells with labels of one source as its connection says."""

    def __init__(self, policy: VisibilityLabels, read_labels: ReadLabels) -> None:
        self._policy = policy
        self._read_labels = read_labels
        self._labels: Mapping[int, bytes] = {}
        self._translated: dict[bytes, _Translated] = {}
        self._cached = 0  # bytes of these

    def apply(self, window: Window, kept: Kept, path: str) -> tuple[Window, Kept]:
        """The window as it is to be shipped. Raises LabelsRefused at the first entry that is not to be, naming `path`."""
        found = np.flatnonzero(kept.labelled)
        if not found.size or self._policy is VisibilityLabels.SHIP:
            return window, kept
        if self._policy is VisibilityLabels.REFUSE:
            i = int(found[0])
            raise LabelsRefused(path, window.entry_offset(i), f"{_where(window, i)} has visibility labels (tags of type 2)")
        parts = {}
        for i in map(int, found):
            try:
                parts[i] = self._parts(window, kept, i)
            except Untranslatable as e:
                raise LabelsUnknown(path, window.entry_offset(i), f"{_where(window, i)} has visibility labels, {e}") from e
        return _with_parts(window, kept, parts)

    def _parts(self, window: Window, kept: Kept, i: int) -> list[_Part]:
        """The cells of an entry, in words, in as many parts as there must be entries."""
        parts = [_Part()]
        row_and_type = expression = None
        for cell in _cells(window, kept, i):
            _, key_len, value_len = _LENGTHS.unpack_from(cell)
            key = cell[12 : 12 + key_len]
            row = key[: 2 + int.from_bytes(key[:2])]
            tags = self._translate(cell[14 + key_len + value_len :])
            if row_and_type == (row, key[-1]) and expression != tags.expression:
                parts.append(_Part())
            parts[-1].add(_with_tags(cell, 12 + key_len + value_len, tags.tags), row)
            row_and_type, expression = (row, key[-1]), tags.expression
        return parts

    def _translate(self, tags: bytes) -> _Translated:
        if (known := self._translated.get(tags)) is None:
            try:
                known = in_words(tags, self._labels)
            except Untranslatable:
                self._labels = self._read_labels()  # labels are added, and never go
                known = in_words(tags, self._labels)
            size = len(tags) + len(known.tags)
            if len(self._translated) < 10_000 and self._cached + size <= CACHED_BYTES:
                self._translated[tags] = known
                self._cached += size
        return known


@dataclass(frozen=True)
class _Translated:
    tags: bytes
    expression: bytes | None  # that the slave's VisibilityController will find


class _Part:
    """An entry's cells that may lie in one entry on their way."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.cells = 0
        self.rows = 0
        self._row: bytes | None = None

    def add(self, cell: bytes, row: bytes) -> None:
        self.data += cell
        self.cells += 1
        self.rows += row != self._row
        self._row = row


def in_words(tags: bytes, labels: Mapping[int, bytes]) -> _Translated:
    """A cell's tags with an expression in place of ordinals, as VisibilityReplicationEndpoint makes it. Raises Untranslatable."""
    ordinals, others, formats, expressions = list[list[int]](), list[bytes](), set[bytes](), list[bytes]()
    for kind, content, whole in _tags(tags):
        if kind == VISIBILITY:
            ordinals.append(_ordinals(content))
        elif kind == FORMAT:
            formats.add(content)
        elif kind == EXPRESSION:
            expressions.append(whole)
        else:
            others.append(whole)
    if not ordinals:
        return _Translated(tags, expressions[0][3:] if expressions else None)
    if formats - {SORTED_ORDINALS}:
        raise Untranslatable(f"in a format other than sorted ordinals ({', '.join(f.hex() for f in sorted(formats))})")
    words = {ordinal: _label(ordinal, labels) for each in ordinals for ordinal in each}
    # Before it is built: a few bytes of ordinals may stand for gigabytes of labels.
    size = sum(len(words[ordinal]) + 1 for each in ordinals for ordinal in each) + 2 * len(ordinals) - 1
    if sum(map(len, others)) + 3 + size > MAX_TAGS:
        raise Untranslatable(f"whose expression has {size} bytes, more than a cell's tags can hold")
    expression = b"|".join(b"(%b)" % b"&".join(words[ordinal] for ordinal in each) for each in ordinals)
    # An expression from elsewhere that lies beside the ordinals does not count here, and would be the first that the slave finds.
    return _Translated(b"".join(others) + _tag(EXPRESSION, expression), expression)


def _label(ordinal: int, labels: Mapping[int, bytes]) -> bytes:
    """A label as CellVisibility.quote writes it; with `!` for a negative ordinal."""
    name = labels.get(abs(ordinal))
    if name is None:
        raise Untranslatable(f"and the source's label table has none of ordinal {abs(ordinal)}")
    if name.decode(errors="ignore").strip(_TRIMMED).encode() != name or not name:
        raise Untranslatable(f"and that of ordinal {abs(ordinal)}, {name[:64]!r}, is another one for the slave's parser")
    quoted = name.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return (b'!"%b"' if ordinal < 0 else b'"%b"') % quoted


def _tags(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Type, content, and all of each tag. All lengths in them have been checked by the scan."""
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2])
        yield data[at + 2], data[at + 3 : end], data[at:end]
        at = end


def _tag(kind: int, content: bytes) -> bytes:
    return (1 + len(content)).to_bytes(4)[2:] + bytes([kind]) + content


def _ordinals(content: bytes) -> list[int]:
    """StreamUtils.readRawVarint32, as often as there is something."""
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


def _cells(window: Window, kept: Kept, i: int) -> Iterator[bytes]:
    """The cells that are kept of an entry. All lengths in them have been checked by the scan."""
    for j in range(int(kept.span_first[i]), int(kept.span_first[i + 1])):
        data = window.buf[int(kept.span_start[j]) : int(kept.span_end[j])].tobytes()
        at = 0
        while at < len(data):
            end = at + 4 + _LENGTHS.unpack_from(data, at)[0]
            yield data[at:end]
            at = end


def _with_tags(cell: bytes, end: int, tags: bytes) -> bytes:
    """A cell that has `tags` after `end`, where its value ends."""
    part = len(tags).to_bytes(2) + tags if tags else b""
    return (end - 4 + len(part)).to_bytes(4) + cell[4:end] + part


def _where(window: Window, i: int) -> str:
    index = window.index
    names = ((index.region_start, index.region_len), (index.table_start, index.table_len))
    region, table = (window.buf[int(s[i]) : int(s[i] + n[i])].tobytes().decode(errors="replace") for s, n in names)
    return f"a cell of table {table}, region {region},"


def _with_parts(window: Window, kept: Kept, parts: Mapping[int, list[_Part]]) -> tuple[Window, Kept]:
    """`window` with other cells of some entries, each as one entry or more; the new cells lie behind the old ones in the buffer.

    The position after all but the last of an entry's parts is the one before the entry.
    """
    counts = np.ones(len(window.index), np.int64)
    counts[list(parts)] = [len(p) for p in parts.values()]
    taken = np.repeat(np.arange(counts.size), counts)
    last = np.cumsum(counts) - 1
    index = EntryIndex(*(getattr(window.index, f.name)[taken] for f in fields(EntryIndex)))
    file_start, file_end = window.positions[taken], window.positions[taken]
    file_end[last] = window.next_positions
    arrays = {name: getattr(kept, name)[taken] for name in ("reason", "cells", "rows", "size", "marked", "labelled")}
    data: list[Bytes] = [window.buf]
    spans: dict[int, tuple[int, int]] = {}
    at = int(window.buf.size)
    for i, pieces in parts.items():
        first = int(last[i]) - len(pieces) + 1
        for k, part in enumerate(pieces, first):
            data.append(np.frombuffer(part.data, np.uint8))
            spans[k] = (at, at + len(part.data))
            at += len(part.data)
            arrays["cells"][k], arrays["rows"][k], arrays["size"][k] = part.cells, part.rows, len(part.data)
            if k < last[i]:  # a bulk load beside them goes with the last one
                arrays["reason"][k] = Reason.SHIPPED
                index.cell_count[last[i]] -= part.cells
                index.cell_count[k] = part.cells
    first_span, start, end = _spans(kept, taken, spans)
    changed = replace(kept, **arrays, span_first=first_span, span_start=start, span_end=end)
    return Window(np.concatenate(data), window.base, index, file_start, file_end), changed


def _spans(kept: Kept, taken: Ints, replaced: Mapping[int, tuple[int, int]]) -> tuple[Ints, Ints, Ints]:
    """Where the spans of each entry begin, and the spans: those of `kept`, but for the entries in `replaced`."""
    counts = (kept.span_first[1:] - kept.span_first[:-1])[taken]
    counts[list(replaced)] = 1
    first = np.concatenate([[0], np.cumsum(counts)])
    # The j-th span of entry k was the j-th of entry taken[k].
    source = np.repeat(kept.span_first[:-1][taken] - first[:-1], counts) + np.arange(int(first[-1]))
    at = first[list(replaced)]
    source[at] = 0
    start, end = kept.span_start[source], kept.span_end[source]
    start[at], end[at] = [s for s, _ in replaced.values()], [e for _, e in replaced.values()]
    return first, start, end
