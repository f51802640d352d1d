"""Decides how a run treats a broken WAL: its end is missing, or some of its bytes are lost or cannot belong to a WAL.

    stop             its WAL group stops at the exact offset and keeps the WAL queued; the other groups go on
    whole-entries    a file that was cut off inside its last entry ends before that entry; any other damage stops the group
    quarantine       the bytes before the damage are shipped, the file is copied to the quarantine folder with a note of the
                     skipped part, and the group goes on with its next WAL: the peer cluster loses edits. The same happens under
                     each policy if a person has given up these bytes (shipping/giving_up.py)

    <quarantine>/<wal>              the file
    <quarantine>/<wal>.<peer>.json  the note: Skipped

A dead server's WALs end with their last whole entry under every policy: its last writes were never acknowledged to a client.
hbase/wal/torn.py distinguishes an entry that was cut off from damage. A part of an entry may end like a trailer. That is possible
only in the server's last WAL, where the entry counts as cut off, as it does when HBase recovers the server's edits.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum

from walferry.hbase.files.errors import UnreadableBytes
from walferry.hbase.files.store import WalLocation
from walferry.hbase.files.systems import copy_what_is_left, write_file
from walferry.hbase.names import in_file_name
from walferry.hbase.wal.errors import WalCorruptError, WalError, WalTruncatedError


class BrokenWals(StrEnum):
    """The policies of a run for broken WALs."""

    STOP = "stop"
    WHOLE_ENTRIES = "whole-entries"
    QUARANTINE = "quarantine"


WAYS_OUT = (
    "Ways out: put a sound copy of the file in its place and run again; run with broken_wals=whole-entries if only the end of an "
    "uncleanly closed file is missing; to give up what follows this offset in this file, trigger the DAG quarantine_wal, or ship "
    "by `walferry ship --broken-wals quarantine`"
)


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """The part of a WAL that was given up. Offsets and sizes are in bytes of the file."""

    wal: str
    peer: str
    run_id: str
    found_at: str  # its URL at that time
    size: int
    shipped_to: int  # everything before this offset was shipped or filtered out
    error: str
    time: str
    lost: list[tuple[int, int]]  # begin and end of unreadable bytes: the copy contains zeros there

    @property
    def bytes(self) -> int:
        return max(0, self.size - self.shipped_to)


def ends_with_its_whole_entries(policy: BrokenWals, *, live: bool) -> bool:
    """Return whether a file that was cut off, of a live or a dead server, ends with its last whole entry."""
    return not live or policy is BrokenWals.WHOLE_ENTRIES


def is_broken(error: BaseException) -> bool:
    """Return whether a file's bytes are wrong or lost. Bytes that a silent DataNode may still have are not lost."""
    return isinstance(error, (WalCorruptError, WalTruncatedError)) or (isinstance(error, UnreadableBytes) and error.lost)


def quarantine(folder: str, location: WalLocation, wal: str, peer: str, run_id: str, shipped_to: int, error: WalError) -> Skipped:
    """Copy the readable bytes of the file, and a note, to `folder` (a URL). They replace earlier copies.

    The note says that everything before `shipped_to` was shipped. Raises StoreError, FileNotFoundError.
    """
    lost = copy_what_is_left(location.url, f"{folder}/{wal}")
    skipped = Skipped(
        wal=wal,
        peer=peer,
        run_id=run_id,
        found_at=location.url,
        size=location.size,
        shipped_to=shipped_to,
        error=str(error),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        lost=lost,
    )
    write_file(f"{folder}/{wal}.{in_file_name(peer)}.json", json.dumps(asdict(skipped), indent=2).encode())
    return skipped
