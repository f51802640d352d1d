"""Errors of loads, and of initial snapshots."""

from __future__ import annotations

from walferry.base.errors import WalferryError
from walferry.hbase.rpc.errors import RemoteError


class LoadOvertaken(WalferryError):
    """Another run now holds the queues, so this one must load nothing more."""


class NotLoaded(WalferryError):
    """The peer cluster has not loaded a region's files."""


class EditsDiffer(WalferryError):
    """WALs had other edits of a region when they were read again to be loaded."""


class StaleLoad(WalferryError):
    """The files that a killed load has left at the peer cluster could not be deleted, so nothing may be shipped yet."""


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


def is_refusal(error: BaseException) -> bool:
    """Return whether the peer cluster says that the same call would fail again."""
    return isinstance(error, RemoteError) and error.do_not_retry


def reason_of(error: BaseException) -> str:
    """Return the reason that is noted for an error: never an empty text, because that would mean that nothing went wrong."""
    return str(error).strip() or type(error).__name__
