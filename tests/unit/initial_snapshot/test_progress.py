"""How far a copy of very many regions is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.growth import LINEAR, growth
from walferry.hbase.tables.snapshots import SnapshotRegion
from walferry.initial_snapshot.job import _Done
from walferry.initial_snapshot.region_copy import RegionTask
from walferry.load.copy_records import CopyWay, RegionRecord

REGIONS = 40_000


@dataclass
class Kept:
    """Records of the regions that are copied."""

    copied: list[str] = field(default_factory=list)
    reads: int = 0

    def names(self, table: str) -> list[str]:
        return self.copied

    def regions(self, table: str, names: Sequence[str]) -> dict[str, RegionRecord]:
        self.reads += len(names)
        return {name: RegionRecord(CopyWay.FILES, files=1, bytes=10) for name in names}


def test_each_record_is_read_once_and_many_regions_take_time_in_proportion():
    def followed(regions: int) -> Callable[[], None]:
        names = [f"{number:032x}" for number in range(regions)]
        kept = Kept()
        done = _Done(kept, [RegionTask(SnapshotRegion("t", name, b"", b"", ()), ()) for name in names])  # type: ignore[arg-type]

        def follow() -> None:
            for share in (0, regions // 2, regions):
                kept.copied = names[:share]
                assert len(list(done.left())) == regions - share
            assert kept.reads == regions
            assert done.as_text().startswith(f"{regions:,} of {regions:,} regions, {10 * regions:,} bytes")

        return follow

    assert growth(followed, REGIONS) < LINEAR
