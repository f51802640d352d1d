"""Decides which edits a peer gets: HBase's chain of WAL entry filters, over an entry index, in compiled code.

In HBase's order (SystemTableWALEntryFilter, ScopeWALEntryFilter, NamespaceTableCfWALEntryFilter, ClusterMarkingEntryFilter):

 1. Tables of namespace `hbase` are dropped, except hbase:acl and hbase:labels.
 2. Cells are dropped whose family is not GLOBAL in the WALKey's scopes, and so are the markers of HBase's own actions (a source
    with hbase.replication.bulkload.enabled also keeps the scopes of these entries).
 3. Cells that the peer's namespaces and table-families exclude are dropped.
 4. Cells of Phoenix's catalog that belong to no tenant are dropped if the peer has Phoenix's filter (phoenix.py).
 5. Entries that the peer cluster has already consumed (its UUID is among the key's cluster ids) are dropped. The key of every
    other entry gets the source's UUID, unless it already contains it.

Three more kinds of cells are dropped: cells of tables and families that are known to be deleted at both clusters, as in
HBaseInterClusterReplicationEndpoint; cells that the peer cluster has got as files; and cells older than an initial snapshot.

Nothing is decoded or re-encoded: the result lists, for each entry, the byte spans of the buffer to ship. This module only finds
the descriptors of bulk loads and the cells with visibility labels, about which the sink and visibility.py decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import numpy as np
import numpy.typing as npt

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import WireType, compare_bytes, find_name, flat, hash_bytes, read_field, same_bytes
from walferry.base.kernels.types import Bytes, Int8s, Int32s, Ints, OutFlags, OutInt8s, OutInt32s, OutInts
from walferry.hbase.wal.cells import BULK_LOAD, KEY_TAIL, META_FAMILY, TagType, cell_end, family_of, has_tag, row_of, value_start
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.keys import KeyField, halves, halves_array, read_scope, read_uuid
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.phoenix import is_of_tenant
from walferry.replication.filters.rules import Families, FilterRules, PeerTables, Reason, catalog_of

SCOPE_BYTES: Final = 6  # of the shortest scope in a WALKey: three tags, two lengths, the scope itself
# The qualifiers of the markers, in the order of their Reasons (WALEdit.java).
_MARKERS = (BULK_LOAD, b"HBASE::COMPACTION", b"HBASE::FLUSH", b"HBASE::REGION_EVENT", b"HBASE::REPLICATION_MARKER")
_REGION_EVENT = _MARKERS.index(b"HBASE::REGION_EVENT")  # followed by "::" and the event
_FIRST_MARKER: Final = Reason.BULK_LOAD.value
_MALFORMED: Final = -1
_PROBES: Final = 64  # for a table among those with similar hashes


@dataclass(frozen=True)
class KeptEdits:
    """The parts of a WAL batch that are shipped. All arrays but the spans and `first_of` have an element for each entry.

    Entry i's cells to ship are the buffer's bytes [span_start[j], span_end[j]) for j in [span_first[i], span_first[i + 1]).
    """

    reason: npt.NDArray[np.int8]
    cells: npt.NDArray[np.int32]  # kept cells of the entry
    rows: npt.NDArray[np.int32]  # runs of cells of one row among them, which HBase counts as operations
    size: Ints  # bytes of these cells
    marked: npt.NDArray[np.bool_]  # the key already names the source
    labelled: npt.NDArray[np.bool_]  # some of the kept cells have visibility labels
    span_first: Ints
    span_start: Ints
    span_end: Ints
    table_of: npt.NDArray[np.int32]  # numbers of the batch's tables, see `distinct_tables`
    first_of: Ints  # the first entry of each of these tables

    def has_same_spans(self, other: KeptEdits) -> bool:
        """Return whether the same cells are shipped, of a batch that was filtered by other rules."""
        used = int(self.span_first[-1])
        return (
            np.array_equal(self.span_first, other.span_first)
            and np.array_equal(self.span_start[:used], other.span_start[:used])
            and np.array_equal(self.span_end[:used], other.span_end[:used])
        )

    def spans(self, batch: WalBatch, i: int) -> Iterator[bytes]:
        """Yield the bytes of an entry's spans."""
        for j in range(int(self.span_first[i]), int(self.span_first[i + 1])):
            yield batch.buf[int(self.span_start[j]) : int(self.span_end[j])].tobytes()


def filter_batch(batch: WalBatch, rules: FilterRules, path: str) -> KeptEdits:
    """Decide which edits of a WAL batch the peer gets. Raises WalCorruptError, with `path`, for a malformed WALKey."""
    kept = _filter_batch(batch, rules, path)
    for rule, reason in (("deleted", Reason.DELETED), ("loaded", Reason.LOADED), ("copied", Reason.COPIED)):
        if getattr(rules.tables, rule):  # entries that would be shipped without this rule get its reason
            without = replace(rules, tables=replace(rules.tables, **{rule: {}}))  # type: ignore[arg-type]  # of a rule
            lost = (_filter_batch(batch, without, path).cells > 0) & (kept.cells == 0) & (kept.reason != Reason.BULK_LOAD)
            kept.reason[lost] = reason
    return kept


def _filter_batch(batch: WalBatch, rules: FilterRules, path: str) -> KeptEdits:
    index, n = batch.index, len(batch.index)
    table_of, first_of = distinct_tables(batch)
    kinds, family_first, family_start, family_bytes = _family_tables(batch, first_of, rules.tables)
    catalogs = np.zeros(len(first_of), np.int8)
    if rules.tables.tenants_only:
        catalogs[:] = [catalog_of(table_name(batch, int(entry))) for entry in first_of]
    meta_start, meta_bytes = flat([META_FAMILY, *_MARKERS])
    kept = KeptEdits(
        reason=np.zeros(n, np.int8),
        cells=np.zeros(n, np.int32),
        rows=np.zeros(n, np.int32),
        size=np.zeros(n, np.int64),
        marked=np.zeros(n, np.bool_),
        labelled=np.zeros(n, np.bool_),
        span_first=np.zeros(n + 1, np.int64),
        span_start=np.empty(int(index.cell_count.sum()), np.int64),
        span_end=np.empty(int(index.cell_count.sum()), np.int64),
        table_of=table_of,
        first_of=first_of,
    )
    longest_key = int((index.key_end - index.key_start).max(initial=0))
    most_scopes = longest_key // SCOPE_BYTES  # in an entry: HBase writes the scopes of all of a table's families into each key
    broken = _filter(
        batch.buf, index.key_start, index.key_end, index.cells_start, index.cells_end,
        table_of, kinds, catalogs, family_first, family_start, family_bytes,
        meta_start, meta_bytes, halves_array(rules.peer_cluster_id), halves_array(rules.source_id),
        kept.reason, kept.cells, kept.rows, kept.size, kept.marked, kept.labelled,
        kept.span_first, kept.span_start, kept.span_end, np.empty(most_scopes, np.int64), np.empty(most_scopes, np.int64),
    )  # fmt: skip
    if broken >= 0:
        raise WalCorruptError(path, batch.entry_offset(broken), "scopes or cluster ids of the WALKey cannot be parsed")
    return kept


def uuid_field(uuid: UUID) -> bytes:
    """Return a `cluster_ids` field with `uuid`. Appended to a WALKey's bytes, the field marks the key."""
    from walferry.base.protos import hbase_pb2

    least, most = halves(uuid)
    key = hbase_pb2.WALKey()
    key.cluster_ids.add(least_sig_bits=least, most_sig_bits=most)
    return key.SerializePartialToString()


def filtered_by_reason(kept: KeptEdits) -> dict[str, int]:
    """Return how many entries are not shipped, by the reason's name."""
    reasons = np.bincount(kept.reason, minlength=len(Reason))
    return {reason.name.lower(): int(reasons[reason]) for reason in Reason if reason is not Reason.SHIPPED and reasons[reason]}


def distinct_tables(batch: WalBatch) -> tuple[npt.NDArray[np.int32], Ints]:
    """Return the number of each entry's table, from 0 on, and the first entry of each table.

    A table may get several numbers if many names were chosen so that their hashes collide.
    """
    index = batch.index
    table_of, first_of = np.empty(len(index), np.int32), np.empty(len(index), np.int64)
    slots = np.zeros(2 << len(index).bit_length(), np.int64)
    count = _number_tables(batch.buf, index.table_start, index.table_len, slots, table_of, first_of)
    return table_of, first_of[:count]


def table_name(batch: WalBatch, entry: int) -> bytes:
    """Return the name of an entry's table."""
    start = int(batch.index.table_start[entry])
    return batch.buf[start : start + int(batch.index.table_len[entry])].tobytes()


def _family_tables(batch: WalBatch, first_of: Ints, tables: PeerTables) -> tuple[npt.NDArray[np.int8], Ints, Ints, Bytes]:
    """Return the peer's choice for each table of the WAL batch: its kind, and its families as one flat list of byte strings."""
    kinds, first, names = [], [0], list[bytes]()
    for entry in first_of:
        kind, families = tables.families_of(table_name(batch, int(entry)))
        kinds.append(kind)
        names += sorted(families)
        first.append(len(names))
    return np.array(kinds, np.int8), np.array(first, np.int64), *flat(names)


@unmanaged
def _number_tables(buf: Bytes, start: Ints, length: Ints, slots: OutInts, table_of: OutInt32s, first_of: OutInts) -> int:
    """Number the tables. Writes each entry's table, and each table's first entry. Returns how many tables there are.

    `slots` are empty places for the tables' numbers, plus 1, by the hashes of their names.
    """
    count = 0
    last = -1
    mask = np.uint64(slots.size - 1)
    for i in range(start.size):
        before = first_of[last]
        if last < 0 or length[before] != length[i] or not same_bytes(buf, start[before], buf, start[i], length[i]):
            slot = np.uint64(hash_bytes(buf, start[i], length[i])) & mask
            last = -1
            for _ in range(_PROBES):
                t = slots[slot] - 1
                if t < 0:
                    slots[slot] = count + 1
                    break
                if length[first_of[t]] == length[i] and same_bytes(buf, start[first_of[t]], buf, start[i], length[i]):
                    last = t
                    break
                slot = (slot + np.uint64(1)) & mask
            if last < 0:
                last = count
                first_of[count] = i
                count += 1
        table_of[i] = last
    return count


@inlined
def _sift(buf: Bytes, starts: OutInts, lengths: OutInts, at: int, count: int) -> None:
    """Sift a name of a heap down to its place."""
    while 2 * at + 1 < count:
        child, right = 2 * at + 1, 2 * at + 2
        if right < count and compare_bytes(buf, starts[child], lengths[child], buf, starts[right], lengths[right]) < 0:
            child = right
        if compare_bytes(buf, starts[at], lengths[at], buf, starts[child], lengths[child]) >= 0:
            break
        starts[at], starts[child] = starts[child], starts[at]
        lengths[at], lengths[child] = lengths[child], lengths[at]
        at = child


@inlined
def _sort(buf: Bytes, starts: OutInts, lengths: OutInts, count: int) -> None:
    """Sort names as HBase orders bytes, by a heap sort: no order that a user may choose takes longer than others."""
    for at in range(count // 2 - 1, -1, -1):
        _sift(buf, starts, lengths, at, count)
    for end in range(count - 1, 0, -1):
        starts[0], starts[end] = starts[end], starts[0]
        lengths[0], lengths[end] = lengths[end], lengths[0]
        _sift(buf, starts, lengths, 0, end)


@inlined
def _read_key(
    buf: Bytes, pos: int, end: int, peer_cluster: Ints, source: Ints, fam_start: OutInts, fam_len: OutInts
) -> tuple[int, bool, bool]:
    """Return a WALKey's number of GLOBAL families, and whether its cluster ids name the peer cluster and the source.

    The families go to `fam_start` and `fam_len`, in ascending order, as HBase writes them. Their number is _MALFORMED if
    scopes or cluster ids cannot be parsed.
    """
    families = 0
    ascending = True
    from_peer_cluster = False
    marked = False
    while pos < end:
        tag, _, start, pos = read_field(buf, pos, end)
        if pos < 0:
            return _MALFORMED, False, False
        field = tag >> 3
        if field not in (KeyField.SCOPES, KeyField.CLUSTER_ID, KeyField.CLUSTER_IDS):
            continue
        if tag & 7 != WireType.BYTES:
            return _MALFORMED, False, False
        if field == KeyField.SCOPES:
            family, length, is_global = read_scope(buf, start, pos)
            if family < 0:
                return _MALFORMED, False, False
            if is_global and length >= 0:
                last = families - 1
                if last >= 0 and compare_bytes(buf, fam_start[last], fam_len[last], buf, family, length) >= 0:
                    ascending = False
                fam_start[families] = family
                fam_len[families] = length
                families += 1
        else:
            least, most, sound = read_uuid(buf, start, pos)
            if not sound:
                return _MALFORMED, False, False
            from_peer_cluster = from_peer_cluster or (least == peer_cluster[0] and most == peer_cluster[1])
            marked = marked or (field == KeyField.CLUSTER_IDS and least == source[0] and most == source[1])
    if not ascending:
        _sort(buf, fam_start, fam_len, families)
    return families, from_peer_cluster, marked


@inlined
def _marker(buf: Bytes, pos: int, length: int, meta_start: Ints, meta_bytes: Bytes) -> int:
    """Return the Reason of the marker with the qualifier `buf[pos:pos + length]`, or 0 if it is not a marker."""
    for m in range(len(_MARKERS)):
        name = meta_start[m + 1]
        name_len = meta_start[m + 2] - name
        fits = length == name_len or (m == _REGION_EVENT and length > name_len)
        if fits and same_bytes(buf, pos, meta_bytes, name, name_len):
            return _FIRST_MARKER + m
    return 0


@inlined
def _is_wanted(
    buf: Bytes, family: int, length: int, kind: int, first_family: int, last_family: int, family_start: Ints, family_bytes: Bytes
) -> bool:
    """Return whether the peer gets a family of a table with the choice `kind`."""
    if kind == Families.ALL:
        return True
    if kind == Families.NONE:
        return False
    listed = find_name(buf, family, length, first_family, last_family, family_start, family_bytes) >= 0
    return listed == (kind == Families.ONLY)


@inlined
def _is_global(buf: Bytes, family: int, length: int, scopes: int, scope_start: Ints, scope_len: Ints) -> bool:
    """Return whether a cell's family is among the GLOBAL families of its key, which are in ascending order."""
    low, high = 0, scopes
    while low < high:
        middle = (low + high) // 2
        order = compare_bytes(buf, scope_start[middle], scope_len[middle], buf, family, length)
        if order == 0:
            return True
        low, high = (middle + 1, high) if order < 0 else (low, middle)
    return False


@inlined
def _judge_cell(
    buf: Bytes, pos: int, catalog: int, kind: int, first_family: int, last_family: int, family_start: Ints, family_bytes: Bytes,
    meta_start: Ints, meta_bytes: Bytes, scopes: int, scope_start: Ints, scope_len: Ints,
) -> int:  # fmt: skip
    """Return the Reason why the cell at `pos` is not shipped, or SHIPPED."""
    family, family_len = family_of(buf, pos)
    if family_len == meta_start[1] and same_bytes(buf, family, meta_bytes, 0, family_len):
        qualifier = family + family_len
        marker = _marker(buf, qualifier, value_start(buf, pos) - KEY_TAIL - qualifier, meta_start, meta_bytes)
        if marker > 0:
            return marker
    if not _is_global(buf, family, family_len, scopes, scope_start, scope_len):
        return Reason.NOT_GLOBAL
    if not _is_wanted(buf, family, family_len, kind, first_family, last_family, family_start, family_bytes):
        return Reason.NOT_IN_PEER
    return Reason.SHIPPED if is_of_tenant(buf, pos, catalog) else Reason.NOT_OF_TENANT


@inlined
def _stronger(why: int, other: int) -> int:
    """Return an entry's reason from two reasons of its cells: BULK_LOAD if it is one of them, else the larger."""
    if why == Reason.BULK_LOAD or other == Reason.BULK_LOAD:
        return int(Reason.BULK_LOAD.value)
    return max(why, other)


@inlined
def _keep_cells(
    buf: Bytes, pos: int, end: int, catalog: int, kind: int, first_family: int, last_family: int,
    family_start: Ints, family_bytes: Bytes,
    meta_start: Ints, meta_bytes: Bytes, scopes: int, scope_start: Ints, scope_len: Ints,
    span_start: OutInts, span_end: OutInts, spans: int,
) -> tuple[int, int, int, int, bool]:  # fmt: skip
    """Judge one entry's cells. Returns how many spans there are now, how many cells and rows are kept, the reason if no cell is
    kept, and whether any kept cell has visibility labels.

    The reason is BULK_LOAD whenever there is a bulk load among the cells.
    """
    begin = pos  # start of the current span
    cells = 0
    rows = 0
    labelled = False
    why = int(Reason.NOT_GLOBAL.value)
    last_row, last_row_len = 0, 0  # of the last kept cell; a cell's row never begins at 0
    while pos < end:
        stop = cell_end(buf, pos)
        reason = _judge_cell(
            buf, pos, catalog, kind, first_family, last_family, family_start, family_bytes, meta_start, meta_bytes,
            scopes, scope_start, scope_len,
        )  # fmt: skip
        if reason == Reason.SHIPPED:
            cells += 1
            row, row_len = row_of(buf, pos)
            if last_row_len != row_len or last_row == 0 or not same_bytes(buf, last_row, buf, row, row_len):
                rows += 1
            last_row, last_row_len = row, row_len
            labelled = labelled or has_tag(buf, pos, TagType.VISIBILITY)
        else:
            why = _stronger(why, reason)
            if pos > begin:
                span_start[spans], span_end[spans] = begin, pos
                spans += 1
            begin = stop
        pos = stop
    if pos > begin:
        span_start[spans], span_end[spans] = begin, pos
        spans += 1
    return spans, cells, rows, 0 if cells > 0 and why != Reason.BULK_LOAD else why, labelled


@unmanaged
def _filter(
    buf: Bytes, key_start: Ints, key_end: Ints, cells_start: Ints, cells_end: Ints,
    table_of: Int32s, kinds: Int8s, catalogs: Int8s,
    family_first: Ints, family_start: Ints, family_bytes: Bytes,
    meta_start: Ints, meta_bytes: Bytes, peer_cluster: Ints, source: Ints,
    reason: OutInt8s, cells: OutInt32s, rows: OutInt32s, size: OutInts,
    marked: OutFlags, labelled: OutFlags,
    span_first: OutInts, span_start: OutInts, span_end: OutInts, scope_start: OutInts, scope_len: OutInts,
) -> int:  # fmt: skip
    """Fill the arrays of KeptEdits. Returns -1, or the entry whose key cannot be parsed."""
    spans = 0
    for i in range(key_start.size):
        span_first[i] = spans
        table = table_of[i]
        if kinds[table] == Families.SYSTEM:
            reason[i] = Reason.SYSTEM_TABLE
            continue
        scopes, from_peer_cluster, has_ours = _read_key(
            buf, key_start[i], key_end[i], peer_cluster, source, scope_start, scope_len
        )
        if scopes < 0:
            return i
        marked[i] = has_ours
        before = spans
        spans, cells[i], rows[i], reason[i], labelled[i] = _keep_cells(
            buf, cells_start[i], cells_end[i], catalogs[table], kinds[table], family_first[table], family_first[table + 1],
            family_start, family_bytes, meta_start, meta_bytes, scopes, scope_start, scope_len, span_start, span_end, before,
        )  # fmt: skip
        if from_peer_cluster and cells[i] > 0:
            spans, cells[i], rows[i], labelled[i] = before, 0, 0, False
            if reason[i] == Reason.SHIPPED:
                reason[i] = Reason.FROM_PEER_CLUSTER
        for j in range(before, spans):
            size[i] += span_end[j] - span_start[j]
    span_first[key_start.size] = spans
    return -1
