"""Defines both ends of a run of the engine: its input, a feed, and a commit, which keeps up to where the feed is shipped."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

from walferry.engine.in_flight import WalOffset
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.rules import FilterRules


class Feed(Protocol):
    """A row of WALs, with their entries.

    A feed promises that it reads each of its WALs from the same offset to the same end, however often it is read, and that a
    WAL's batches come in the order of the file. One thread reads the feed.
    """

    @property
    def count(self) -> int:
        """The number of WALs."""

    def position(self, wal: int) -> int:
        """Return the offset at which reading the WAL with this number begins: by default its beginning."""
        return 0

    def batches(self, wal: int) -> Generator[tuple[WalBatch, str]]:
        """Yield the WAL's batches of entries, each with the file's URL.

        A WAL batch counts as handed out once the caller asks for the next one. Raises WalError, StoreError, WalNotClosed.
        """

    def rules(self, wal: int) -> FilterRules:
        """Return the rules for the WAL's entries."""

    def chosen(self, batch: WalBatch) -> WalBatch:
        """Return the part of a WAL batch that is shipped, before any rules apply: by default all. It may have no entries."""
        return batch

    def ready(self, wal: int, batch: WalBatch) -> int:
        """Return how many of the batch's first entries may be shipped now: by default all.

        If it returns 0 although everything before is committed, the engine asks again as long as `not_ready` changes now and
        then, and ends the run when it does not.
        """
        return len(batch.index)

    def not_ready(self) -> tuple[str, int]:
        """Return which entry may not be shipped yet and why, and a number that grows while what it waits for gets closer."""
        return "", 0

    def handing_out(self, wal: int, batch: WalBatch) -> None:
        """Note that entries go to the senders now: the filters and the sink have taken them. By default this is not noted."""
        return None

    def handed_out(self, wal: int, batch: WalBatch) -> None:
        """Note that all entries of a WAL batch are with the senders, or filtered out. By default this is not noted."""
        return None

    def ends_at(self, wal: int, error: WalError) -> bool:
        """Return whether the WAL ends at an entry that cannot be read, after doing what the feed then does. By default none."""
        return False


class Commit(Protocol):
    """Keeps the position up to which a feed is shipped. One thread calls it.

    The engine promises three things: all entries before the offset that it commits are acknowledged or filtered out; a summary
    that counts them is written first; and offsets never go back. The engine may be killed at any moment: edits that were
    acknowledged and not committed are shipped again. A commit promises that edits before the kept offset are not shipped again,
    and that it keeps nothing else.
    """

    @property
    def whole_wals(self) -> bool:
        """Whether the commit keeps only which WALs are done, and no offset within a WAL."""

    def commit(self, watermark: WalOffset) -> None:
        """Keep that everything before `watermark` is shipped. Called again and again, even if nothing has changed."""

    @property
    def pending(self) -> bool:
        """Whether the commit has unfinished work for a later `commit`, such as copies of finished WALs."""

    def stop(self) -> None:
        """End the pending work."""
