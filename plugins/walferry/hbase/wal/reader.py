"""Reads a WAL file as a series of windows: buffers that hold whole entries, with their index.

The caller opens files and says where they lie. Nothing here knows about file systems.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from walferry.hbase.wal import torn
from walferry.hbase.wal.bounds import Bounds, WalBytes
from walferry.hbase.wal.compressed_windows import compressed_windows
from walferry.hbase.wal.errors import (
    WalCorruptError,
    WalError,
    WalPositionError,
    WalTornError,
    WalTruncatedError,
    WalUnclosedError,
)
from walferry.hbase.wal.header import EMPTY_TRAILER, MAGIC, MAX_HEADER_BYTES, Header, parse_header
from walferry.hbase.wal.uncompressed_windows import stage_of, uncompressed_windows
from walferry.hbase.wal.windows import WINDOW_BYTES, PartialTail, RandomAccess, UnwrapKey, Window, WindowsToEnd


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
    """Yield the entries of a closed WAL from `position` on, in windows of about `window_bytes` bytes that are never empty.

    `path` is what errors call the file. Position 0 means the first entry. An entry that is larger than a window gets a larger
    one. The windows of an encrypted WAL have its entries as those of a plain one; `unwrap_key` gets its key.

    A file that ends inside an entry or inside its header ends with WalTruncatedError, or silently if `partial_tail` is "stop". A
    trailer that was written only in part is not an error. An entry was not cut off, and is an error, if another entry begins
    within what there is of it. As with every error, the windows before it have been yielded by then.

    The trailer is what follows the last entry. If the file's last bytes look like one but lie within an entry, they belong to the
    entry. A caller that considers the file closed because of them sets `trailer_required`, and gets a WalUnclosedError in that
    case, after the whole entries.

    Raises WalCorruptError, WalTruncatedError, WalUnsupportedError, WalPositionError, WalKeyError, what `file` raises, and OSError
    if `file` gives fewer bytes than there are.
    """
    wal = WalBytes(file, path)
    windows = _read_windows(wal, position, window_bytes, partial_tail, unwrap_key, trailer_required)
    if not trailer_required:
        yield from windows
        return
    unclosed = "the file ends here like a closed one, but these bytes are part of an entry"
    try:
        closed = yield from windows
    except (WalTruncatedError, WalTornError) as error:
        raise WalUnclosedError(path, file.size - len(EMPTY_TRAILER), f"{unclosed}, the one at byte {error.offset}") from error
    if not closed:
        raise WalUnclosedError(path, file.size - len(EMPTY_TRAILER), unclosed)


def _read_windows(
    wal: WalBytes,
    position: int,
    window_bytes: int,
    partial_tail: PartialTail,
    unwrap_key: UnwrapKey | None,
    trailer_required: bool,
) -> WindowsToEnd:
    header = _header(wal, position, partial_tail, trailer_required)
    if header is None:
        return False
    everything = Bounds.of(wal, header.first_entry)
    first_entry, last = header.first_entry, wal.size if everything.trailer is None else everything.trailer
    start = position or first_entry
    if start == wal.size and not trailer_required:  # some releases of HBase register the file's length after reading the trailer
        return False

    def read(part: Bounds, partial_tail: PartialTail) -> WindowsToEnd:
        if header.compression is None:
            stage = stage_of(header, wal.path, unwrap_key)
            return uncompressed_windows(wal, part, window_bytes, partial_tail, stage)
        return compressed_windows(wal, header.compression, part, window_bytes, partial_tail)

    if start > last and (start < wal.size or trailer_required):
        closed = _is_closed(read(everything, "error"))
        if start == wal.size or (trailer_required and not closed):
            return closed
        last = last if closed else wal.size
    if not first_entry <= start <= last:
        raise WalPositionError(wal.path, position, f"the entries of this file lie between bytes {first_entry} and {last}")
    if start == last:
        return last == everything.trailer
    return (yield from read(replace(everything, start=start), partial_tail))


def _header(wal: WalBytes, position: int, partial_tail: PartialTail, trailer_required: bool) -> Header | None:
    """The file's header, or None if the file ends within it and the caller accepts that."""
    wanted = min(wal.size, MAX_HEADER_BYTES)
    head = wal.read_some(0, wanted)
    try:
        return parse_header(head.tobytes(), wal.path)
    except WalTruncatedError:
        if len(head) < wanted:
            wal.read(0, wanted)  # raises what it is that cannot be had
        if position > wal.size and not trailer_required:
            raise WalPositionError(wal.path, position, f"the file ends at byte {wal.size}, within its header") from None
        if any(torn.find_entry(head, 0, hints) != torn.NONE for hints in (torn.KeyHints(), torn.KeyHints(compressed=True))):
            reason = "the header claims to go on beyond the end of the file, but the file has entries"
            raise WalCorruptError(wal.path, len(MAGIC), reason) from None
        if partial_tail == "stop" and not trailer_required:
            return None
        raise


def _is_closed(windows: WindowsToEnd) -> bool:
    """Tell whether the entries end at the trailer, as far as they can be read."""
    try:
        while True:
            next(windows)
    except StopIteration as end:
        return bool(end.value)
    except WalError:
        return False
