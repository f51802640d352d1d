"""Which edits a peer gets: HBase's chain of WAL entry filters, over an entry index, in compiled code.

In HBase's order (SystemTableWALEntryFilter, ScopeWALEntryFilter, NamespaceTableCfWALEntryFilter, ClusterMarkingEntryFilter):

 1. tables of namespace `hbase` are dropped, but for hbase:acl and hbase:labels;
 2. cells whose family is not in the WALKey's scopes as GLOBAL are dropped, and the markers in which HBase notes what it does
    itself (a source with hbase.replication.bulkload.enabled keeps the scopes of these entries too);
 3. cells that the peer's namespaces and table-families leave out are dropped;
 4. entries that the slave has consumed already (its UUID is among the key's cluster ids) are dropped; the key of each other
    one gets the source's UUID, unless it has it.

Nothing is decoded or re-encoded: the result says, entry by entry, which byte spans of the buffer are to be shipped. The
descriptor of a bulk load is only found here; what becomes of it is decided in sinks/hbase. So are cells with visibility
labels, see visibility.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import numpy.typing as npt

from walferry.filters.rules import FilterRules, PeerTables, Reason
from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import read_int32, read_uint16, read_varint, skip_field
from walferry.wal.errors import WalCorruptError
from walferry.wal.reader import Window

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

MAX_SCOPES = 1024  # families in one WALKey; HBase's tables have a handful
# The family of markers, and the qualifiers by which they are told apart, in the order of their Reasons (WALEdit.java).
_META_FAMILY = b"METAFAMILY"
_MARKERS = (b"HBASE::BULK_LOAD", b"HBASE::COMPACTION", b"HBASE::FLUSH", b"HBASE::REGION_EVENT", b"HBASE::REPLICATION_MARKER")
_FIRST_MARKER = int(Reason.BULK_LOAD)
_VISIBILITY_TAG = 2  # TagType.java
_REGION_EVENT = _MARKERS.index(b"HBASE::REGION_EVENT")  # goes on with "::" and the event


@dataclass(frozen=True)
class Kept:
    """What of a window is shipped. Arrays over the window's entries, but for the spans.

    Entry i's cells to ship are the buffer's bytes [span_start[j], span_end[j]) for j in [span_first[i], span_first[i + 1]).
    """

    reason: npt.NDArray[np.int8]
    cells: npt.NDArray[np.int32]  # cells kept of the entry
    rows: npt.NDArray[np.int32]  # runs of one row among them, which is what HBase counts as operations
    size: Ints  # bytes of these cells
    marked: npt.NDArray[np.bool_]  # the key names the source already
    labelled: npt.NDArray[np.bool_]  # there are cells with visibility labels among those kept
    span_first: Ints
    span_start: Ints
    span_end: Ints


def filter_window(window: Window, rules: FilterRules, path: str) -> Kept:
    """What of `window` goes to the peer. Raises WalCorruptError, naming `path` and the offset, if a WALKey cannot be parsed."""
    index, n = window.index, len(window.index)
    table_of, first_of = _distinct_tables(window)
    kinds, family_first, family_start, family_bytes = _family_tables(window, first_of, rules.tables)
    meta_start, meta_bytes = _flat([_META_FAMILY, *_MARKERS])
    kept = Kept(
        reason=np.zeros(n, np.int8),
        cells=np.zeros(n, np.int32),
        rows=np.zeros(n, np.int32),
        size=np.zeros(n, np.int64),
        marked=np.zeros(n, np.bool_),
        labelled=np.zeros(n, np.bool_),
        span_first=np.zeros(n + 1, np.int64),
        span_start=np.empty(int(index.cell_count.sum()), np.int64),
        span_end=np.empty(int(index.cell_count.sum()), np.int64),
    )
    broken = _filter(
        window.buf, index.key_start, index.key_end, index.cells_start, index.cells_end,
        table_of, kinds, family_first, family_start, family_bytes,
        meta_start, meta_bytes, _halves(rules.slave_id), _halves(rules.source_id),
        kept.reason, kept.cells, kept.rows, kept.size, kept.marked, kept.labelled,
        kept.span_first, kept.span_start, kept.span_end, np.empty(MAX_SCOPES, np.int64), np.empty(MAX_SCOPES, np.int64),
    )  # fmt: skip
    if broken >= 0:
        raise WalCorruptError(path, window.entry_offset(broken), "scopes or cluster ids of the WALKey cannot be parsed")
    return kept


def uuid_field(uuid: UUID) -> bytes:
    """`uuid` as one more `cluster_ids` (field 8) of a WALKey: appended to a key's bytes, it marks the key."""
    from walferry.protos import hbase_pb2

    key = hbase_pb2.WALKey()
    key.cluster_ids.add(least_sig_bits=uuid.int & (2**64 - 1), most_sig_bits=uuid.int >> 64)
    return key.SerializePartialToString()


def _halves(uuid: UUID) -> Ints:
    """Least and most significant half, their bits as int64."""
    return np.array([uuid.int & (2**64 - 1), uuid.int >> 64], np.uint64).view(np.int64)


def _distinct_tables(window: Window) -> tuple[npt.NDArray[np.int32], Ints]:
    """For each entry the number of its table, and for each table the first entry that has it."""
    index = window.index
    table_of, first_of = np.empty(len(index), np.int32), np.empty(len(index), np.int64)
    count = _number_tables(window.buf, index.table_start, index.table_len, table_of, first_of)
    return table_of, first_of[:count]


def _family_tables(window: Window, first_of: Ints, tables: PeerTables) -> tuple[npt.NDArray[np.int8], Ints, Ints, Bytes]:
    """The peer's choice for each of the window's tables: kind; and its families as one flat list of byte strings."""
    kinds, first, names = [], [0], list[bytes]()
    for entry in first_of:
        at = int(window.index.table_start[entry])
        kind, families = tables.families_of(window.buf[at : at + int(window.index.table_len[entry])].tobytes())
        kinds.append(kind)
        names += sorted(families)
        first.append(len(names))
    return np.array(kinds, np.int8), np.array(first, np.int64), *_flat(names)


def _flat(names: Sequence[bytes]) -> tuple[Ints, Bytes]:
    """Names one after the other, and where each begins and the last one ends."""
    return np.cumsum([0, *map(len, names)], dtype=np.int64), np.frombuffer(b"".join(names) or b"\0", np.uint8)


@inlined
def _same(a: Bytes, a_start: int, b: Bytes, b_start: int, length: int) -> bool:
    for i in range(length):  # noqa: SIM110 - compiled code
        if a[a_start + i] != b[b_start + i]:
            return False
    return True


@unmanaged
def _number_tables(buf: Bytes, start: Ints, length: Ints, table_of: npt.NDArray[np.int32], first_of: Ints) -> int:
    count = 0
    last = -1
    for i in range(start.size):
        found = -1
        if last >= 0 and length[first_of[last]] == length[i] and _same(buf, start[first_of[last]], buf, start[i], length[i]):
            found = last
        else:
            for t in range(count):
                if length[first_of[t]] == length[i] and _same(buf, start[first_of[t]], buf, start[i], length[i]):
                    found = t
                    break
        if found < 0:
            found = count
            first_of[count] = i
            count += 1
        table_of[i] = last = found
    return count


@inlined
def _uuid_matches(buf: Bytes, pos: int, end: int, uuid: Ints) -> int:
    """Whether the UUID message in [pos, end) is `uuid`: 1, 0, or -1 if it cannot be parsed."""
    least = most = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return -1
        value, pos = read_varint(buf, pos, end)
        if pos < 0:
            return -1
        if tag == 8:
            least = value
        elif tag == 16:
            most = value
        else:
            return -1
    return 1 if least == uuid[0] and most == uuid[1] else 0


@inlined
def _global_family(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """The family of a FamilyScope message, if it is GLOBAL: its start and length; length -1 if not; start -1 if unparsable."""
    start = pos
    length = -1
    scope = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return -1, -1
        value, pos = read_varint(buf, pos, end)
        if pos < 0:
            return -1, -1
        if tag == 10:
            if value < 0 or value > end - pos:
                return -1, -1
            start = pos
            length = value
            pos += length
        elif tag == 16:
            scope = value
        else:
            return -1, -1
    return start, length if scope == 1 else -1


@inlined
def _parse_key(
    buf: Bytes, pos: int, end: int, slave: Ints, source: Ints, fam_start: Ints, fam_len: Ints
) -> tuple[int, bool, bool]:
    """A WALKey's GLOBAL families (their number, -1 if unparsable), and whether its cluster ids name the slave and the source."""
    families = 0
    from_slave = False
    marked = False
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return -1, False, False
        number = tag >> 3
        stop = skip_field(buf, pos, end, tag & 7)
        if stop < 0:
            return -1, False, False
        if tag & 7 == 2:
            _, pos = read_varint(buf, pos, end)
        if number == 6:
            start, length = _global_family(buf, pos, stop)
            if start < 0 or families == fam_start.size:
                return -1, False, False
            if length >= 0:
                fam_start[families] = start
                fam_len[families] = length
                families += 1
        elif number == 8 or number == 5:
            slaves = _uuid_matches(buf, pos, stop, slave)
            if slaves < 0:
                return -1, False, False
            from_slave = from_slave or slaves == 1
            marked = marked or (number == 8 and _uuid_matches(buf, pos, stop, source) == 1)
        pos = stop
    return families, from_slave, marked


@inlined
def _in_list(buf: Bytes, pos: int, length: int, first: int, last: int, starts: Ints, data: Bytes) -> bool:
    for f in range(first, last):  # noqa: SIM110 - compiled code
        if starts[f + 1] - starts[f] == length and _same(buf, pos, data, starts[f], length):
            return True
    return False


@inlined
def _marker(buf: Bytes, pos: int, length: int, meta_start: Ints, meta_bytes: Bytes) -> int:
    """The Reason of the marker with the qualifier `buf[pos : pos + length]`; 0 if it is none."""
    for m in range(len(_MARKERS)):
        name = meta_start[m + 1]
        name_len = meta_start[m + 2] - name
        fits = length == name_len or (m == _REGION_EVENT and length > name_len)
        if fits and _same(buf, pos, meta_bytes, name, name_len):
            return _FIRST_MARKER + m
    return 0


@inlined
def _has_visibility_tag(buf: Bytes, pos: int, end: int) -> bool:
    """Whether there is one among the tags in [pos, end), whose lengths the scan has checked."""
    while pos + 3 <= end:
        if buf[pos + 2] == _VISIBILITY_TAG:
            return True
        pos += 2 + read_uint16(buf, pos)
    return False


@inlined
def _keep_cells(
    buf: Bytes, pos: int, end: int, kind: int, first_family: int, last_family: int, family_start: Ints, family_bytes: Bytes,
    meta_start: Ints, meta_bytes: Bytes, scopes: int, scope_start: Ints, scope_len: Ints,
    span_start: Ints, span_end: Ints, spans: int,
) -> tuple[int, int, int, int, bool]:  # fmt: skip
    """One entry's cells. Returns how many spans there are now, the cells and rows kept, the reason if none is, and whether any of
    these cells has visibility labels.

    The reason is BULK_LOAD whenever there is a bulk load among them.
    """
    begin = pos  # of the span that is being built
    cells = 0
    rows = 0
    labelled = False
    why = 2
    last_row = 0  # where the row of the last kept cell starts; a cell's row is never at 0
    last_row_len = 0
    while pos < end:
        stop = pos + 4 + read_int32(buf, pos)
        row_len = read_uint16(buf, pos + 12)
        family = pos + 15 + row_len
        family_len = read_uint16(buf, family - 2) & 0xFF
        keep = False
        marker = 0
        if family_len == meta_start[1] and _same(buf, family, meta_bytes, 0, family_len):
            qualifier_len = read_int32(buf, pos + 4) - 12 - row_len - family_len
            marker = _marker(buf, family + family_len, qualifier_len, meta_start, meta_bytes)
            if marker > 0 and why != 5:
                why = marker if marker == 5 else max(why, marker)
        for s in range(scopes if marker == 0 else 0):
            if scope_len[s] == family_len and _same(buf, scope_start[s], buf, family, family_len):
                keep = True
                break
        if keep and kind != 1:
            listed = _in_list(buf, family, family_len, first_family, last_family, family_start, family_bytes)
            keep = kind != 0 and listed == (kind == 2)
            if not keep and why != 5:
                why = max(why, 3)
        if keep:
            cells += 1
            if last_row_len != row_len or last_row == 0 or not _same(buf, last_row, buf, pos + 14, row_len):
                rows += 1
            last_row, last_row_len = pos + 14, row_len
            tags = pos + 14 + read_int32(buf, pos + 4) + read_int32(buf, pos + 8)
            if tags < stop and _has_visibility_tag(buf, tags, stop):
                labelled = True
        else:
            if pos > begin:
                span_start[spans], span_end[spans] = begin, pos
                spans += 1
            begin = stop
        pos = stop
    if pos > begin:
        span_start[spans], span_end[spans] = begin, pos
        spans += 1
    return spans, cells, rows, 0 if cells > 0 and why != 5 else why, labelled


@unmanaged
def _filter(
    buf: Bytes, key_start: Ints, key_end: Ints, cells_start: Ints, cells_end: Ints,
    table_of: npt.NDArray[np.int32], kinds: npt.NDArray[np.int8], family_first: Ints, family_start: Ints, family_bytes: Bytes,
    meta_start: Ints, meta_bytes: Bytes, slave: Ints, source: Ints,
    reason: npt.NDArray[np.int8], cells: npt.NDArray[np.int32], rows: npt.NDArray[np.int32], size: Ints,
    marked: npt.NDArray[np.bool_], labelled: npt.NDArray[np.bool_],
    span_first: Ints, span_start: Ints, span_end: Ints, scope_start: Ints, scope_len: Ints,
) -> int:  # fmt: skip
    """Fill the arrays of Kept. Returns -1, or the entry whose key cannot be parsed."""
    spans = 0
    for i in range(key_start.size):
        span_first[i] = spans
        table = table_of[i]
        if kinds[table] == 4:
            reason[i] = 1
            continue
        scopes, from_slave, has_source = _parse_key(buf, key_start[i], key_end[i], slave, source, scope_start, scope_len)
        if scopes < 0:
            return i
        marked[i] = has_source
        before = spans
        spans, cells[i], rows[i], reason[i], labelled[i] = _keep_cells(
            buf, cells_start[i], cells_end[i], kinds[table], family_first[table], family_first[table + 1], family_start,
            family_bytes, meta_start, meta_bytes, scopes, scope_start, scope_len, span_start, span_end, before,
        )  # fmt: skip
        if from_slave and cells[i] > 0:
            spans, cells[i], rows[i], labelled[i] = before, 0, 0, False
            reason[i] = 4 if reason[i] == 0 else reason[i]
        for j in range(before, spans):
            size[i] += span_end[j] - span_start[j]
    span_first[key_start.size] = spans
    return -1
