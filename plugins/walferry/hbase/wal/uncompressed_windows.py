"""Reads a plain or an encrypted WAL as a series of windows."""

from __future__ import annotations

from collections.abc import Callable

from walferry.base.errors import WalferryError
from walferry.base.kernels.read import Bytes
from walferry.hbase.wal.bounds import Bounds, WalBytes
from walferry.hbase.wal.codecs.encrypted import MAX_SEALED_ENTRY_BYTES, Decryption
from walferry.hbase.wal.errors import WalCorruptError, WalError, WalKeyError, WalOverrunError, WalPositionError, WalTruncatedError
from walferry.hbase.wal.header import EMPTY_TRAILER, Header
from walferry.hbase.wal.problems import MAX_KEY_BYTES
from walferry.hbase.wal.scan import scan_entries
from walferry.hbase.wal.torn import KeyHints, overrun, unfinished, without_overrun
from walferry.hbase.wal.windows import FilePart, PartialTail, UnwrapKey, Window, WindowsToEnd

MAX_WINDOW_BYTES = MAX_SEALED_ENTRY_BYTES + MAX_KEY_BYTES + 16  # encrypted entries are the longest in a file


Stage = Callable[[Bytes, int], FilePart]
"""Makes a part of the file's bytes and their offset in the file."""


def stage_of(header: Header, path: str, unwrap_key: UnwrapKey | None) -> Stage:
    """The stage for a file. Raises WalKeyError."""
    if header.wrapped_key is None:
        return plain
    if unwrap_key is None:
        raise WalKeyError(path, 0, "the WAL is encrypted, and no key provider is given to decrypt it with")
    try:
        return Decryption(unwrap_key(header.wrapped_key)).entries
    except (WalferryError, ValueError) as error:
        raise WalKeyError(path, 0, f"the WAL is encrypted, and its key cannot be had: {error}") from error


def plain(buf: Bytes, base: int) -> FilePart:
    """The stage for a plain WAL."""
    scan = scan_entries(buf, 0, len(buf))
    return FilePart(
        Window(buf, base, scan.index), base + scan.consumed, scan.fault and scan.fault.shifted(base), base + scan.need
    )


def uncompressed_windows(
    wal: WalBytes, bounds: Bounds, window_bytes: int, partial_tail: PartialTail, stage: Stage
) -> WindowsToEnd:
    """Yield the entries within `bounds`. Returns whether they end where the file's trailer begins."""
    start, end = bounds.start, bounds.end
    pos, length = start, window_bytes
    while pos < end:
        buf = wal.read_some(pos, min(length, end - pos))
        part = stage(buf, pos)
        if len(part.window.index):
            yield from without_overrun([part.window], wal, bounds)
        base, pos, length = pos, part.consumed, window_bytes
        at_end = base + len(buf) == end
        if pos == end or ((at_end or part.fault is not None) and bounds.is_end(wal, pos)):
            if bounds.first_entry < pos == start and end - pos < len(EMPTY_TRAILER):  # or they are zeros at an entry's end
                _require_boundary(wal, bounds, window_bytes, stage)
            return pos == bounds.trailer
        if part.fault is None and not at_end:
            if pos == base:  # not even one entry, so it needs a larger window
                length = max(min(2 * len(buf), MAX_WINDOW_BYTES), part.need - base)
                del buf, part  # it is read anew: do not hold it twice
            continue
        if pos == start > bounds.first_entry:
            _require_boundary(wal, bounds, window_bytes, stage)
        error = _error(wal, part, bounds, KeyHints(plain_cells=stage is plain))
        if partial_tail == "stop" and isinstance(error, WalTruncatedError):
            return False
        raise error
    return False


def _error(wal: WalBytes, part: FilePart, bounds: Bounds, hints: KeyHints) -> WalError:
    """The error that stopped the reading of a part."""
    fault = part.fault
    if fault is None:
        return unfinished(wal, part.consumed, part.need, bounds, hints)
    if bounds.trailer is not None and part.consumed < bounds.trailer <= fault.offset:  # no cell begins like a trailer
        return overrun(wal, part.consumed, bounds.trailer)
    return WalCorruptError(wal.path, fault.offset, f"{fault.reason} (in the entry that begins at byte {part.consumed})")


def _require_boundary(wal: WalBytes, bounds: Bounds, window_bytes: int, stage: Stage) -> None:
    """Raise WalPositionError if an entry begins before `bounds.start` and ends after it."""
    before, position = bounds.first_entry, bounds.start
    try:
        for window in uncompressed_windows(wal, Bounds(before, before, position), window_bytes, "error", stage):
            before = int(window.next_positions[-1])
    except WalOverrunError as error:
        raise WalPositionError.within_entry(wal.path, position, before) from error
    except WalError:
        return  # damage before the position says nothing about the position
