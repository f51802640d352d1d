"""Decodes the parts of WALKeys that their index lacks: the cluster ids, and the check that names are text.

Names of regions and tables are UTF-8 in HBase (TableName), and Arrow's strings must be UTF-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import WireType, read_field
from walferry.base.kernels.types import Bytes, Ints, OutWordTable
from walferry.hbase.wal.keys import KeyField, from_halves, read_uuid
from walferry.hbase.wal.scan import EntryIndex

BAD_ID = "a cluster id of the WALKey is malformed"
BAD_NAME = "the name of the region or of the table is not UTF-8"


@dataclass(frozen=True)
class ClusterIds:
    """The clusters that entries have been through. Entry i has `ids[j]` for each j in `which[first[i]:first[i + 1]]`."""

    first: Ints
    which: Ints
    ids: tuple[UUID, ...]


@dataclass(frozen=True)
class DecodedKeys:
    """The cluster ids of the first `count` entries. If the keys end there because the next one is faulty, `wrong` says why."""

    count: int
    cluster_ids: ClusterIds
    wrong: str


def decode_keys(buf: Bytes, entries: EntryIndex) -> DecodedKeys:
    """Decode the keys of entries that `scan_entries` found in `buf`, up to a malformed cluster id or a name that is not UTF-8."""
    first = np.zeros(len(entries) + 1, dtype=np.int64)
    np.cumsum(entries.cluster_id_count, out=first[1:])
    ids = np.empty((int(first[-1]), 2), dtype=np.uint64)
    bad_id = cluster_ids_into(buf, entries.key_start, entries.key_end, first, ids) if len(ids) else len(entries)
    bad_name = _first_bad_name(buf, entries)
    count = min(bad_id, bad_name)
    wrong = "" if count == len(entries) else BAD_ID if count == bad_id else BAD_NAME
    return DecodedKeys(count, _cluster_ids(first[: count + 1], ids[: first[count]]), wrong)


def _cluster_ids(first: Ints, ids: NDArray[np.uint64]) -> ClusterIds:
    if not len(ids):  # the usual case: only entries that came by replication have ids
        return ClusterIds(first, np.empty(0, dtype=np.int64), ())
    distinct, which = np.unique(ids, axis=0, return_inverse=True)
    return ClusterIds(first, which.reshape(-1).astype(np.int64), tuple(from_halves(*pair) for pair in distinct.tolist()))


def _first_bad_name(buf: Bytes, entries: EntryIndex) -> int:
    """Return the first entry whose region or table is not UTF-8, or the number of entries."""
    first_bad = len(entries)
    known: set[bytes] = set()
    for start, length in ((entries.region_start, entries.region_len), (entries.table_start, entries.table_len)):
        entry = first_not_ascii(buf, 0, start, length)
        while entry < len(start):
            name = buf[start[entry] : start[entry] + length[entry]].tobytes()
            if name not in known:
                try:
                    name.decode()
                except UnicodeDecodeError:
                    first_bad = min(first_bad, entry)
                    break
                known.add(name)
            entry = first_not_ascii(buf, entry + 1, start, length)
    return first_bad


@inlined
def is_ascii(buf: Bytes, start: int, length: int) -> bool:
    """Return whether every byte of `buf[start:start + length]` is below 128."""
    seen = np.uint8(0)
    for i in range(np.uint64(start), np.uint64(start + length)):
        seen |= buf[i]
    return bool(seen < 0x80)


@unmanaged
def first_not_ascii(buf: Bytes, entry: int, start: Ints, length: Ints) -> int:
    """Return the first entry, from `entry` on, whose name contains a byte above 127, or the number of entries."""
    while entry < start.size and is_ascii(buf, start[entry], length[entry]):
        entry += 1
    return entry


@unmanaged
def cluster_ids_into(buf: Bytes, key_start: Ints, key_end: Ints, first: Ints, ids: OutWordTable) -> int:
    """Write the least and the most significant halves of entry i's ids to `ids[first[i]:first[i + 1]]`.

    Returns the first entry with a malformed id, or the number of entries.
    """
    for entry in range(key_start.size):
        at, pos, end = first[entry], key_start[entry], key_end[entry]
        while at < first[entry + 1]:
            tag, _, start, pos = read_field(buf, pos, end)
            if tag >> 3 not in (KeyField.CLUSTER_ID, KeyField.CLUSTER_IDS):
                continue
            if tag & 7 != WireType.BYTES:
                return entry
            least, most, sound = read_uuid(buf, start, pos)
            if not sound:
                return entry
            ids[at, 0] = np.uint64(least)
            ids[at, 1] = np.uint64(most)
            at += 1
    return key_start.size
