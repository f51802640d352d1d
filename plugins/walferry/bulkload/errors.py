"""What can go wrong in a load."""

from __future__ import annotations

from walferry.errors import WalferryError


class LoadOvertaken(WalferryError):
    """Another run has the queues in hand by now, so this one must load nothing more."""


class NotLoaded(WalferryError):
    """The slave has not loaded a region's files."""


class RunsLost(WalferryError):
    """Other runs have come out of Spark's shuffle than went into it, so what was loaded counts for nothing."""


class StaleLoad(WalferryError):
    """What a killed load has left at the slave could not be deleted, so nothing may be shipped yet."""
