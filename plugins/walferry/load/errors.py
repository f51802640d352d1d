"""What can go wrong in a load."""

from __future__ import annotations

from walferry.base.errors import WalferryError
from walferry.hbase.rpc.errors import RemoteError


class LoadOvertaken(WalferryError):
    """Another run holds the queues by now, so this one must load nothing more."""


class NotLoaded(WalferryError):
    """The slave has not loaded a region's files."""


class BrokenRow(WalferryError):
    """A row came out of Spark's shuffle with other bytes than went in: a disk or a network between its tasks is broken."""


class RunsLost(WalferryError):
    """Other runs have come out of Spark's shuffle than went into it, so what was loaded counts for nothing."""


class StaleLoad(WalferryError):
    """What a killed load has left at the slave could not be deleted, so nothing may be shipped yet."""


def is_refusal(error: BaseException) -> bool:
    """Whether the slave says that the same call would fail again."""
    return isinstance(error, RemoteError) and error.do_not_retry


def reason_of(error: BaseException) -> str:
    """What is told of an error: never nothing, as an empty reason would mean that nothing went wrong."""
    return str(error).strip() or type(error).__name__
