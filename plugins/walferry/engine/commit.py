"""Where it is kept how far a feed is shipped."""

from __future__ import annotations

from typing import Protocol

from walferry.engine.in_flight import WalOffset
from walferry.engine.summary import GroupSummary


class Commit(Protocol):
    """Keeps how far a feed is shipped. One thread calls it.

    The engine promises that all entries before the offset that it commits are acknowledged or filtered out, that a summary which
    counts them is written before, and that offsets never go back. It may be killed at any moment: what was acknowledged and not
    committed is shipped again. A commit promises that what it has kept is not shipped again, and that nothing else is kept.
    """

    @property
    def whole_wals(self) -> bool:
        """Whether it keeps only which WALs are done, and no offset within one."""

    def commit(self, watermark: WalOffset) -> None:
        """Keep that everything before `watermark` is shipped. Called again and again, also if nothing has changed."""

    def write(self, summary: GroupSummary) -> None:
        """Write the summary. Raises what ends the run, if the right to ship is lost."""

    @property
    def pending(self) -> bool:
        """Whether work of its own is left that a later `commit` finishes, such as copies of finished WALs."""

    def stop(self) -> None:
        """End what is pending."""
