"""The errors of reading a table, or a snapshot of it."""

from __future__ import annotations

from walferry.base.errors import WalferryError


class MissingTable(WalferryError):
    """hbase:meta contains no region of the table."""

    retry_helps = False

    def __init__(self, table: str, cluster: str) -> None:
        super().__init__(f"table {table} does not exist on {cluster}", "Create it, or leave it out")
        self.table = table


class TooManyRegions(WalferryError):
    """hbase:meta contains more regions of `what`, such as "table t", than Walferry keeps in memory."""

    retry_helps = False

    def __init__(self, what: str, regions: int, size: int) -> None:
        super().__init__(
            f"hbase:meta tells of {regions} regions of {what} or more, with {size} bytes of names and keys",
            "Check hbase:meta, e.g. with hbck2",
        )


class RegionUnavailable(WalferryError):
    """No server serves the region now: it is moving, splitting or being assigned, or its table is disabled."""


class RowTooLarge(WalferryError):
    """A row has more bytes than Walferry keeps in memory."""

    retry_helps = False

    def __init__(self, table: str, row: bytes, most: int) -> None:
        super().__init__(f"row {row[:100]!r} of table {table} has more than {most} bytes", "Leave the table out")


class ScanGivenUp(WalferryError):
    """A table's region has not answered a scan for a long time."""

    def __init__(self, table: str, row: bytes, seconds: float, reason: str) -> None:
        super().__init__(
            f"the scan of table {table} has made no progress at row {row[:100]!r} for {seconds:.0f} s: {reason}",
            "Check that the table is enabled, and that all of its regions are open",
        )


class BrokenSnapshot(WalferryError):
    """A snapshot's manifest cannot be read, or names a file that does not exist."""
