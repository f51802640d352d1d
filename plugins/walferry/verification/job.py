"""Describes a comparison, for the Spark job and its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walferry.base.records import Record
from walferry.hbase.tables.scan import ScanSpec
from walferry.hbase.tables.snapshots import SnapshotRegion

if TYPE_CHECKING:
    from walferry.state_tables.reading import StateFiles  # needs PyIceberg, which not everybody has


@dataclass(frozen=True)
class Options(Record):
    """The options of a comparison. The defaults are VerifyReplication's.

    Only cells with timestamps from `start_time` to before `end_time` (milliseconds) are compared, and the newest `versions` of
    each column. With `deleted`, delete markers and the cells that they hide are compared too. Rows that differ are compared again
    up to `recompares` times: after `recompare_seconds`, and each time after twice as long. With `repair`, rows that are missing
    or different are then shipped again. With `from_files`, the files of snapshots are compared, and only the rows that differ
    there are scanned.
    """

    start_row: bytes = b""
    stop_row: bytes = b""
    start_time: int | None = None
    end_time: int | None = None
    versions: int = 1
    deleted: bool = False
    recompares: int = 0
    recompare_seconds: float = 10.0
    samples: int = 20
    repair: bool = False
    from_files: bool = False

    def scan(self, families: tuple[bytes, ...], start: bytes, stop: bytes) -> ScanSpec:
        """Return the scan of one side's range."""
        times = None
        if self.start_time is not None or self.end_time is not None:
            times = (self.start_time or 0, (1 << 63) - 1 if self.end_time is None else self.end_time)
        return ScanSpec(start, stop, families, times, self.versions, self.deleted)


@dataclass(frozen=True)
class SideFiles:
    """The files of one side's regions that have rows of a range, below `root`, the URL of hbase.rootdir."""

    root: str
    regions: tuple[SnapshotRegion, ...]


@dataclass(frozen=True)
class RangeFiles:
    """The files of a range on both sides, of snapshots that last until the comparison ends."""

    source: SideFiles
    peer_cluster: SideFiles

    @property
    def sides(self) -> tuple[SideFiles, SideFiles]:
        """The source's files, and the peer cluster's."""
        return self.source, self.peer_cluster


@dataclass(frozen=True)
class TableRange:
    """One task's part of a table: rows from `start` to before `stop` (empty: no limit) of the families that the peer gets."""

    table: str
    families: tuple[bytes, ...]
    start: bytes
    stop: bytes
    files: RangeFiles | None = None  # to compare first
    why_scanned: str = ""  # why there are none, although that was asked for
    state: StateFiles | None = None  # of a lake, which takes the peer cluster's place
