"""What is wrong with an entry that does not end where the entries of its file must have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from walferry.hbase.wal import torn
from walferry.hbase.wal.bounds import Bounds, WalBytes
from walferry.hbase.wal.errors import WalCorruptError, WalError, WalOverrunError, WalTornError, WalTruncatedError
from walferry.hbase.wal.windows import WINDOW_BYTES, Window

MIN_ENTRY_BYTES = 16  # an entry with fewer has no WALKey, so the next one cannot begin before


def unfinished(wal: WalBytes, entry: int, need: int, bounds: Bounds, hints: torn.KeyHints) -> WalError:
    """The error for an entry at `entry` that goes on, at least to `need`, beyond the end of the entries."""
    end = bounds.end
    if end < wal.size:
        return overrun(wal, entry, end)
    for offset in range(entry, end, WINDOW_BYTES):
        buf = wal.read(offset, min(WINDOW_BYTES + torn.OVERLAP, end - offset))
        other = torn.find_entry(buf, MIN_ENTRY_BYTES if offset == entry else 0, hints)
        if other != torn.NONE:
            reason = f"the entry goes on beyond the end of the file, but another one begins at byte {offset + other}"
            return WalCorruptError(wal.path, entry, f"{reason}: the file was not cut off here, this entry is damaged")
    if bounds.trailer is not None:
        return WalTornError(wal.path, entry, _beyond(bounds.trailer), end - entry)
    return WalTruncatedError(wal.path, entry, need - entry, end - entry)


def overrun(wal: WalBytes, entry: int, trailer: int) -> WalOverrunError:
    """The error for an entry at `entry` that goes on beyond the trailer's start."""
    return WalOverrunError(wal.path, entry, _beyond(trailer))


def without_overrun(windows: Iterable[Window], wal: WalBytes, bounds: Bounds) -> Iterator[Window]:
    """Yield the windows. Raises WalOverrunError at an entry that ends within the trailer, which takes a damaged length.

    An entry may seem to end before the trailer's last byte, a P: that can be the first byte of the next entry, whose key then has
    80 bytes.
    """
    for window in windows:
        trailer = bounds.trailer
        if trailer is None or not trailer < int(window.next_positions[-1]) < bounds.end - 1:
            yield window
            continue
        sound = window.until(trailer)
        if len(sound.index):
            yield sound
        raise overrun(wal, window.entry_offset(-1), trailer)


def _beyond(trailer: int) -> str:
    return f"the entry goes on beyond byte {trailer}, where the file's trailer begins"
