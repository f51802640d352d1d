"""Errors of an initial snapshot."""

from __future__ import annotations

from walferry.base.errors import WalferryError


class CopyRefused(WalferryError):
    """The copy is unsafe, or impossible as things are. The message says why and what to do."""

    retry_helps = False


class NotQueued(WalferryError):
    """A RegionServer of the source has no queue for the peer yet, so its edits could be missing after the copy."""


class NotRolled(WalferryError):
    """A RegionServer of the source has not begun a new WAL, so the edits that are older than the copy are not known."""


class CopyUnderWay(WalferryError):
    """The peer's initial snapshot is not complete, so its queue must not be shipped yet."""


class Overtaken(WalferryError):
    """Another run now holds the copy, or another task the region, so this one must change nothing more."""


class BrokenSnapshot(WalferryError):
    """A snapshot's manifest cannot be read, or names a file that does not exist."""


class UnreadableHFile(WalferryError):
    """An HFile's metadata cannot be read, so the file is not copied as it is."""
