"""Decides which cells of a table a scan shows, by HBase's rules of delete markers, versions and TTL.

    Delete                hides the cell of its column with its timestamp
    DeleteColumn          hides all cells of its column with its timestamp or an earlier one
    DeleteFamilyVersion   hides all cells of its row and family with its timestamp
    DeleteFamily          hides all cells of its row and family with its timestamp or an earlier one

A marker hides what was written before it and after it. Of the cells of a column with one timestamp, the last one that was written
counts. Of what is left, the newest VERSIONS of a column are shown, as far as they have not expired: a cell by its
own TTL, or by the family's, unless it is one of the newest MIN_VERSIONS. Source: UserScanQueryMatcher, ScanDeleteTracker,
ScanWildcardColumnTracker and HStore.isCellTTLExpired of HBase 2.6.

HBase itself forgets markers and hidden cells at some time: at a flush or a compaction. So what it shows depends on these times: a
version that a later marker uncovers is there again, unless a flush has dropped it. And what is written behind a marker, with a
timestamp before it, is hidden until a major compaction drops the marker. Here the rules count as if markers were never
forgotten.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from walferry.base.kernels.types import Ints
from walferry.hbase.wal.cells import CellType, TagType

FOREVER_SECONDS = 2**31 - 1  # HConstants.FOREVER
NEVER = (1 << 63) - 1  # a cell that does not expire, in ms
MIN_TTL_TAG = 2 + 1 + 8
MARKERS = (CellType.DELETE, CellType.DELETE_COLUMN, CellType.DELETE_FAMILY_VERSION, CellType.DELETE_FAMILY)

_EARLIEST = -(1 << 63)
_ORDER = [
    ("row", "ascending"), ("family", "ascending"), ("qualifier", "ascending"), ("timestamp", "descending"),
    ("sequence_id", "descending"), ("cell", "descending"),
]  # fmt: skip

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FamilyRules:
    """How many versions of a column a family keeps, and how long (ms, or NEVER)."""

    family: bytes
    versions: int = 1
    ttl: int = NEVER
    min_versions: int = 0


def shown(cells: pa.Table, rules: Collection[FamilyRules], now: int) -> tuple[Ints, Ints]:
    """Return the places of the cells that a scan shows at `now` (ms), in HBase's order, and when each expires (ms, or NEVER).

    `cells` has the columns of a table of changes up to sequence_id, and `cell`. Of cells with one sequence id, the one with the
    larger number in `cell` counts. Families without rules are not shown.
    """
    order = pc.sort_indices(cells, sort_keys=_ORDER)  # nulls last
    cells = cells.select(["row", "family", "qualifier", "timestamp", "type", "tags"]).take(order).combine_chunks()
    timestamps, own_end = _ints(cells["timestamp"]), _own_ends(cells)
    types = cells["type"].to_numpy()
    new_row_family = changes_in(cells["row"]) | changes_in(cells["family"])
    new_column = new_row_family | changes_in(cells["qualifier"])
    new_version = new_column | changes_in(cells["timestamp"])
    families, columns, versions = (np.cumsum(each) - 1 for each in (new_row_family, new_column, new_version))

    lives = own_end >= now
    marker = {kind: lives & (types == kind.hbase_name) for kind in MARKERS}
    hidden = _up_to(families, timestamps, marker[CellType.DELETE_FAMILY])
    hidden |= _up_to(columns, timestamps, marker[CellType.DELETE_COLUMN])
    hidden |= np.isin(versions, versions[marker[CellType.DELETE]])
    hidden |= _at(families, timestamps, marker[CellType.DELETE_FAMILY_VERSION])

    each_rules = _rules_of(cells["family"], rules)
    is_marker = np.isin(types, [kind.hbase_name for kind in MARKERS])
    left = np.flatnonzero(lives & ~hidden & ~is_marker & each_rules.known)
    left = left[_firsts(versions[left])]
    rank = ranks(columns[left])
    protected = rank < each_rules.min_versions[left]
    ends = np.minimum(own_end[left], np.where(protected, NEVER, _plus(timestamps[left], each_rules.ttl[left])))
    kept = (rank < each_rules.versions[left]) & (ends >= now)
    return order.to_numpy()[left[kept]], ends[kept]


@dataclass(frozen=True)
class _EachRules:
    known: Flags
    versions: Ints
    min_versions: Ints
    ttl: Ints


def _rules_of(families: pa.ChunkedArray, rules: Collection[FamilyRules]) -> _EachRules:
    """Return the rules of the family of each cell."""
    at = pc.index_in(families, value_set=pa.array([each.family for each in rules], pa.binary()))
    known = pc.is_valid(at).to_numpy()
    place = pc.fill_null(at, len(rules)).to_numpy()
    of_each = [*rules, FamilyRules(b"")]
    return _EachRules(
        known,
        np.array([each.versions for each in of_each])[place],
        np.array([each.min_versions for each in of_each])[place],
        np.array([each.ttl for each in of_each])[place],
    )


def _ints(column: pa.ChunkedArray) -> Ints:
    found: Ints = column.to_numpy()
    return found


def changes_in(column: pa.ChunkedArray) -> Flags:
    """Return for each value whether it differs from the one before; True for the first."""
    found = np.ones(len(column), dtype=bool)
    if len(column) > 1:
        found[1:] = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy()
    return found


def _up_to(groups: Ints, timestamps: Ints, marker: Flags) -> Flags:
    """Return which cells have the timestamp of a marker of their group, or an earlier one."""
    if not marker.any():
        return np.zeros(len(groups), dtype=bool)
    last, any_marker = np.full(groups[-1] + 1, _EARLIEST), np.zeros(groups[-1] + 1, dtype=bool)
    np.maximum.at(last, groups[marker], timestamps[marker])
    any_marker[groups[marker]] = True
    reached: Flags = any_marker[groups] & (timestamps <= last[groups])
    return reached


def _at(groups: Ints, timestamps: Ints, marker: Flags) -> Flags:
    """Return which cells have the timestamp of a marker of their group."""
    if not marker.any():
        return np.zeros(len(groups), dtype=bool)
    times = np.unique(timestamps[marker])
    place = np.minimum(np.searchsorted(times, timestamps), len(times) - 1)
    keys = groups * len(times) + place
    found: Flags = (times[place] == timestamps) & np.isin(keys, keys[marker])
    return found


def _firsts(groups: Ints) -> Flags:
    """Return which places are the first ones of their group; groups ascend."""
    found = np.ones(len(groups), dtype=bool)
    found[1:] = groups[1:] != groups[:-1]
    return found


def ranks(groups: Ints) -> Ints:
    """Return each place's number within its group, from 0 on; groups ascend."""
    places = np.arange(len(groups))
    return places - np.maximum.accumulate(np.where(_firsts(groups), places, 0)) if len(groups) else places


def _plus(timestamps: Ints, duration: Any) -> Ints:
    """Return timestamps and a duration; NEVER if that is later than any time."""
    duration = np.broadcast_to(duration, timestamps.shape)
    room = timestamps <= NEVER - np.where(timestamps > 0, duration, 0)
    return np.where((duration < NEVER) & room, np.where(room, timestamps, 0) + np.where(duration < NEVER, duration, 0), NEVER)


def _own_ends(cells: pa.Table) -> Ints:
    """Return until when each cell lives by its own TTL (ms, or NEVER)."""
    ends = np.full(cells.num_rows, NEVER)
    tagged = np.flatnonzero(pc.greater_equal(pc.binary_length(cells["tags"]), MIN_TTL_TAG).to_numpy())
    if tagged.size:
        ttl = np.array([_ttl(tags) for tags in cells["tags"].take(pa.array(tagged)).to_pylist()])
        ends[tagged] = _plus(_ints(cells["timestamp"])[tagged], ttl)
    return ends


def _ttl(tags: bytes) -> int:
    """Return the TTL among a cell's tags (ms); NEVER without one. A tag is a length of two bytes, a type, and its value."""
    at = 0
    while at + 3 <= len(tags):
        length = int.from_bytes(tags[at : at + 2], "big")
        if tags[at + 2] == TagType.TTL and length == 9 and at + 11 <= len(tags):
            return max(0, int.from_bytes(tags[at + 3 : at + 11], "big", signed=True))
        at += 2 + length
    return NEVER
