"""Decides what becomes of a broken WAL: one whose end is missing, or of which bytes do not belong in a WAL or are lost.

    stop             its WAL group stops at the exact offset and keeps the WAL queued; the other groups go on
    whole-entries    a file that was cut off inside its last entry ends before that entry; any other damage stops the group
    quarantine       what lies before the damage is shipped, the file is copied to the quarantine folder with a note of what was
                     skipped, and the group goes on with its next WAL: the slave loses edits, as the run's parameter asks for

    <quarantine>/<wal>              the file
    <quarantine>/<wal>.<peer>.json  the note: Skipped

A dead server's WALs end with their last whole entry under every policy: its last writes were never acknowledged to a client.
hbase/wal/torn.py says how an entry that was cut off is told from damage. A part of an entry may end like a trailer. That is
possible only in the WAL that was written last, where it counts as cut off, as it does when HBase recovers the server's edits.
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
    """How a run deals with broken WALs."""

    STOP = "stop"
    WHOLE_ENTRIES = "whole-entries"
    QUARANTINE = "quarantine"


WAYS_OUT = (
    "Ways out: put a sound copy of the file in its place and run again; run with broken_wals=whole-entries if only the end of an "
    "uncleanly closed file is missing; run with broken_wals=quarantine to give up what follows this offset in this file"
)


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """The part of a WAL that was given up. Offsets and sizes are in bytes of the file."""

    wal: str
    peer: str
    run_id: str
    found_at: str  # its URL then
    size: int
    shipped_to: int  # everything before this offset was shipped or filtered out
    error: str
    time: str
    lost: list[tuple[int, int]]  # begin and end of what nothing gives: the copy has zeros there

    @property
    def bytes(self) -> int:
        return max(0, self.size - self.shipped_to)


def ends_with_its_whole_entries(policy: BrokenWals, *, live: bool) -> bool:
    """Whether a file that was cut off, of a live server or of a dead one, ends with its last whole entry."""
    return not live or policy is BrokenWals.WHOLE_ENTRIES


def to_be_quarantined(policy: BrokenWals, error: WalError) -> bool:
    """Whether to put this file aside. A file of an unsupported kind, or with a wrong position, never is."""
    return policy is BrokenWals.QUARANTINE and is_broken(error)


def is_broken(error: BaseException) -> bool:
    """Whether a file's bytes are wrong or lost. Bytes that a DataNode may still have, which does not answer, are not lost."""
    return isinstance(error, (WalCorruptError, WalTruncatedError)) or (isinstance(error, UnreadableBytes) and error.lost)


def quarantine(folder: str, location: WalLocation, wal: str, peer: str, run_id: str, shipped_to: int, error: WalError) -> Skipped:
    """Copy what is left of the file, and a note, to `folder` (a URL), replacing earlier ones.

    Raises StoreError, FileNotFoundError.
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
