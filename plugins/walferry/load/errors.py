"""Errors of a load."""

from __future__ import annotations

from walferry.base.errors import WalferryError
from walferry.hbase.rpc.errors import RemoteError


class LoadOvertaken(WalferryError):
    """Another run now holds the queues, so this one must load nothing more."""


class NotLoaded(WalferryError):
    """The slave has not loaded a region's files."""


class BrokenRow(WalferryError):
    """A row came out of Spark's shuffle with other bytes than went in: a disk or a network between its tasks is broken."""


class RunsLost(WalferryError):
    """Spark's shuffle returned other runs than it got, so nothing counts as loaded."""


class StaleLoad(WalferryError):
    """The files that a killed load has left at the slave could not be deleted, so nothing may be shipped yet."""


def is_refusal(error: BaseException) -> bool:
    """Return whether the slave says that the same call would fail again."""
    return isinstance(error, RemoteError) and error.do_not_retry


def reason_of(error: BaseException) -> str:
    """Return the reason that is noted for an error: never an empty text, because that would mean that nothing went wrong."""
    return str(error).strip() or type(error).__name__
