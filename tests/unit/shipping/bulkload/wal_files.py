"""Real WAL files, and what reading them yields."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.hbase.hfiles.models import split_run
from tests.unit.hbase.wal.encoder import Cell, Entry, encode_wal
from tests.unit.replication.filters.test_entry_filter import entry, put
from tests.unit.shipping.bulkload.jobs import job
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.rows import NOTE, REPORT, Note, ShuffleRow, WalReport
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
    """What reading has yielded."""

    def __init__(self, rows: Iterator[ShuffleRow], partitions: int = 3) -> None:
        self.runs: dict[tuple[int, int, int], list[Cell]] = defaultdict(list)  # by WAL, region and family
        notes: dict[int, list[Note]] = defaultdict(list)
        self.reports: dict[int, WalReport] = {}
        for row in rows:
            if row.region == NOTE:
                notes[row.partition].append(Note.from_json(bytes(row.data)))
            elif row.region == REPORT:
                self.reports[row.wal] = WalReport.from_json(bytes(row.data))
            else:
                assert row.partition == row.region % partitions
                self.runs[row.wal, row.region, row.family] += [cell for cell, _, _ in split_run(bytes(row.data))]
        assert all(notes[partition] == notes[0] for partition in range(partitions)), "each partition has all notes"
        self.notes = notes[0]

    @property
    def errors(self) -> list[tuple[int, int]]:
        return [(note.first, note.end) for note in self.notes if note.end]

    @property
    def unfit(self) -> dict[str, str]:
        return {name: why for note in self.notes for name, why in note.unfit.items()}
