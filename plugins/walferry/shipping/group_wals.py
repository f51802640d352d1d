"""The WALs that one attempt ships in a row, and what it has found out about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from walferry.engine.in_flight import WalOffset
from walferry.hbase.files.store import WalStore
from walferry.shipping.candidates import Candidate


@dataclass
class GroupWals:
    """WALs by their number in the row. The feed writes `ends`, `unclean`, `lost` and `written`; the other threads read them.

    Of a WAL that is read to its end the archiver may write `lost`.
    """

    wals: tuple[Candidate, ...]
    sizes: Sequence[int]  # of their files, as far as these were found at the start
    ends: dict[int, int] = field(default_factory=dict)  # the offset after the last entry that was read
    unclean: dict[int, int] = field(default_factory=dict)  # of WALs without a trailer: the bytes behind the last whole entry
    lost: set[int] = field(default_factory=set)  # WALs given up for lost bytes: what is left of them is in the quarantine
    written: int = 0  # when the last entry read, or the first one to read, was written; in ms since the epoch

    @classmethod
    def found(cls, wals: tuple[Candidate, ...], store: WalStore) -> GroupWals:
        """The WALs, with the sizes of the files that are there now."""
        locations = [store.locate(wal.queued.name, wal.dead_servers) for wal in wals]
        return cls(wals, [at.size if at else 0 for at in locations])

    @property
    def count(self) -> int:
        """How many WALs there are."""
        return len(self.wals)

    def unread_since(self, wal: int) -> int:
        """Return a time before which no entry of this WAL that is not handed out was written: a file's entries are younger than
        its name."""
        return max(self.written, self.wals[wal].queued.name.timestamp)

    @property
    def bytes_to_ship(self) -> int:
        """The bytes behind the positions."""
        return self.bytes_done(WalOffset(len(self.wals), 0))

    def bytes_done(self, safe: WalOffset) -> int:
        """How many of the bytes to ship lie before `safe`."""
        before = zip(self.sizes[: safe.wal], self.wals[: safe.wal], strict=True)
        done = sum(max(0, size - wal.queued.position) for size, wal in before)
        here = max(0, safe.offset - self.wals[safe.wal].queued.position) if safe.wal < len(self.wals) else 0
        return done + here
