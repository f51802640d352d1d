"""Sorts the positions of cells that lie anywhere in a buffer. Of cells with equal keys, the latest comes first.

A comparison that reads two cells misses the cache twice. So eight bytes stand for each cell's row: the bytes after the prefix
that all rows of the group share. Most comparisons need no more. A merge sort reads and writes the positions one after the other.
"""

from __future__ import annotations

from typing import Any, Final

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import common_bytes, read_int64, word_after
from walferry.base.kernels.types import Bytes, Int32s, Ints, OutInts, OutWords
from walferry.hbase.hfiles.cells import cell_end, compare_keys, row_of

_INSERTION: Final = 16  # up to this many positions are sorted by insertion


@unmanaged
def group_positions(groups: Int32s, positions: Ints, count: int, first: OutInts, grouped: OutInts) -> None:
    """Write the first `count` positions to `grouped` by group, each group backwards. Group g begins at `first[g]`."""
    first[:] = 0
    for i in range(count):
        first[groups[i] + 1] += 1
    for g in range(1, first.size):
        first[g] += first[g - 1]
    for i in range(count - 1, -1, -1):
        group = groups[i]
        grouped[first[group]] = positions[i]
        first[group] += 1
    for g in range(first.size - 1, 0, -1):  # each has become the beginning of the next group
        first[g] = first[g - 1]
    first[0] = 0


@inlined
def common_prefix(buf: Bytes, positions: Ints, start: int, end: int) -> int:
    """Return how many first bytes the rows of the cells at `positions[start:end]` share."""
    row, common = row_of(buf, positions[start])
    for i in range(start + 1, end):
        other, length = row_of(buf, positions[i])
        common = common_bytes(buf, row, buf, other, min(common, length))
    return common


@inlined
def _word_after(buf: Bytes, pos: int, skipped: int) -> Any:
    """Return eight bytes of a cell's row from `skipped` on as a number that sorts like them; zeros follow a row's end."""
    row, length = row_of(buf, pos)
    return word_after(buf, row, length, skipped)


@inlined
def _is_before(buf: Bytes, a: int, a_word: Any, b: int, b_word: Any) -> bool:
    """Return whether the cell at `a` must come before the cell at `b`. If they are equal, `b` comes first."""
    if a_word != b_word:
        return bool(a_word < b_word)
    difference = compare_keys(buf, a, buf, b)
    if difference != 0:
        return difference < 0
    return read_int64(buf, cell_end(buf, a)) > read_int64(buf, cell_end(buf, b))


@inlined
def _insert_all(buf: Bytes, positions: OutInts, words: OutWords, start: int, end: int) -> None:
    """Sort `positions[start:end]` by insertion."""
    for i in range(start + 1, end):
        pos, word = positions[i], words[i]
        k = i
        while k > start and _is_before(buf, pos, word, positions[k - 1], words[k - 1]):
            positions[k], words[k] = positions[k - 1], words[k - 1]
            k -= 1
        positions[k], words[k] = pos, word


@inlined
def _merge_halves(
    buf: Bytes, positions: Ints, words: OutWords, start: int, middle: int, end: int, to_positions: OutInts, to_words: OutWords
) -> None:
    """Merge the sorted `positions[start:middle]` and `positions[middle:end]` into `to_positions[start:end]`."""
    left, right = start, middle
    in_order = middle >= end or not _is_before(buf, positions[middle], words[middle], positions[middle - 1], words[middle - 1])
    for to in range(start, end):
        takes_left = left < middle and (
            in_order or right >= end or not _is_before(buf, positions[right], words[right], positions[left], words[left])
        )
        source = left if takes_left else right
        to_positions[to], to_words[to] = positions[source], words[source]
        if takes_left:
            left += 1
        else:
            right += 1


@unmanaged
def sort_positions(
    buf: Bytes, positions: OutInts, start: int, end: int, words: OutWords, other_positions: OutInts, other_words: OutWords
) -> None:
    """Sort `positions[start:end]`. An int64 follows each cell; of cells with equal keys, the larger number is the later cell.

    Cells with equal keys and numbers keep their order. The other arrays are as long as `positions`.
    """
    if end - start < 2:
        return
    skipped = common_prefix(buf, positions, start, end)
    for i in range(start, end):
        words[i] = _word_after(buf, positions[i], skipped)
    for i in range(start, end, _INSERTION):
        _insert_all(buf, positions, words, i, min(i + _INSERTION, end))
    width = _INSERTION
    while width < end - start:
        for i in range(start, end, 2 * width):
            middle = min(i + width, end)
            _merge_halves(buf, positions, words, i, middle, min(i + 2 * width, end), other_positions, other_words)
        for i in range(start, end):
            positions[i], words[i] = other_positions[i], other_words[i]
        width *= 2
