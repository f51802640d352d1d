"""What becomes of a WAL that is broken: whose end is missing, or that has in it what no WAL has.

    stop             its WAL group stops at the exact offset, and keeps the WAL queued; the other groups go on
    whole-entries    a file that was cut off, so that its last entry is not whole, ends before that; anything else stops
    quarantine       what lies before the damage is shipped, the file is copied to the quarantine folder with a note of what was
                     skipped, and the group goes on with its next WAL: edits are lost for the slave, and somebody has asked for it

    <quarantine>/<wal>              the file
    <quarantine>/<wal>.<peer>.json  the note: Skipped

A dead server's WALs end with their last whole entry under every policy: its last writes were never acknowledged to a client. What
was cut off is told from damage as wal/torn.py says. What there is of an entry may end like a trailer; in the WAL that was written
last, the only one that can be so, it counts as cut off, as it does when HBase recovers the server's edits.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum

from walferry.files.store import WalLocation
from walferry.files.systems import copy_file, write_file
from walferry.wal.errors import WalCorruptError, WalError, WalTruncatedError


class BrokenWals(StrEnum):
    """What a run does with broken WALs."""

    STOP = "stop"
    WHOLE_ENTRIES = "whole-entries"
    QUARANTINE = "quarantine"


WAYS_OUT = (
    "Ways out: put a sound copy of the file in its place and run again; run with broken_wals=whole-entries if only the end of an "
    "uncleanly closed file is missing; run with broken_wals=quarantine to give up what follows this offset in this file"
)


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """What of a WAL was given up. Offsets and sizes in bytes of the file."""

    wal: str
    peer: str
    run_id: str
    found_at: str  # its URL then
    size: int
    shipped_to: int  # all that lies before this offset was shipped, or filtered
    error: str
    time: str

    @property
    def bytes(self) -> int:
        return max(0, self.size - self.shipped_to)


def ends_with_its_whole_entries(policy: BrokenWals, *, live: bool) -> bool:
    """Whether what is missing of a file's end, one of a live server's or of a dead one's, is to be done without."""
    return not live or policy is BrokenWals.WHOLE_ENTRIES


def to_be_quarantined(policy: BrokenWals, error: WalError) -> bool:
    """Whether this file is to be put aside; one of a kind that cannot be read, or with a wrong position, never is."""
    return policy is BrokenWals.QUARANTINE and isinstance(error, (WalCorruptError, WalTruncatedError))


def quarantine(folder: str, location: WalLocation, wal: str, peer: str, run_id: str, shipped_to: int, error: WalError) -> Skipped:
    """Copy the file to `folder` (a URL), with a note; done before, it is done again. Raises StoreError, FileNotFoundError."""
    skipped = Skipped(
        wal=wal,
        peer=peer,
        run_id=run_id,
        found_at=location.url,
        size=location.size,
        shipped_to=shipped_to,
        error=str(error),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    copy_file(location.url, f"{folder}/{wal}")
    write_file(f"{folder}/{wal}.{peer}.json", json.dumps(asdict(skipped), indent=2).encode())
    return skipped
