"""Deals the regions of a load out to tasks. Each region goes to one task, which reads all WALs that have edits of its regions.

So a region's edits never pass through Spark, and one task puts all of them in order. The price is that a WAL is read once for
each task that needs it. Reading costs little beside sorting and writing (docs/hfiles.md), and a RegionServer's WALs have edits of
its own regions: a task gets regions of the same WALs, as far as possible. A backend may run more tasks at a time than it has
processors, as most jobs wait for the peer cluster. A load does not, and more tasks than processors would only read more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from walferry.base.jobs import Backend
from walferry.shipping.bulkload.survey import WalSurvey
from walferry.shipping.bulkload.wals import LoadWal

SHARE_BYTES = 1 << 30  # a task that fails begins again
READERS = 16  # tasks that read a group's WALs, if there are fewer cores


@dataclass(frozen=True)
class Share:
    """One task's regions, by their numbers, each with the number of its cells, and the WALs that have them.

    The WALs are numbers, too, each with the CRC-32 of its entries.
    """

    regions: tuple[tuple[int, int], ...]
    wals: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        """The number of the first region, which names the share."""
        return self.regions[0][0]


def shares_of(found: Sequence[tuple[LoadWal, WalSurvey]], wanted: Iterable[int], on: Backend) -> list[Share]:
    """Return shares of about the same size that have all `wanted` regions with edits in these WALs."""
    cells, sizes, of_group = Counter[int](), Counter[int](), defaultdict[int, Counter[int]](Counter)
    chosen = set(wanted)
    for wal, survey in found:
        for region, count, size in survey.regions:
            if region in chosen:
                cells[region] += count
                sizes[region] += size
                of_group[region][wal.end_of_group] += size
    if not sizes:
        return []
    home = {region: counts.most_common(1)[0][0] for region, counts in of_group.items()}
    groups = len({wal.end_of_group for wal, _ in found})
    total, count = sizes.total(), _count(len(sizes), sizes.total(), groups, _processors((survey for _, survey in found), on), on)
    share_of, before = dict[int, int](), 0
    for region in sorted(sizes, key=lambda number: (home[number], number)):
        share_of[region] = (2 * before + sizes[region]) * count // (2 * total)
        before += sizes[region]
    regions, wals = defaultdict[int, list[tuple[int, int]]](list), defaultdict[int, list[tuple[int, int]]](list)
    for region, number in share_of.items():
        regions[number].append((region, cells[region]))
    for wal, survey in found:
        for number in {share_of[region] for region, _, _ in survey.regions if region in share_of}:
            wals[number].append((wal.number, survey.report.crc))
    return [Share(tuple(regions[number]), tuple(wals[number])) for number in regions]


def _processors(surveys: Iterable[WalSurvey], on: Backend) -> int:
    """Return the number of tasks that run at full speed, as far as the machines that have read the WALs show."""
    of_host = {survey.host: survey.processors for survey in surveys if survey.processors}
    return min(on.cores, sum(of_host.values())) if of_host else on.cores


def _count(regions: int, size: int, groups: int, processors: int, on: Backend) -> int:
    """Return the number of shares of so many regions, with so many bytes of edits in all, from so many groups of WALs."""
    wished = max(processors, min(-(-size // SHARE_BYTES), READERS * groups))
    return min(regions, on.most_tasks, wished, max(1, size // max(1, on.least_bytes)))
