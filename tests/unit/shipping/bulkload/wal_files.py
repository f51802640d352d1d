"""Real WAL files, and what reading them yields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.hbase.hfiles.models import split_run
from tests.unit.hbase.wal.encoder import Cell, Entry, encode_wal
from tests.unit.replication.filters.test_entry_filter import entry, put
from tests.unit.shipping.bulkload.jobs import job
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.reading import WalReading
from walferry.shipping.bulkload.runs import sorted_runs
from walferry.shipping.bulkload.survey import survey_wal, wanted_of
from walferry.shipping.bulkload.wals import LoadWal

GROUP = "rs-1.example.org%2C16020%2C1700000000001"
SERVER = "rs-1.example.org,16020,1700000000001"
GOOD = [entry(put(row=b"a"), put(row=b"z")), entry(put(row=b"b"))]


class Files:
    """A root with WALs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("oldWALs", f"WALs/{SERVER}"):
            (root / folder).mkdir(parents=True)
        self.source = SourceCluster(quorum="zk:2181", wal_root=f"file://{root}")

    def put(self, number: int, data: bytes | Sequence[Entry], folder: str = "oldWALs") -> Path:
        path = self.root / folder / f"{GROUP}.{number}"
        path.write_bytes(data if isinstance(data, bytes) else encode_wal(data))
        return path

    def wals(self, *sizes: int, position: int = 0) -> list[LoadWal]:
        """Groups of so many WALs each; the number of a WAL is in its name."""
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        end_of = {number: end for end, size in zip(ends, sizes, strict=True) for number in range(end - size, end)}
        return [
            LoadWal(number, end_of[number], f"{GROUP}.{number}", position, 1000, (), live=False) for number in range(sum(sizes))
        ]

    def job(self, **fields: Any) -> LoadJob:
        return job(source=self.source, **fields)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


class Read:
    """What a load finds in its WALs, and the sorted edits of those that it loads."""

    def __init__(self, job: LoadJob) -> None:
        self.surveys = [survey_wal(job, number) for number in range(len(job.wals))]
        self.wanted = wanted_of(zip(job.wals, self.surveys, strict=True))
        self.reports = {wal.number: self.surveys[wal.number].report for wal in job.wals if wal.number not in self.wanted.not_wals}
        self.runs: dict[tuple[int, int, int], list[Cell]] = {}  # by WAL, region and family
        for number in self.reports:
            counts = Counter[int]()
            for run in chain.from_iterable(sorted_runs(WalReading(job, job.wals[number]).edits(), job.stores, job.all_stores)):
                region = int(job.region_of_store[run.store])
                family = run.store - int(np.searchsorted(job.region_of_store, region))
                self.runs[number, region, family] = [cell for cell, _, _ in split_run(bytes(run.data))]
                counts[region] += run.cells
            assert {region: cells for region, cells, _ in self.surveys[number].regions} == counts
        self.errors = [(number, job.wals[number].end_of_group) for number in self.wanted.errors]
        self.unfit = self.wanted.unfit

    @property
    def nothing_is_left_out(self) -> bool:
        return not self.wanted.not_wals and not self.wanted.errors and not self.unfit
