"""Defines where the engine keeps the position up to which a feed is shipped."""

from __future__ import annotations

from typing import Protocol

from walferry.engine.in_flight import WalOffset
from walferry.engine.summary import GroupSummary


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

    def write(self, summary: GroupSummary) -> None:
        """Write the summary. Raises an error that ends the run if the right to ship is lost."""

    @property
    def pending(self) -> bool:
        """Whether the commit has unfinished work for a later `commit`, such as copies of finished WALs."""

    def stop(self) -> None:
        """End the pending work."""
