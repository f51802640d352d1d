"""What can go wrong in an initial snapshot."""

from __future__ import annotations

from walferry.base.errors import WalferryError


class CopyRefused(WalferryError):
    """The copy is not safe, or not possible as things are. The message says why and what to do."""

    retry_helps = False


class NotQueued(WalferryError):
    """A RegionServer of the source has no queue for the peer yet, so its edits could be missing after the copy."""


class NotRolled(WalferryError):
    """A RegionServer of the source has not begun a new WAL, so it is not known which edits are older than the copy."""


class CopyUnderWay(WalferryError):
    """The peer's initial snapshot is not complete, so its queue must not be shipped yet."""


class Overtaken(WalferryError):
    """Another run holds the copy by now, or another task the region, so this one must change nothing more."""


class BrokenSnapshot(WalferryError):
    """A snapshot's manifest cannot be read, or names a file that is not there."""


class UnreadableHFile(WalferryError):
    """An HFile's metadata cannot be read, so the file is not copied as it is."""
