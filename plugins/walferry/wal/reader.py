"""A WAL file as a series of windows: buffers that hold whole entries, with their index.

The caller opens files and says where they lie; nothing here knows of file systems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Literal, Protocol

import numpy as np

from walferry.wal import torn
from walferry.wal.compressed import Expanded, Expander
from walferry.wal.encrypted import MAX_SEALED_ENTRY_BYTES, Decryption
from walferry.wal.errors import WalCorruptError, WalError, WalKeyError, WalOverrunError, WalPositionError, WalTruncatedError
from walferry.wal.header import (
    EMPTY_TRAILER,
    MAGIC,
    MAX_HEADER_BYTES,
    TAIL_BYTES,
    Compression,
    Header,
    is_partial_trailer,
    parse_header,
    trailer_start,
)
from walferry.wal.scan import MAX_KEY_BYTES, Bytes, EntryIndex, Ints, scan_entries

WINDOW_BYTES = 8 << 20
MIN_ENTRY_BYTES = 16  # fewer have no WALKey; the next entry cannot begin before
MAX_WINDOW_BYTES = MAX_SEALED_ENTRY_BYTES + MAX_KEY_BYTES + 16  # encrypted entries are the longest in the file

UnwrapKey = Callable[[bytes], bytes]
"""The key of a WAL, from what its header has of it. Raises ValueError, whose text says what is missing and never shows a key."""
PartialTail = Literal["error", "stop"]


class RandomAccess(Protocol):
    """An open file. `size` is its length in bytes when it was opened."""

    @property
    def size(self) -> int: ...

    def read_at(self, offset: int, length: int) -> bytes | memoryview:
        """`length` bytes from `offset` on; fewer only at the end of the file. The caller may keep what it gets."""
        ...


@dataclass(frozen=True)
class Window:
    """Whole entries of a file. Offsets in `index` count from the start of `buf`.

    `buf` lies at offset `base` of the file, or, if the file's own bytes are others, `file_start` and `file_end` are the file
    offsets of each entry.
    """

    buf: Bytes
    base: int
    index: EntryIndex
    file_start: Ints | None = None
    file_end: Ints | None = None

    @property
    def positions(self) -> Ints:
        """File offset of each entry: the position from which reading would begin with it."""
        return self.index.entry_start + self.base if self.file_start is None else self.file_start

    @property
    def next_positions(self) -> Ints:
        """File offset just after each entry: the position to register once the entry has been dealt with."""
        return self.index.cells_end + self.base if self.file_end is None else self.file_end

    def entry_offset(self, entry: int) -> int:
        """File offset of an entry."""
        return int(self.positions[entry])

    def until(self, offset: int) -> Window:
        """The entries that end at or before an offset of the file; maybe none."""
        count = int(np.searchsorted(self.next_positions, offset, side="right"))
        return self.between(0, count)

    def between(self, first: int, last: int) -> Window:
        """The entries `first` to `last`, the latter not among them."""
        index = EntryIndex(*(getattr(self.index, f.name)[first:last] for f in fields(EntryIndex)))
        starts, ends = (None if offsets is None else offsets[first:last] for offsets in (self.file_start, self.file_end))
        return Window(self.buf, self.base, index, starts, ends)


@dataclass(frozen=True)
class _Part:
    """What was made of a range of the file: offsets in the file, but for `window`'s own."""

    window: Window
    consumed: int  # where an unfinished or broken entry begins
    problem: tuple[int, str] | None  # where and what
    need: int  # end of the range at which one can learn more of an unfinished entry; `consumed` if there is none


_Stage = Callable[[Bytes, int], _Part]  # from bytes of the file and their offset in it


def read_windows(
    file: RandomAccess,
    path: str,
    position: int,
    *,
    window_bytes: int = WINDOW_BYTES,
    partial_tail: PartialTail,
    unwrap_key: UnwrapKey | None = None,
) -> Iterator[Window]:
    """The entries of a closed WAL from `position` on, in windows of about `window_bytes` bytes that are never empty.

    `path` is what errors call the file. Position 0 means the first entry. An entry larger than a window gets a larger one. A
    file that ends inside an entry or inside its header ends with WalTruncatedError, or without a word if `partial_tail` is
    "stop"; what comes before has been handed out by then, as with every error. A trailer of which only a part was written is
    no error; an entry with another one inside of what there is of it was not cut off, and is one. The windows of an encrypted
    WAL have its entries as those of a plain one; `unwrap_key` gets its key.

    Raises WalCorruptError, WalTruncatedError, WalUnsupportedError, WalPositionError, WalKeyError, what `file` raises, and
    OSError if that gives fewer bytes than there are.
    """
    head = _read(file, path, 0, min(file.size, MAX_HEADER_BYTES))
    try:
        header = parse_header(head.tobytes(), path)
    except WalTruncatedError:
        if position > file.size:
            raise WalPositionError(path, position, f"the file ends at byte {file.size}, within its header") from None
        if any(torn.find_entry(head, 0, keys) != torn.NONE for keys in (torn.Keys(), torn.Keys(compressed=True))):
            raise WalCorruptError(path, len(MAGIC), "the header claims to go on beyond the file, which has entries") from None
        if partial_tail == "stop":
            return
        raise
    first_entry, end = header.first_entry, _entries_end(file, path)
    start = position or first_entry
    if start == file.size:  # some releases of HBase register the file's length once the trailer is read
        return
    if not first_entry <= start <= end:
        raise WalPositionError(path, position, f"the entries of this file lie between bytes {first_entry} and {end}")
    bounds = (first_entry, start, end)
    if start == end:
        return
    if header.compression is None:
        yield from _windows(file, path, bounds, window_bytes, partial_tail, _stage(header, path, unwrap_key))
    else:
        yield from _expanded_windows(file, path, header.compression, bounds, window_bytes, partial_tail)


def _expanded_windows(
    file: RandomAccess,
    path: str,
    compression: Compression,
    bounds: tuple[int, int, int],
    window_bytes: int,
    partial_tail: PartialTail,
) -> Iterator[Window]:
    """As `_windows`, of a compressed file: all of it is read up to `start`, for the sake of the dictionaries."""
    pos, start, end = bounds
    expander, length = Expander(path, compression, wanted=start, size=end - pos), window_bytes
    while True:
        buf = _read(file, path, pos, min(length, end - pos))
        at_end = pos + len(buf) == end
        expanding = expander.feed(buf, pos, at_end)
        while True:
            try:  # only this: what is wrong with expanded entries is not the file's end
                expanded = next(expanding, None)
            except WalCorruptError as e:
                rest = pos + expander.consumed
                if e.offset == rest and end == file.size and not expander.inside and _is_partial_trailer(file, path, rest):
                    return
                raise
            if expanded is None:
                break
            yield from _wanted(expanded, start, path)
        pos += expander.consumed
        if at_end:
            break
        length = max(window_bytes, expander.need - expander.consumed, 0 if expander.consumed else 2 * len(buf))
    if not expander.inside and (pos == end or (end == file.size and _is_partial_trailer(file, path, pos))):
        return
    entry = expander.entry_start if expander.inside else pos
    keys = torn.Keys.of(expander.dictionaries)
    error = _unfinished(file, path, entry, pos + expander.need - expander.consumed, end, keys)
    if partial_tail == "error" or not isinstance(error, WalTruncatedError):
        raise error


def _wanted(expanded: Expanded, start: int, path: str) -> Iterator[Window]:
    """The entries from file offset `start` on. Raises WalPositionError if it lies within one, WalCorruptError."""
    first = int(np.searchsorted(expanded.file_start, start))
    if first and expanded.file_end[first - 1] > start:
        before = int(expanded.file_start[first - 1])
        raise WalPositionError(path, start, f"no entry begins here, but one at byte {before} that goes on beyond")
    scan = scan_entries(expanded.buf, 0, len(expanded.buf))
    found, expected = np.append(scan.index.entry_start, scan.consumed), np.append(expanded.start, len(expanded.buf))
    count = min(len(found), len(expected))
    whole = int(np.append(np.flatnonzero(found[:count] != expected[:count]), count)[0]) - 1  # begin and end where they should
    window = Window(expanded.buf, 0, scan.index, expanded.file_start, expanded.file_end)
    if first < whole:
        yield window.between(first, whole)
    if whole < len(expanded.start):
        entry = int(expanded.file_start[max(whole, 0)])
        reason = scan.problem.reason if scan.problem else "its cells do not end where they should"
        raise WalCorruptError(path, entry, f"{reason} (once expanded, in the entry that begins here)")


def _windows(
    file: RandomAccess, path: str, bounds: tuple[int, int, int], window_bytes: int, partial_tail: PartialTail, stage: _Stage
) -> Iterator[Window]:
    first_entry, start, end = bounds
    pos, length = start, window_bytes
    while pos < end:
        buf = _read(file, path, pos, min(length, end - pos))
        part = stage(buf, pos)
        if len(part.window.index):
            yield part.window
        base, pos, length = pos, part.consumed, window_bytes
        at_end = base + len(buf) == end
        if pos == end or (end == file.size and _is_partial_trailer(file, path, pos)):
            return
        if part.problem is None and not at_end:
            if pos == base:  # not even one entry: a larger window
                length = max(min(2 * len(buf), MAX_WINDOW_BYTES), part.need - base)
            continue
        if pos == start > first_entry:
            _require_boundary(file, path, first_entry, start, window_bytes, stage)
        error = _error(file, path, part, end, torn.Keys(plain_cells=stage is _plain))
        if partial_tail == "stop" and isinstance(error, WalTruncatedError):
            return
        raise error


def _stage(header: Header, path: str, unwrap_key: UnwrapKey | None) -> _Stage:
    """What makes windows of the file's bytes. Raises WalKeyError."""
    if header.wrapped_key is None:
        return _plain
    if unwrap_key is None:
        raise WalKeyError(path, 0, "the WAL is encrypted, and no key provider is given to decrypt it with")
    try:
        decryption = Decryption(unwrap_key(header.wrapped_key))
    except ValueError as e:
        raise WalKeyError(path, 0, f"the WAL is encrypted, and its key cannot be had: {e}") from e

    def decrypted(buf: Bytes, base: int) -> _Part:
        found = decryption.entries(buf)
        window = Window(found.buf, base, found.index, found.start + base, found.end + base)
        problem = None if found.problem is None else (base + found.problem[0], found.problem[1])
        return _Part(window, base + found.consumed, problem, base + found.need)

    return decrypted


def _plain(buf: Bytes, base: int) -> _Part:
    scan = scan_entries(buf, 0, len(buf))
    problem = None if scan.problem is None else (base + scan.problem.offset, scan.problem.reason)
    return _Part(Window(buf, base, scan.index), base + scan.consumed, problem, base + scan.need)


def _entries_end(file: RandomAccess, path: str) -> int:
    """Where the trailer begins, or the end of a file that has none."""
    tail = _read(file, path, max(0, file.size - TAIL_BYTES), min(file.size, TAIL_BYTES))
    start = trailer_start(tail.tobytes(), file.size)
    return file.size if start is None else start


def _is_partial_trailer(file: RandomAccess, path: str, offset: int) -> bool:
    rest = file.size - offset
    return 0 < rest < len(EMPTY_TRAILER) and is_partial_trailer(_read(file, path, offset, rest).tobytes())


def _read(file: RandomAccess, path: str, offset: int, length: int) -> Bytes:
    buf = np.frombuffer(file.read_at(offset, length), dtype=np.uint8)
    if len(buf) < length:  # never the file's end, which was known when it was opened: nothing may be taken for read
        raise OSError(f"{path} at byte {offset}: {len(buf)} of {length} bytes were read, of a file of {file.size}. Try again")
    return buf


def _error(file: RandomAccess, path: str, part: _Part, end: int, keys: torn.Keys) -> WalError:
    """What stopped the reading of a window."""
    if part.problem is not None:
        offset, reason = part.problem
        return WalCorruptError(path, offset, f"{reason} (in the entry that begins at byte {part.consumed})")
    return _unfinished(file, path, part.consumed, part.need, end, keys)


def _unfinished(file: RandomAccess, path: str, entry: int, need: int, end: int, keys: torn.Keys) -> WalError:
    """What is wrong with an entry that goes on, at least to `need`, beyond the end of the entries."""
    if end < file.size:
        return WalOverrunError(path, entry, f"the entry goes on beyond byte {end}, where the file's trailer begins")
    for offset in range(entry, end, WINDOW_BYTES):
        buf = _read(file, path, offset, min(WINDOW_BYTES + torn.OVERLAP, end - offset))
        other = torn.find_entry(buf, MIN_ENTRY_BYTES if offset == entry else 0, keys)
        if other != torn.NONE:
            reason = f"the entry goes on beyond the end of the file, but another one begins at byte {offset + other}"
            return WalCorruptError(path, entry, f"{reason}: the file was not cut off here, this entry is damaged")
    return WalTruncatedError(path, entry, need - entry, end - entry)


def _require_boundary(
    file: RandomAccess, path: str, first_entry: int, position: int, window_bytes: int, stage: _Stage
) -> None:
    """Raise WalPositionError if an entry begins before `position` and ends after it."""
    before = first_entry
    try:
        for window in _windows(file, path, (first_entry, first_entry, position), window_bytes, "error", stage):
            before = int(window.next_positions[-1])
    except WalOverrunError as e:
        raise WalPositionError(path, position, f"no entry begins here, but one at byte {before} that goes on beyond") from e
    except WalError:
        return  # damage before the position says nothing of the position
