"""Keeps the runs of one partition on a local disk until its regions are loaded.

They lie in one file without a name, so the disk is freed however the process ends.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from walferry.base.closing import Closing
from walferry.hbase.files.systems import read_fd
from walferry.shipping.bulkload.rows import NOTE, REPORT, Note, ShuffleRow

LOCAL_DIRS = "SPARK_LOCAL_DIRS"  # Spark's own variable, which it gives to its Python workers


@dataclass(frozen=True)
class FileRun:
    """A run in the file (see hfiles.merge)."""

    fd: int
    start: int
    size: int

    def read_at(self, offset: int, length: int) -> bytes:
        """Read `length` bytes from `offset` on; fewer only at the run's end."""
        return read_fd(self.fd, self.start + offset, max(0, min(length, self.size - offset)))


class HeldRuns(Closing):
    """A partition's runs, notes and reports."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        folder = environment.get(LOCAL_DIRS, "").partition(",")[0]
        self._file = tempfile.TemporaryFile(dir=folder if os.path.isdir(folder) else None)  # noqa: SIM115  # closed in `close`
        self._stores: dict[int, dict[int, list[tuple[int, int, FileRun]]]] = {}  # by region and family: WAL, number, run
        self._size = 0
        self.notes: list[Note] = []
        self.reports: list[bytes] = []
        self.counts: Counter[int] = Counter()  # the number of runs by WAL

    def take(self, rows: Iterable[ShuffleRow]) -> None:
        """Take all rows."""
        for row in rows:
            if row.region == NOTE:
                self.notes.append(Note.from_json(bytes(row.data)))
            elif row.region == REPORT:
                self.reports.append(bytes(row.data))
            else:
                self._file.write(row.data)
                run = FileRun(self._file.fileno(), self._size, len(row.data))
                self._stores.setdefault(row.region, {}).setdefault(row.family, []).append((row.wal, row.number, run))
                self._size += len(row.data)
                self.counts[row.wal] += 1
        self._file.flush()

    @property
    def regions(self) -> list[int]:
        """The numbers of the regions that have runs, in descending order of their bytes."""
        return sorted(self._stores, key=self.size_of, reverse=True)

    def size_of(self, region: int) -> int:
        """Return the bytes of a region's runs."""
        return sum(run.size for runs in self._stores[region].values() for *_, run in runs)

    def runs(self, region: int, wanted: Callable[[int], bool]) -> dict[int, list[FileRun]]:
        """Return a region's runs by family, in the order of their WALs, leaving out WALs that are not `wanted`."""
        ordered = {family: sorted(runs, key=lambda run: run[:2]) for family, runs in self._stores[region].items()}
        found = {family: [run for wal, _, run in runs if wanted(wal)] for family, runs in ordered.items()}
        return {family: runs for family, runs in found.items() if runs}

    def close(self) -> None:
        """Free the disk."""
        self._file.close()
