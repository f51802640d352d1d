"""Cuts a shipment into ReplicateWALEntry requests, each of which HBase's sink applies in the order of the WAL.

The sink (ReplicationSink.replicateEntries) sorts the mutations of a request by table and by list of cluster ids, and sends these
groups side by side, or one after the other in any order. From HBase 2.2 on it also cuts a group of more than 5,000 mutations into
parts of 5,000 (hbase.rpc.rows.warning.threshold), and sends the parts side by side too. So two mutations of a row keep their
order only if their entries have the same list, and are in the same part. A request ends before an entry that would break this
rule. A shipment is not cut if all its edits have been at the same clusters and no row changes twice in a large request.

The entries are those that `shipment.assemble` wrote: their layout is known, and every length was checked when they were read.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import hash_bytes, mix, read_field, read_uint8, read_varint, same_bytes
from walferry.base.kernels.types import Bytes, OutInts, OutIntTable, OutIntView
from walferry.hbase.wal.cells import cell_end, row_of, value_start
from walferry.hbase.wal.keys import KeyField
from walferry.replication.sinks.hbase.shipment import Shipment

MAX_MUTATIONS: Final = 5000  # in a group that the sink does not cut
_PROBES: Final = 64  # many rows with colliding hashes cost an extra request, not time


@dataclass(frozen=True)
class RequestPart:
    """The entries and cells of one of several requests."""

    entries: tuple[Bytes, ...]
    cells: tuple[Bytes, ...]


class _Request(enum.IntEnum):
    """The elements of the state of the request that is being filled."""

    NUMBER = 0
    MUTATIONS = 1
    ENTRIES = 2


class _Seen(enum.IntEnum):
    """The rows of the hash table of the rows that mutations have changed."""

    HASH = 0
    LIST = 1  # a hash of the cluster ids
    REQUEST = 2  # the number of the request; slots of earlier requests are free


def in_order(shipment: Shipment) -> Iterator[Shipment | RequestPart]:
    """Yield the requests that carry a shipment, in order. This is the shipment itself if the sink keeps its order anyway."""
    seen = np.zeros((len(_Seen), 2 << shipment.row_count.bit_length()), np.int64)
    request = np.array([1, 0, 0], np.int64)
    filled: list[tuple[list[Bytes], list[Bytes]]] = [([], [])]
    for entries, cells in zip(shipment.entries, shipment.cells, strict=True):
        cuts = np.zeros((2, shipment.entry_count + 1), np.int64)
        count = _cut(entries, cells, MAX_MUTATIONS, seen, request, cuts[:, 1:])
        if count < 0:
            raise AssertionError("an entry of a shipment is not as it was assembled")
        starts = cuts[:, : count + 1]
        ends = np.append(starts[:, 1:], [[entries.size], [cells.size]], axis=1)
        for cut, (start, end) in enumerate(zip(starts.T.tolist(), ends.T.tolist(), strict=True)):
            if cut:
                filled.append(([], []))
            filled[-1][0].append(entries[start[0] : end[0]])
            filled[-1][1].append(cells[start[1] : end[1]])
    if len(filled) == 1:
        yield shipment
    else:
        yield from (RequestPart(tuple(entries), tuple(cells)) for entries, cells in filled)


@inlined
def _hashes(buf: Bytes, pos: int, end: int) -> tuple[Any, Any, bool]:
    """Return hashes of the table and of the list of cluster ids of the WALKey `buf[pos:end]`, and whether it can be parsed."""
    table, ids = np.uint64(0), np.uint64(0)
    while pos < end:
        tag, _, first, pos = read_field(buf, pos, end)
        if pos < 0:
            return table, ids, False
        field = tag >> 3
        if field == KeyField.TABLE:
            table = np.uint64(hash_bytes(buf, first, pos - first))
        elif field == KeyField.CLUSTER_ID or field == KeyField.CLUSTER_IDS:
            ids = mix(ids, np.uint64(hash_bytes(buf, first, pos - first)))
    return table, ids, True


@inlined
def _see(seen: OutIntTable, request: int, wanted: Any, ids: Any) -> tuple[bool, bool]:
    """Note that a row is changed. Returns whether the request has changed the row before, and whether with other cluster ids."""
    slots = np.uint64(seen.shape[1] - 1)
    slot = np.uint64(wanted) & slots
    for _ in range(_PROBES):
        if seen[_Seen.REQUEST, slot] != request:
            seen[_Seen.HASH, slot], seen[_Seen.LIST, slot], seen[_Seen.REQUEST, slot] = wanted, ids, request
            return False, False
        if seen[_Seen.HASH, slot] == wanted:
            return True, seen[_Seen.LIST, slot] != ids
        slot = (slot + np.uint64(1)) & slots
    return True, True


@unmanaged
def _cut(entries: Bytes, cells: Bytes, most: int, seen: OutIntTable, request: OutInts, cuts: OutIntView) -> int:
    """Write the ends of the requests in a part of a shipment to `cuts`, as positions in `entries` and `cells`. Returns how many
    there are; -1 if an entry cannot be parsed.
    """
    pos, cell, count = 0, 0, 0
    while pos < entries.size:
        body_len, body = read_varint(entries, pos + 1, entries.size)
        key_len, key = read_varint(entries, body + 1, entries.size)
        cell_count, after = read_varint(entries, key + key_len + 1, entries.size)
        table, ids, sound = _hashes(entries, key, key + key_len)
        if after != body + body_len or after > entries.size or not sound:
            return -1
        end, mutations, breaks = cell, request[_Request.MUTATIONS], False
        row, row_len, kind = 0, -1, 0
        for _ in range(cell_count):
            its_row, its_len = row_of(cells, end)
            its_kind = read_uint8(cells, value_start(cells, end) - 1)
            if not (its_kind == kind and its_len == row_len and same_bytes(cells, row, cells, its_row, its_len)):
                mutations += 1
                its_hash = mix(table, np.uint64(hash_bytes(cells, its_row, its_len)))
                again, otherwise = _see(seen, request[_Request.NUMBER], np.int64(its_hash), np.int64(ids))
                breaks |= otherwise or (again and mutations > most)
            row, row_len, kind = its_row, its_len, its_kind
            end = cell_end(cells, end)
        if breaks and request[_Request.ENTRIES]:  # then check the entry once more, as the first of the next request
            cuts[0, count], cuts[1, count] = pos, cell
            count += 1
            request[_Request.NUMBER] += 1
            request[_Request.MUTATIONS] = request[_Request.ENTRIES] = 0
            continue
        request[_Request.MUTATIONS] = mutations
        request[_Request.ENTRIES] += 1
        pos, cell = after, end
    return count if cell == cells.size else -1
