"""What can go wrong while a table is read."""

from __future__ import annotations

from walferry.base.errors import WalferryError


class MissingTable(WalferryError):
    """hbase:meta has no region of the table."""

    retry_helps = False

    def __init__(self, table: str, cluster: str) -> None:
        super().__init__(f"table {table} does not exist on {cluster}", "Create it, or leave it out")
        self.table = table


class TooManyRegions(WalferryError):
    """hbase:meta tells of more regions of `what`, such as "table t", than are kept in memory."""

    retry_helps = False

    def __init__(self, what: str, regions: int, size: int) -> None:
        super().__init__(
            f"hbase:meta tells of {regions} regions of {what} or more, with {size} bytes of names and keys",
            "Check hbase:meta, e.g. with hbck2",
        )


class RegionUnavailable(WalferryError):
    """No server serves the region now: it is moving, splitting or being assigned, or its table is disabled."""


class RowTooLarge(WalferryError):
    """A row has more bytes than are kept in memory."""

    retry_helps = False

    def __init__(self, table: str, row: bytes, most: int) -> None:
        super().__init__(f"row {row[:100]!r} of table {table} has more than {most} bytes", "Leave the table out")


class ScanGivenUp(WalferryError):
    """A scan has got no answer from a table's region for a long time."""

    def __init__(self, table: str, row: bytes, seconds: float, reason: str) -> None:
        super().__init__(
            f"the scan of table {table} has made no progress at row {row[:100]!r} for {seconds:.0f} s: {reason}",
            "Check that the table is enabled, and that all of its regions are open",
        )
