"""How far a copy of very many regions is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from walferry.hbase.tables.snapshots import SnapshotRegion
from walferry.initial_snapshot.job import _Done
from walferry.initial_snapshot.region_copy import RegionTask
from walferry.load.copy_records import CopyWay, RegionRecord

REGIONS = 10_000


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


def test_each_record_is_read_once_and_many_regions_take_no_time():
    names = [f"{number:032x}" for number in range(REGIONS)]
    kept = Kept()
    done = _Done(kept, [RegionTask(SnapshotRegion("t", name, b"", b"", ()), ()) for name in names])  # type: ignore[arg-type]
    began = time.process_time()
    for share in (0, REGIONS // 2, REGIONS):
        kept.copied = names[:share]
        assert len(list(done.left())) == REGIONS - share
    assert kept.reads == REGIONS
    assert done.as_text().startswith("10,000 of 10,000 regions, 100,000 bytes")
    assert time.process_time() - began < 2
