"""What decoding needs of a WALKey beyond its index: cluster ids, and names that are text.

    WALKey = … 5 UUID cluster_id (old), 8 UUID cluster_ids, …
    UUID   = 1 uint64 least_sig_bits, 2 uint64 most_sig_bits

Source: HBase's WAL.proto, HBase.proto, and TableName for names being UTF-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import Bytes, Ints, read_varint, skip_field
from walferry.wal.scan import EntryIndex

BAD_ID = "a cluster id of the WALKey is malformed"
BAD_NAME = "the name of the region or of the table is not UTF-8"


@dataclass(frozen=True)
class ClusterIds:
    """The clusters that entries have been through. Entry i has `ids[j]` for each j in `which[first[i]:first[i + 1]]`."""

    first: Ints
    which: Ints
    ids: tuple[UUID, ...]


@dataclass(frozen=True)
class Keys:
    """What the keys of the first `count` entries have. If that is not all of them, `wrong` says what the next one's key has."""

    count: int
    cluster_ids: ClusterIds
    wrong: str


def parse_keys(buf: Bytes, entries: EntryIndex) -> Keys:
    """The keys of entries that `scan_entries` found in `buf`, up to a malformed cluster id or a name that is not UTF-8."""
    first = np.zeros(len(entries) + 1, dtype=np.int64)
    np.cumsum(entries.cluster_id_count, out=first[1:])
    halves = np.empty((int(first[-1]), 2), dtype=np.uint64)
    bad_id = cluster_ids_into(buf, entries.key_start, entries.key_end, first, halves) if len(halves) else len(entries)
    bad_name = _first_bad_name(buf, entries)
    count = min(bad_id, bad_name)
    wrong = "" if count == len(entries) else BAD_ID if count == bad_id else BAD_NAME
    return Keys(count, _cluster_ids(first[: count + 1], halves[: first[count]]), wrong)


def _cluster_ids(first: Ints, halves: NDArray[np.uint64]) -> ClusterIds:
    if not len(halves):  # as nearly always: only what came by replication has ids
        return ClusterIds(first, np.empty(0, dtype=np.int64), ())
    distinct, which = np.unique(halves, axis=0, return_inverse=True)
    ids = tuple(UUID(int=int(most) << 64 | int(least)) for least, most in distinct)
    return ClusterIds(first, which.reshape(-1).astype(np.int64), ids)


def _first_bad_name(buf: Bytes, entries: EntryIndex) -> int:
    """The first entry whose region or table is not UTF-8, or the number of entries."""
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
    seen = np.uint8(0)
    for i in range(np.uint64(start), np.uint64(start + length)):
        seen |= buf[i]
    return bool(seen < 0x80)


@unmanaged
def first_not_ascii(buf: Bytes, entry: int, start: Ints, length: Ints) -> int:
    """The first entry, from `entry` on, whose name has a byte above 127, or the number of entries."""
    while entry < start.size and is_ascii(buf, start[entry], length[entry]):
        entry += 1
    return entry


@inlined
def read_uuid(buf: Bytes, pos: int, end: int) -> tuple[int, int, bool]:
    """(least significant half, most significant half, whether it is one) of the UUID message `buf[pos:end]`."""
    least, most, seen = 0, 0, 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return least, most, False
        if tag == 0x08:
            least, pos = read_varint(buf, pos, end)
            seen |= 1
        elif tag == 0x10:
            most, pos = read_varint(buf, pos, end)
            seen |= 2
        else:
            pos = skip_field(buf, pos, end, tag & 7)
        if pos < 0:
            return least, most, False
    return least, most, seen == 3


@unmanaged
def cluster_ids_into(buf: Bytes, key_start: Ints, key_end: Ints, first: Ints, halves: NDArray[np.uint64]) -> int:
    """Write least and most significant half of entry i's ids to `halves[first[i]:first[i + 1]]`.

    Returns the first entry that has a malformed id, or the number of entries.
    """
    for entry in range(key_start.size):
        at, pos, end = first[entry], key_start[entry], key_end[entry]
        while at < first[entry + 1]:
            tag, value = read_varint(buf, pos, end)
            pos = skip_field(buf, value, end, tag & 7)
            if tag >> 3 not in (5, 8):
                continue
            if tag & 7 != 2:
                return entry
            _, start = read_varint(buf, value, end)
            least, most, whole = read_uuid(buf, start, pos)
            if not whole:
                return entry
            halves[at, 0] = np.uint64(least)
            halves[at, 1] = np.uint64(most)
            at += 1
    return key_start.size
