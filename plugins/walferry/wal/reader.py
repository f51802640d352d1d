"""A WAL file as a series of windows: buffers that hold whole entries, with their index.

The caller opens files and says where they lie; nothing here knows of file systems.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Literal, Protocol

import numpy as np

from walferry.errors import WalferryError
from walferry.kernels.read import Bytes, Ints
from walferry.wal import torn
from walferry.wal.codecs.compressed import Expanded, Expander
from walferry.wal.codecs.encrypted import MAX_SEALED_ENTRY_BYTES, Decryption
from walferry.wal.errors import (
    WalCorruptError,
    WalError,
    WalKeyError,
    WalOverrunError,
    WalPositionError,
    WalTornError,
    WalTruncatedError,
    WalUnclosedError,
)
from walferry.wal.header import (
    EMPTY_TRAILER,
    MAGIC,
    MAX_HEADER_BYTES,
    TAIL_BYTES,
    Compression,
    Header,
    ends_like_closed,
    is_partial_trailer,
    parse_header,
    trailer_start,
)
from walferry.wal.scan import MAX_KEY_BYTES, EntryIndex, scan_entries

WINDOW_BYTES = 8 << 20
MIN_ENTRY_BYTES = 16  # fewer have no WALKey; the next entry cannot begin before
MAX_WINDOW_BYTES = MAX_SEALED_ENTRY_BYTES + MAX_KEY_BYTES + 16  # encrypted entries are the longest in the file

UnwrapKey = Callable[[bytes], bytes]
"""The key of a WAL, from what its header has of it. Raises WalferryError, which says what is missing and shows no key."""
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
_Windows = Generator[Window, None, bool]  # which returns whether the entries end where the file's trailer begins


@dataclass(frozen=True)
class _Range:
    """Which of a file's bytes are read, `start` to `end`, and where its trailer begins if its last bytes are one."""

    first_entry: int
    start: int
    end: int
    trailer: int | None = None  # as HBase writes it: no entry can begin there
    other_trailer: int | None = None  # one with fields, where no entry begins


def read_windows(
    file: RandomAccess,
    path: str,
    position: int,
    *,
    window_bytes: int = WINDOW_BYTES,
    partial_tail: PartialTail,
    unwrap_key: UnwrapKey | None = None,
    trailer_required: bool = False,
) -> Iterator[Window]:
    """The entries of a closed WAL from `position` on, in windows of about `window_bytes` bytes that are never empty.

    `path` is what errors call the file. Position 0 means the first entry. An entry larger than a window gets a larger one. A
    file that ends inside an entry or inside its header ends with WalTruncatedError, or without a word if `partial_tail` is
    "stop"; what comes before has been handed out by then, as with every error. A trailer of which only a part was written is
    no error; an entry with another one inside of what there is of it was not cut off, and is one. The windows of an encrypted
    WAL have its entries as those of a plain one; `unwrap_key` gets its key.

    The trailer is what follows the last entry: where the file's last bytes look like one but lie within an entry, they are the
    entry's. A caller who takes the file for closed because of them says so (`trailer_required`), and gets a WalUnclosedError
    then, after the whole entries.

    Raises WalCorruptError, WalTruncatedError, WalUnsupportedError, WalPositionError, WalKeyError, what `file` raises, and
    OSError if that gives fewer bytes than there are.
    """
    windows = _read_windows(file, path, position, window_bytes, partial_tail, unwrap_key, trailer_required)
    if not trailer_required:
        yield from windows
        return
    unclosed = "the file ends here as a closed one does, but these bytes are part of an entry"
    try:
        closed = yield from windows
    except (WalTruncatedError, WalTornError) as e:
        raise WalUnclosedError(path, file.size - len(EMPTY_TRAILER), f"{unclosed}, the one at byte {e.offset}") from e
    if not closed:
        raise WalUnclosedError(path, file.size - len(EMPTY_TRAILER), unclosed)


def _read_windows(
    file: RandomAccess,
    path: str,
    position: int,
    window_bytes: int,
    partial_tail: PartialTail,
    unwrap_key: UnwrapKey | None,
    trailer_required: bool,
) -> _Windows:
    head = _read(file, path, 0, min(file.size, MAX_HEADER_BYTES))
    try:
        header = parse_header(head.tobytes(), path)
    except WalTruncatedError:
        if position > file.size and not trailer_required:
            raise WalPositionError(path, position, f"the file ends at byte {file.size}, within its header") from None
        if any(torn.find_entry(head, 0, keys) != torn.NONE for keys in (torn.Keys(), torn.Keys(compressed=True))):
            raise WalCorruptError(path, len(MAGIC), "the header claims to go on beyond the file, which has entries") from None
        if partial_tail == "stop" and not trailer_required:
            return False
        raise
    everything = _whole_range(file, path, header.first_entry)
    first_entry, last = header.first_entry, file.size if everything.trailer is None else everything.trailer
    start = position or first_entry
    if start == file.size and not trailer_required:  # some releases of HBase register the file's length once the trailer is read
        return False

    def read(part: _Range, partial_tail: PartialTail) -> _Windows:
        if header.compression is None:
            return _windows(file, path, part, window_bytes, partial_tail, _stage(header, path, unwrap_key))
        return _expanded_windows(file, path, header.compression, part, window_bytes, partial_tail)

    if start > last and (start < file.size or trailer_required):
        closed = _is_closed(read(everything, "error"))
        if start == file.size or (trailer_required and not closed):
            return closed
        last = last if closed else file.size
    if not first_entry <= start <= last:
        raise WalPositionError(path, position, f"the entries of this file lie between bytes {first_entry} and {last}")
    if start == last:
        return last == everything.trailer
    return (yield from read(replace(everything, start=start), partial_tail))


def _is_closed(windows: _Windows) -> bool:
    """Whether the entries end at the trailer, as far as they can be read."""
    try:
        while True:
            next(windows)
    except StopIteration as end:
        return bool(end.value)
    except WalError:
        return False


def _expanded_windows(
    file: RandomAccess,
    path: str,
    compression: Compression,
    bounds: _Range,
    window_bytes: int,
    partial_tail: PartialTail,
) -> _Windows:
    """As `_windows`, of a compressed file: all of it is read up to `start`, for the sake of the dictionaries."""
    pos, start, end = bounds.first_entry, bounds.start, bounds.end
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
                if e.offset == rest and not expander.inside and _is_end(file, path, rest, bounds):
                    return rest == bounds.trailer
                if bounds.trailer is not None and expander.entry_start < bounds.trailer <= e.offset:
                    raise _overrun(path, expander.entry_start, bounds.trailer) from e
                raise
            if expanded is None:
                break
            yield from _without_overrun(_wanted(expanded, start, path), path, bounds)
        pos += expander.consumed
        if at_end:
            break
        length = max(window_bytes, expander.need - expander.consumed, 0 if expander.consumed else 2 * len(buf))
    if not expander.inside and (pos == end or _is_end(file, path, pos, bounds)):
        return pos == bounds.trailer
    entry = expander.entry_start if expander.inside else pos
    keys = torn.Keys.of(expander.dictionaries)
    error = _unfinished(file, path, entry, pos + expander.need - expander.consumed, bounds, keys)
    if partial_tail == "error" or not isinstance(error, WalTruncatedError):
        raise error
    return False


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
    file: RandomAccess, path: str, bounds: _Range, window_bytes: int, partial_tail: PartialTail, stage: _Stage
) -> _Windows:
    start, end = bounds.start, bounds.end
    pos, length = start, window_bytes
    while pos < end:
        buf = _read(file, path, pos, min(length, end - pos))
        part = stage(buf, pos)
        if len(part.window.index):
            yield from _without_overrun([part.window], path, bounds)
        base, pos, length = pos, part.consumed, window_bytes
        at_end = base + len(buf) == end
        if pos == end or ((at_end or part.problem is not None) and _is_end(file, path, pos, bounds)):
            if bounds.first_entry < pos == start and end - pos < len(EMPTY_TRAILER):  # or zeros at an entry's end
                _require_boundary(file, path, bounds, window_bytes, stage)
            return pos == bounds.trailer
        if part.problem is None and not at_end:
            if pos == base:  # not even one entry: a larger window
                length = max(min(2 * len(buf), MAX_WINDOW_BYTES), part.need - base)
            continue
        if pos == start > bounds.first_entry:
            _require_boundary(file, path, bounds, window_bytes, stage)
        error = _error(file, path, part, bounds, torn.Keys(plain_cells=stage is _plain))
        if partial_tail == "stop" and isinstance(error, WalTruncatedError):
            return False
        raise error
    return False


def _without_overrun(windows: Iterable[Window], path: str, bounds: _Range) -> Iterator[Window]:
    """The windows. Raises WalOverrunError instead of an entry that ends within the trailer: only a damaged length lets it.

    It may end before the trailer's last byte, a P: that can be the first byte of the next entry, one whose key has 80 bytes.
    """
    for window in windows:
        trailer = bounds.trailer
        if trailer is None or not trailer < int(window.next_positions[-1]) < bounds.end - 1:
            yield window
            continue
        sound = window.until(trailer)
        if len(sound.index):
            yield sound
        raise _overrun(path, window.entry_offset(-1), trailer)


def _stage(header: Header, path: str, unwrap_key: UnwrapKey | None) -> _Stage:
    """What makes windows of the file's bytes. Raises WalKeyError."""
    if header.wrapped_key is None:
        return _plain
    if unwrap_key is None:
        raise WalKeyError(path, 0, "the WAL is encrypted, and no key provider is given to decrypt it with")
    try:
        decryption = Decryption(unwrap_key(header.wrapped_key))
    except (WalferryError, ValueError) as e:
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


def _whole_range(file: RandomAccess, path: str, first_entry: int) -> _Range:
    """All that follows the header."""
    tail = _read(file, path, max(0, file.size - TAIL_BYTES), min(file.size, TAIL_BYTES)).tobytes()
    trailer = file.size - len(EMPTY_TRAILER) if ends_like_closed(tail, file.size) else None
    if trailer is not None and trailer < first_entry:  # the header's last bytes
        trailer = None
    return _Range(first_entry, first_entry, file.size, trailer, trailer_start(tail, file.size))


def _is_end(file: RandomAccess, path: str, offset: int, bounds: _Range) -> bool:
    """Whether a trailer, or a part of one, is all that follows from `offset` on, where no entry begins."""
    if bounds.end < file.size:
        return False
    rest = file.size - offset
    if 0 < rest < len(EMPTY_TRAILER):
        return is_partial_trailer(_read(file, path, offset, rest).tobytes())
    return offset in (bounds.trailer, bounds.other_trailer)


def _read(file: RandomAccess, path: str, offset: int, length: int) -> Bytes:
    buf = np.frombuffer(file.read_at(offset, length), dtype=np.uint8)
    if len(buf) < length:  # never the file's end, which was known when it was opened: nothing may be taken for read
        raise OSError(f"{path} at byte {offset}: {len(buf)} of {length} bytes were read, of a file of {file.size}. Try again")
    return buf


def _error(file: RandomAccess, path: str, part: _Part, bounds: _Range, keys: torn.Keys) -> WalError:
    """What stopped the reading of a window."""
    if part.problem is not None:
        offset, reason = part.problem
        if bounds.trailer is not None and part.consumed < bounds.trailer <= offset:  # no cell begins like a trailer
            return _overrun(path, part.consumed, bounds.trailer)
        return WalCorruptError(path, offset, f"{reason} (in the entry that begins at byte {part.consumed})")
    return _unfinished(file, path, part.consumed, part.need, bounds, keys)


def _overrun(path: str, entry: int, trailer: int) -> WalOverrunError:
    return WalOverrunError(path, entry, _beyond(trailer))


def _beyond(trailer: int) -> str:
    return f"the entry goes on beyond byte {trailer}, where the file's trailer begins"


def _unfinished(file: RandomAccess, path: str, entry: int, need: int, bounds: _Range, keys: torn.Keys) -> WalError:
    """What is wrong with an entry that goes on, at least to `need`, beyond the end of the entries."""
    end = bounds.end
    if end < file.size:
        return _overrun(path, entry, end)
    for offset in range(entry, end, WINDOW_BYTES):
        buf = _read(file, path, offset, min(WINDOW_BYTES + torn.OVERLAP, end - offset))
        other = torn.find_entry(buf, MIN_ENTRY_BYTES if offset == entry else 0, keys)
        if other != torn.NONE:
            reason = f"the entry goes on beyond the end of the file, but another one begins at byte {offset + other}"
            return WalCorruptError(path, entry, f"{reason}: the file was not cut off here, this entry is damaged")
    if bounds.trailer is not None:
        return WalTornError(path, entry, _beyond(bounds.trailer), end - entry)
    return WalTruncatedError(path, entry, need - entry, end - entry)


def _require_boundary(file: RandomAccess, path: str, bounds: _Range, window_bytes: int, stage: _Stage) -> None:
    """Raise WalPositionError if an entry begins before `bounds.start` and ends after it."""
    before, position = bounds.first_entry, bounds.start
    try:
        for window in _windows(file, path, _Range(before, before, position), window_bytes, "error", stage):
            before = int(window.next_positions[-1])
    except WalOverrunError as e:
        raise WalPositionError(path, position, f"no entry begins here, but one at byte {before} that goes on beyond") from e
    except WalError:
        return  # damage before the position says nothing of the position
