"""Reads a WAL file as a series of WAL batches: buffers with whole entries, and their index.

The caller opens the files. Nothing here knows about file systems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from walferry.base.errors import WalferryError
from walferry.base.kernels.types import Bytes
from walferry.hbase.wal.bounds import Bounds, WalBytes
from walferry.hbase.wal.codecs.compressed import Expanded, Expander
from walferry.hbase.wal.codecs.encrypted import MAX_SEALED_ENTRY_BYTES, Decryption
from walferry.hbase.wal.codecs.phoenix import begins_with_index, plain_entries
from walferry.hbase.wal.errors import (
    WalCorruptError,
    WalError,
    WalKeyError,
    WalOverrunError,
    WalPositionError,
    WalTornError,
    WalTruncatedError,
    WalUnclosedError,
)
from walferry.hbase.wal.header import EMPTY_TRAILER, MAGIC, MAX_HEADER_BYTES, Compression, Header, parse_header
from walferry.hbase.wal.problems import MAX_KEY_BYTES
from walferry.hbase.wal.scan import scan_entries
from walferry.hbase.wal.torn import NONE, KeyHints, find_entry, overrun, unfinished, without_overrun
from walferry.hbase.wal.wal_batches import (
    WAL_BATCH_BYTES,
    FilePart,
    PartialTail,
    RandomAccess,
    UnwrapKey,
    WalBatch,
    WalBatchesToEnd,
)

MAX_WAL_BATCH_BYTES = MAX_SEALED_ENTRY_BYTES + MAX_KEY_BYTES + 16  # encrypted entries are the longest in a file


Stage = Callable[[Bytes, int], FilePart]
"""Turns bytes of the file, and their offset in it, into a part."""


def read_wal_batches(
    file: RandomAccess,
    path: str,
    position: int,
    *,
    wal_batch_bytes: int = WAL_BATCH_BYTES,
    partial_tail: PartialTail,
    unwrap_key: UnwrapKey | None = None,
    trailer_required: bool = False,
) -> Iterator[WalBatch]:
    """Yield the entries of a closed WAL from `position` on, in non-empty batches of about `wal_batch_bytes` bytes.

    Errors call the file `path`. Position 0 means the first entry. A batch grows for an entry that is larger than it. The batches
    of an encrypted WAL contain plain entries; `unwrap_key` gets its key.

    A file that ends inside an entry or inside its header ends with WalTruncatedError, or silently if `partial_tail` is "stop". A
    trailer that was written only in part is not an error. If another entry begins within the unfinished entry's bytes, the file
    was not cut off there, and this raises an error in either case. Before any error, the batches before it have been yielded.

    The trailer follows the last entry. If the file's last bytes look like a trailer but lie within an entry, they belong to the
    entry. A caller that considers the file closed because of these bytes sets `trailer_required`, and then gets a
    WalUnclosedError after the whole entries.

    Raises WalCorruptError, WalTruncatedError, WalUnsupportedError, WalPositionError, WalKeyError, the errors of `file`, and
    OSError if `file` returns fewer bytes than it has.
    """
    wal = WalBytes(file, path)
    batches = _read_wal_batches(wal, position, wal_batch_bytes, partial_tail, unwrap_key, trailer_required)
    if not trailer_required:
        yield from batches
        return
    unclosed = "the file ends here like a closed one, but these bytes are part of an entry"
    try:
        closed = yield from batches
    except (WalTruncatedError, WalTornError) as error:
        raise WalUnclosedError(path, file.size - len(EMPTY_TRAILER), f"{unclosed}, the one at byte {error.offset}") from error
    if not closed:
        raise WalUnclosedError(path, file.size - len(EMPTY_TRAILER), unclosed)


def _read_wal_batches(
    wal: WalBytes,
    position: int,
    wal_batch_bytes: int,
    partial_tail: PartialTail,
    unwrap_key: UnwrapKey | None,
    trailer_required: bool,
) -> WalBatchesToEnd:
    header = _header(wal, position, partial_tail, trailer_required)
    if header is None:
        return False
    everything = Bounds.of(wal, header.first_entry)
    first_entry, last = header.first_entry, wal.size if everything.trailer is None else everything.trailer
    start = position or first_entry
    if start == wal.size and not trailer_required:  # some releases of HBase register the file's length after reading the trailer
        return False

    def read(part: Bounds, partial_tail: PartialTail) -> WalBatchesToEnd:
        if header.compression is None:
            stage = _stage_of(header, wal.path, unwrap_key)
            return _uncompressed_batches(wal, part, wal_batch_bytes, partial_tail, stage)
        return _compressed_batches(wal, header.compression, part, wal_batch_bytes, partial_tail)

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
    """Return the file's header, or None if the file ends within it and the caller accepts that."""
    wanted = min(wal.size, MAX_HEADER_BYTES)
    head = wal.read_some(0, wanted)
    try:
        return parse_header(head.tobytes(), wal.path)
    except WalTruncatedError:
        if len(head) < wanted:
            wal.read(0, wanted)  # raises the error of the unreadable bytes
        if position > wal.size and not trailer_required:
            raise WalPositionError(wal.path, position, f"the file ends at byte {wal.size}, within its header") from None
        if any(find_entry(head, 0, hints) != NONE for hints in (KeyHints(), KeyHints(compressed=True))):
            reason = "the header claims to go on beyond the end of the file, but the file has entries"
            raise WalCorruptError(wal.path, len(MAGIC), reason) from None
        if partial_tail == "stop" and not trailer_required:
            return None
        raise


def _is_closed(batches: WalBatchesToEnd) -> bool:
    """Return whether the entries end at the trailer, as far as they can be read."""
    try:
        while True:
            next(batches)
    except StopIteration as end:
        return bool(end.value)
    except WalError:
        return False


def _stage_of(header: Header, path: str, unwrap_key: UnwrapKey | None) -> Stage:
    """Return the stage for a file. Raises WalKeyError."""
    if header.wrapped_key is None:
        return without_indexes if header.phoenix else plain
    if unwrap_key is None:
        raise WalKeyError(path, 0, "the WAL is encrypted, and no key provider is given to decrypt it with")
    try:
        return Decryption(unwrap_key(header.wrapped_key)).entries
    except (WalferryError, ValueError) as error:
        raise WalKeyError(path, 0, f"the WAL is encrypted, and its key cannot be had: {error}") from error


def plain(buf: Bytes, base: int) -> FilePart:
    """Turn bytes of a plain WAL into a part: the stage for plain files."""
    scan = scan_entries(buf, 0, len(buf))
    fault = scan.fault and replace(scan.fault, offset=base + scan.fault.offset)
    return FilePart(WalBatch(buf, base, scan.index), base + scan.consumed, fault, base + scan.need)


def without_indexes(buf: Bytes, base: int) -> FilePart:
    """Turn bytes of a WAL in Phoenix's codec into a part: the stage for such files. Few of them contain indexes."""
    part = plain(buf, base)
    return plain_entries(buf, base) if part.fault and begins_with_index(buf, part.fault.offset - base) else part


def _uncompressed_batches(
    wal: WalBytes, bounds: Bounds, wal_batch_bytes: int, partial_tail: PartialTail, stage: Stage
) -> WalBatchesToEnd:
    """Yield the entries within `bounds`. Returns whether they end where the file's trailer begins."""
    start, end = bounds.start, bounds.end
    pos, length = start, wal_batch_bytes
    while pos < end:
        buf = wal.read_some(pos, min(length, end - pos))
        part = stage(buf, pos)
        if len(part.batch.index):
            yield from without_overrun([part.batch], wal, bounds)
        base, pos, length = pos, part.consumed, wal_batch_bytes
        at_end = base + len(buf) == end
        if pos == end or ((at_end or part.fault is not None) and bounds.is_end(wal, pos)):
            if bounds.first_entry < pos == start and end - pos < len(EMPTY_TRAILER):  # could be zeros ending an entry
                _require_boundary(wal, bounds, wal_batch_bytes, stage)
            return pos == bounds.trailer
        if part.fault is None and not at_end:
            if pos == base:  # the batch is too small for even one entry
                length = max(min(2 * len(buf), MAX_WAL_BATCH_BYTES), part.need - base)
                del buf, part  # the bytes are read again: do not hold them twice
            continue
        if pos == start > bounds.first_entry:
            _require_boundary(wal, bounds, wal_batch_bytes, stage)
        error = _error(wal, part, bounds, KeyHints(plain_cells=stage in (plain, without_indexes)))
        if partial_tail == "stop" and isinstance(error, WalTruncatedError):
            return False
        raise error
    return False


def _error(wal: WalBytes, part: FilePart, bounds: Bounds, hints: KeyHints) -> WalError:
    """Return the error that stopped the reading of a part."""
    fault = part.fault
    if fault is None:
        return unfinished(wal, part.consumed, part.need, bounds, hints)
    if bounds.trailer is not None and part.consumed < bounds.trailer <= fault.offset:  # no cell begins like a trailer
        return overrun(wal, part.consumed, bounds.trailer)
    return WalCorruptError(wal.path, fault.offset, f"{fault.reason} (in the entry that begins at byte {part.consumed})")


def _require_boundary(wal: WalBytes, bounds: Bounds, wal_batch_bytes: int, stage: Stage) -> None:
    """Raise WalPositionError if an entry begins before `bounds.start` and ends after it."""
    before, position = bounds.first_entry, bounds.start
    try:
        for batch in _uncompressed_batches(wal, Bounds(before, before, position), wal_batch_bytes, "error", stage):
            before = int(batch.next_positions[-1])
    except WalOverrunError as error:
        raise WalPositionError.within_entry(wal.path, position, before) from error
    except WalError:
        return  # damage before the position says nothing about the position


def _compressed_batches(
    wal: WalBytes, compression: Compression, bounds: Bounds, wal_batch_bytes: int, partial_tail: PartialTail
) -> WalBatchesToEnd:
    """Yield the entries within `bounds`. Returns whether they end where the file's trailer begins.

    The file is read from its first entry on, because the dictionaries need everything before `bounds.start`.
    """
    pos, start, end = bounds.first_entry, bounds.start, bounds.end
    expander, length = Expander(wal.path, compression, wanted=start, size=end - pos), wal_batch_bytes
    while True:
        wanted = min(length, end - pos)
        buf = wal.read_some(pos, wanted)
        at_end = pos + len(buf) == end
        expanding = expander.feed(buf, pos, at_end or len(buf) < wanted)  # the bytes after the buffer are unreadable
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
        length = max(wal_batch_bytes, expander.need - expander.consumed, 0 if expander.consumed else 2 * len(buf))
    if not expander.inside and (pos == end or bounds.is_end(wal, pos)):
        return pos == bounds.trailer
    entry = expander.entry_start if expander.inside else pos
    hints = KeyHints.of(expander.dictionaries)
    problem = unfinished(wal, entry, pos + expander.need - expander.consumed, bounds, hints)
    if partial_tail == "error" or not isinstance(problem, WalTruncatedError):
        raise problem
    return False


def _wanted(expanded: Expanded, start: int, path: str) -> Iterator[WalBatch]:
    """Yield the entries from file offset `start` on. Raises WalPositionError if it lies within an entry, and WalCorruptError."""
    first = int(np.searchsorted(expanded.file_start, start))
    if first and expanded.file_end[first - 1] > start:
        raise WalPositionError.within_entry(path, start, int(expanded.file_start[first - 1]))
    scan = scan_entries(expanded.buf, 0, len(expanded.buf))
    found, expected = np.append(scan.index.entry_start, scan.consumed), np.append(expanded.start, len(expanded.buf))
    count = min(len(found), len(expected))
    # The entries before `whole` begin and end where they should.
    whole = int(np.append(np.flatnonzero(found[:count] != expected[:count]), count)[0]) - 1
    batch = WalBatch(expanded.buf, 0, scan.index, expanded.file_start, expanded.file_end)
    if first < whole:
        yield batch.chosen(slice(first, whole))
    if whole < len(expanded.start):
        entry = int(expanded.file_start[max(whole, 0)])
        reason = scan.fault.reason if scan.fault else "its cells do not end where they should"
        raise WalCorruptError(path, entry, f"{reason} (once expanded, in the entry that begins here)")
