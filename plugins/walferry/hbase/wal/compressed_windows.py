"""Reads a compressed WAL as a series of windows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from walferry.hbase.wal.bounds import Bounds, WalBytes
from walferry.hbase.wal.codecs.compressed import Expanded, Expander
from walferry.hbase.wal.errors import WalCorruptError, WalPositionError, WalTruncatedError
from walferry.hbase.wal.header import Compression
from walferry.hbase.wal.scan import scan_entries
from walferry.hbase.wal.torn import KeyHints, overrun, unfinished, without_overrun
from walferry.hbase.wal.windows import PartialTail, Window, WindowsToEnd


def compressed_windows(
    wal: WalBytes, compression: Compression, bounds: Bounds, window_bytes: int, partial_tail: PartialTail
) -> WindowsToEnd:
    """Yield the entries within `bounds`. Returns whether they end where the file's trailer begins.

    The file is read from its first entry on, because the dictionaries need everything before `bounds.start`.
    """
    pos, start, end = bounds.first_entry, bounds.start, bounds.end
    expander, length = Expander(wal.path, compression, wanted=start, size=end - pos), window_bytes
    while True:
        wanted = min(length, end - pos)
        buf = wal.read_some(pos, wanted)
        at_end = pos + len(buf) == end
        expanding = expander.feed(buf, pos, at_end or len(buf) < wanted)  # what follows cannot be had
        while True:
            try:  # only around `feed`: an error of the expanded entries does not mean the file's end
                expanded = next(expanding, None)
            except WalCorruptError as error:
                rest = pos + expander.consumed
                if error.offset == rest and not expander.inside and bounds.is_end(wal, rest):
                    return rest == bounds.trailer
                if bounds.trailer is not None and expander.entry_start < bounds.trailer <= error.offset:
                    raise overrun(wal, expander.entry_start, bounds.trailer) from error
                raise
            if expanded is None:
                break
            yield from without_overrun(_wanted(expanded, start, wal.path), wal, bounds)
        pos += expander.consumed
        if at_end:
            break
        length = max(window_bytes, expander.need - expander.consumed, 0 if expander.consumed else 2 * len(buf))
    if not expander.inside and (pos == end or bounds.is_end(wal, pos)):
        return pos == bounds.trailer
    entry = expander.entry_start if expander.inside else pos
    hints = KeyHints.of(expander.dictionaries)
    problem = unfinished(wal, entry, pos + expander.need - expander.consumed, bounds, hints)
    if partial_tail == "error" or not isinstance(problem, WalTruncatedError):
        raise problem
    return False


def _wanted(expanded: Expanded, start: int, path: str) -> Iterator[Window]:
    """Yield the entries from file offset `start` on. Raises WalPositionError if it lies within an entry, and WalCorruptError."""
    first = int(np.searchsorted(expanded.file_start, start))
    if first and expanded.file_end[first - 1] > start:
        raise WalPositionError.within_entry(path, start, int(expanded.file_start[first - 1]))
    scan = scan_entries(expanded.buf, 0, len(expanded.buf))
    found, expected = np.append(scan.index.entry_start, scan.consumed), np.append(expanded.start, len(expanded.buf))
    count = min(len(found), len(expected))
    # This many entries begin and end where they should.
    whole = int(np.append(np.flatnonzero(found[:count] != expected[:count]), count)[0]) - 1
    window = Window(expanded.buf, 0, scan.index, expanded.file_start, expanded.file_end)
    if first < whole:
        yield window.between(first, whole)
    if whole < len(expanded.start):
        entry = int(expanded.file_start[max(whole, 0)])
        reason = scan.fault.reason if scan.fault else "its cells do not end where they should"
        raise WalCorruptError(path, entry, f"{reason} (once expanded, in the entry that begins here)")
