"""Merges the sorted runs of one store into the cells of its file.

Of cells with equal keys the merge writes only the latest: the cell with the largest sequence id, or else the cell of the last
run. In a memstore, this cell would replace the cells of its own edit. Cells of other edits would stay there, but no scan shows
them and the next flush drops them. There is one exception. A cell with a TTL of its own stops hiding earlier edits once it
expires, so the latest of these is written after it, as HBase does: in a file, the first of the cells with one key counts. If it
is not known which cell is the latest, the merge ends with OrderUnknown.

Runs may lie anywhere. A part of each run is in memory, and a tournament of all runs finds the next cell. It is Knuth's tree of
losers: each inner node holds the run that lost there, so a run that has moved on meets only the losers on its way to the root.

The order of cells with one key is known if their sequence ids and write times agree on it.

The sequence ids of a source's region start again when its table is dropped and created again, truncated, or restored from a
snapshot. Then the cell with the larger sequence id may belong to the table's earlier life, and be the earlier edit. Write times
go on growing. So the order of two edits is known if the edit with the larger sequence id was not written earlier. It is also
known if both numbers are equal: then it is one edit. Otherwise either the sequence ids or the clocks are wrong. Cells with the
same value and tags may have any order.

Cells with one key come by falling sequence ids. Each is compared with all cells of its key that have been **written**:

- Without a TTL, this is one cell, which hides all others. The order among the others makes no difference. A comparison of
  neighbours alone would not do: if the second cell has the first cell's content and was written later than both others, it would
  hide the contradiction between the first and the third.
- A cell with a TTL has others behind it. For the same reason, a comparison with the last of them alone would not do. It is enough
  to know two times: the lowest write time of all, and the lowest of the cells whose content differs from the last cell's. When a
  cell of other content is written behind them, the first time becomes the second: a cell among them with the new cell's content
  stands before a cell of other content, and so was not written earlier than that cell.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import INCOMPLETE
from walferry.base.kernels.types import Bytes, IntTable, OutBytes, OutInts, OutIntTable
from walferry.base.kernels.write import copy_bytes
from walferry.hbase.hfiles.cells import (
    BROKEN,
    EDIT,
    MAX_CELL,
    cell_end,
    checked_end,
    compare_keys,
    edit_of,
    has_same_content,
    has_tag,
)
from walferry.hbase.hfiles.errors import BrokenRun, OrderUnknown, TooManyRuns
from walferry.hbase.hfiles.keys import Key
from walferry.hbase.wal.cells import TagType
from walferry.hbase.wal.wal_batches import RandomAccess

MEMORY_BYTES = 64 << 20
CHUNK_BYTES = 1 << 20
MIN_PART_BYTES: Final = 16 << 10  # of a run: reading less at once would take longer than merging it
MAX_PART_BYTES: Final = 1 << 20
MAX_RUNS: Final = 1 << 14
NOTHING: Final = -1
LAST: Final = -2  # the previous cell lies in the array `last`
KNOWN: Final = -1
NUMBER: Final = 0
TIME: Final = 1
_NEVER: Final = (1 << 63) - 1


def merge_runs(
    runs: Sequence[RandomAccess], *, memory_bytes: int = MEMORY_BYTES, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Bytes]:
    """Yield the cells of all runs in order, as buffers of whole cells with about `chunk_bytes` bytes.

    Holds about `memory_bytes` of the runs, or 16 KB of each run if that is more, and the room for longer cells. Raises BrokenRun,
    OrderUnknown, TooManyRuns, and the errors of reading.
    """
    if len(runs) > MAX_RUNS:
        raise TooManyRuns(len(runs), MAX_RUNS)
    if runs:
        yield from _Merge(runs, memory_bytes, chunk_bytes).chunks()


class MergePart(enum.IntEnum):
    """The rows of the table of runs: the place of a run's part in the buffer."""

    BEGIN = 0
    ROOM = 1  # bytes from BEGIN on that belong to the run
    AT = 2  # the run's next cell; NOTHING once there is none
    END = 3  # the end of the bytes that have been read
    LEFT = 4  # the number of bytes not yet read


class MergeState(enum.IntEnum):
    """The elements of the state in which `merge_into` stops and goes on."""

    OUT = 0  # bytes of the chunk written so far
    BEFORE = 1  # the last cell in the chunk, or LAST, or NOTHING
    MOVED = 2  # the run that has moved on and not yet met the others; NOTHING if there is none
    RIVAL = 3  # the element of `written` that the next cell contradicts


class MergeStop(enum.IntEnum):
    """The reasons why `merge_into` stops."""

    DONE = 0
    FULL = 1  # the next cell does not fit into the chunk
    READ = 2  # the rest of the run MOVED must be read
    BROKEN = 3  # the run MOVED is at bytes that are not a cell
    CONTRADICTION = 4  # the next cell may be earlier or later than RIVAL


class Written(enum.IntEnum):
    """The rows of the table of cells that have been written with one key. Each row has a NUMBER, and a write TIME."""

    LAST = 0  # the last cell
    EARLIEST = 1  # the cell with the lowest write time
    OTHERS = 2  # the one with the lowest among cells whose content differs from the last cell's; _NEVER without such a cell


class _Merge:
    """The state of one merge."""

    def __init__(self, runs: Sequence[RandomAccess], memory_bytes: int, chunk_bytes: int) -> None:
        part = min(max(memory_bytes // len(runs), MIN_PART_BYTES), MAX_PART_BYTES)
        self._runs = runs
        self._chunk_bytes = chunk_bytes
        self._parts = np.zeros((len(MergePart), len(runs)), np.int64)
        self._parts[MergePart.LEFT] = [run.size for run in runs]
        self._parts[MergePart.ROOM] = np.minimum(part, self._parts[MergePart.LEFT])
        self._parts[MergePart.BEGIN] = np.cumsum(self._parts[MergePart.ROOM]) - self._parts[MergePart.ROOM]
        self._parts[MergePart.AT] = self._parts[MergePart.END] = self._parts[MergePart.BEGIN]
        self._buffer: Bytes = np.empty(int(self._parts[MergePart.ROOM].sum()), np.uint8)
        self._losers = np.full(len(runs), NOTHING, np.int64)
        self._state = np.array([0, NOTHING, NOTHING, KNOWN], np.int64)
        self._written = np.zeros((len(Written), 2), np.int64)

    def chunks(self) -> Iterator[Bytes]:
        """Yield the merged cells."""
        for run in range(len(self._runs)):
            while (stop := enter(self._buffer, self._parts, self._losers, run)) == MergeStop.READ:
                self._read(run)
            if stop == MergeStop.BROKEN:
                raise self._broken(run)
        last: Bytes = np.empty(0, np.uint8)
        out: Bytes = np.empty(self._chunk_bytes, np.uint8)
        while True:
            stop = merge_into(self._buffer, self._parts, self._losers, self._state, self._written, last, out)
            run = int(self._state[MergeState.MOVED])
            if stop == MergeStop.READ:
                self._read(run)
                continue
            if stop == MergeStop.BROKEN:
                raise self._broken(run)
            if stop == MergeStop.CONTRADICTION:
                raise self._contradiction()
            used = int(self._state[MergeState.OUT])
            if used:
                if (before := int(self._state[MergeState.BEFORE])) >= 0:
                    last = out[before:used].copy()
                self._state[[MergeState.OUT, MergeState.BEFORE]] = 0, LAST
                yield out[:used]
                out = np.empty(self._chunk_bytes, np.uint8)
            elif stop == MergeStop.FULL:
                out = np.empty(2 * len(out), np.uint8)
            if stop == MergeStop.DONE:
                return

    def _read(self, run: int) -> None:
        """Read more of a run: move the rest of its part to the part's beginning, and fill up the room."""
        begin, room, at, end, left = (int(number) for number in self._parts[:, run])
        if left == 0:
            raise self._broken(run, "the run ends within a cell")
        if at == begin and end == begin + room:
            self._widen(run)
            begin, room, at, end, left = (int(number) for number in self._parts[:, run])
        held = end - at
        self._buffer[begin : begin + held] = self._buffer[at:end].copy()
        length, offset = min(room - held, left), self._runs[run].size - left
        data = self._runs[run].read_at(offset, length)
        if len(data) != length:
            raise OSError(f"sorted run {run} gave {len(data)} bytes where {length} were asked for at byte {offset}")
        self._buffer[begin + held : begin + held + length] = np.frombuffer(data, np.uint8)
        self._parts[MergePart.AT :, run] = begin, begin + held + length, left - length

    def _widen(self, run: int) -> None:
        """Move a run whose next cell is longer than its room to twice the room, at the end of a larger buffer."""
        begin, room = int(self._parts[MergePart.BEGIN, run]), int(self._parts[MergePart.ROOM, run])
        if room > MAX_CELL + EDIT:
            raise self._broken(run, f"a cell is longer than {MAX_CELL} bytes")
        wider: Bytes = np.empty(len(self._buffer) + room, np.uint8)
        wider[: begin + room] = self._buffer[: begin + room]
        wider[begin + 2 * room :] = self._buffer[begin + room :]
        after = self._parts[MergePart.BEGIN] > begin
        self._parts[MergePart.BEGIN, after] += room
        self._parts[MergePart.END, after] += room
        self._parts[MergePart.AT, after & (self._parts[MergePart.AT] != NOTHING)] += room
        self._parts[MergePart.ROOM, run] = 2 * room
        self._buffer = wider

    def _broken(self, run: int, problem: str = "there is no cell here") -> BrokenRun:
        parts = self._parts[:, run]
        held = int(parts[MergePart.END] - parts[MergePart.AT])
        return BrokenRun(run, self._runs[run].size - int(parts[MergePart.LEFT]) - held, problem)

    def _contradiction(self) -> OrderUnknown:
        pos = int(self._parts[MergePart.AT, self._losers[0]])
        key, one = Key.at(self._buffer, pos), edit_of(self._buffer, cell_end(self._buffer, pos))
        number, time = self._written[self._state[MergeState.RIVAL]].tolist()
        return OrderUnknown(key.row, key.family, key.qualifier, one, (number, time))


@inlined
def rival_of(written: IntTable, number: int, time: int, holder: Bytes, at: int, buf: Bytes, pos: int) -> int:
    """Return a row of `written` whose order with the cell at `pos` is unknown, or KNOWN if there is no such row.

    The cell's edit has the sequence id `number` and write time `time`. `holder[at:]` is the last cell written with its key.
    """
    is_other_edit = number == written[Written.LAST, NUMBER] and time != written[Written.LAST, TIME]
    if time <= written[Written.EARLIEST, TIME] and not is_other_edit:
        return KNOWN
    if has_same_content(holder, at, buf, pos):
        return int(Written.OTHERS.value) if time > written[Written.OTHERS, TIME] else KNOWN
    return int(Written.LAST.value) if is_other_edit else int(Written.EARLIEST.value)


@inlined
def _put(written: OutIntTable, row: int, number: int, time: int) -> None:
    written[row, NUMBER], written[row, TIME] = number, time


@inlined
def note_first(written: OutIntTable, number: int, time: int) -> None:
    """Note that a cell is written with a new key."""
    _put(written, Written.LAST, number, time)
    _put(written, Written.EARLIEST, number, time)
    written[Written.OTHERS, TIME] = _NEVER


@inlined
def note_next(written: OutIntTable, number: int, time: int, is_same: bool) -> None:
    """Note that a cell with the last cell's key is written. `is_same`: it also has the last cell's content."""
    if not is_same:
        _put(written, Written.OTHERS, written[Written.EARLIEST, NUMBER], written[Written.EARLIEST, TIME])
    if time < written[Written.EARLIEST, TIME]:
        _put(written, Written.EARLIEST, number, time)
    _put(written, Written.LAST, number, time)


@inlined
def _settle(buffer: Bytes, parts: OutIntTable, run: int) -> int:
    """Return DONE if a run's next cell is in memory or the run is at its end, and otherwise READ or BROKEN."""
    at, end = parts[MergePart.AT, run], parts[MergePart.END, run]
    if at == NOTHING:
        return int(MergeStop.DONE.value)
    if at == end and parts[MergePart.LEFT, run] == 0:
        parts[MergePart.AT, run] = NOTHING
        return int(MergeStop.DONE.value)
    after = checked_end(buffer, at, end)
    if after == BROKEN:
        return int(MergeStop.BROKEN.value)
    if after == INCOMPLETE or after + EDIT > end:
        return int(MergeStop.READ.value)
    return int(MergeStop.DONE.value)


@inlined
def _is_before(buffer: Bytes, parts: IntTable, a: int, b: int) -> bool:
    """Return whether the next cell of run `a` comes before the next cell of another run `b`."""
    i, j = parts[MergePart.AT, a], parts[MergePart.AT, b]
    if i == NOTHING or j == NOTHING:
        return bool(j == NOTHING)
    difference = compare_keys(buffer, i, buffer, j)
    if difference != 0:
        return difference < 0
    (a_number, _), (b_number, _) = edit_of(buffer, cell_end(buffer, i)), edit_of(buffer, cell_end(buffer, j))
    return a_number > b_number if a_number != b_number else a > b


@inlined
def _play(buffer: Bytes, parts: IntTable, losers: OutInts, run: int) -> None:
    """Let a run meet the losers on its way to the root, and enter the winner there, or at the first node where no run is yet."""
    node = (run + losers.size) >> 1
    while node > 0 and losers[node] != NOTHING:
        if _is_before(buffer, parts, losers[node], run):
            losers[node], run = run, losers[node]
        node >>= 1
    losers[node] = run


@unmanaged
def enter(buffer: Bytes, parts: OutIntTable, losers: OutInts, run: int) -> int:
    """Let a run enter: losers stay at their nodes, the winner waits at an empty one. Returns a MergeStop: DONE on entry."""
    stop = _settle(buffer, parts, run)
    if stop == MergeStop.DONE:
        _play(buffer, parts, losers, run)
    return stop


@unmanaged
def merge_into(
    buffer: Bytes, parts: OutIntTable, losers: OutInts, state: OutInts, written: OutIntTable, last: Bytes, out: OutBytes
) -> int:
    """Write the next cells to `out`. Returns a MergeStop. `last` is the last cell of the previous chunk."""
    if state[MergeState.MOVED] != NOTHING:
        stop = _settle(buffer, parts, state[MergeState.MOVED])
        if stop != MergeStop.DONE:
            return stop
        _play(buffer, parts, losers, state[MergeState.MOVED])
        state[MergeState.MOVED] = NOTHING
    while True:
        run = losers[0]
        pos = parts[MergePart.AT, run]
        if pos == NOTHING:
            return int(MergeStop.DONE.value)
        after = cell_end(buffer, pos)
        number, time = edit_of(buffer, after)
        holder = last if state[MergeState.BEFORE] == LAST else out
        at = max(state[MergeState.BEFORE], 0)
        has_same_key = state[MergeState.BEFORE] != NOTHING and compare_keys(holder, at, buffer, pos) == 0
        is_hidden = False
        if has_same_key:
            state[MergeState.RIVAL] = rival_of(written, number, time, holder, at, buffer, pos)
            if state[MergeState.RIVAL] != KNOWN:
                return int(MergeStop.CONTRADICTION.value)
            is_hidden = number == written[Written.LAST, NUMBER] or not has_tag(holder, at, TagType.TTL)
        if not is_hidden:
            to = state[MergeState.OUT]
            if to + after - pos > out.size:
                return int(MergeStop.FULL.value)
            if has_same_key:
                note_next(written, number, time, has_same_content(holder, at, buffer, pos))
            else:
                note_first(written, number, time)
            state[MergeState.BEFORE] = to
            state[MergeState.OUT] = copy_bytes(out, to, buffer, pos, after - pos)
        parts[MergePart.AT, run] = after + EDIT
        stop = _settle(buffer, parts, run)
        if stop != MergeStop.DONE:
            state[MergeState.MOVED] = run
            return stop
        _play(buffer, parts, losers, run)
