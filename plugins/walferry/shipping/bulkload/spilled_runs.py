"""Keeps the sorted runs of one task on a local disk until its regions are loaded.

They lie in one file without a name, so the disk is freed however the process ends.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from walferry.base.closing import Closing
from walferry.hbase.files.systems import read_fd
from walferry.shipping.bulkload.runs import SortedRun

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


def nameless_file(environment: Mapping[str, str] = os.environ) -> IO[bytes]:
    """Return a new file on the task's local disk."""
    folder = environment.get(LOCAL_DIRS, "").partition(",")[0]
    return tempfile.TemporaryFile(dir=folder if os.path.isdir(folder) else None)  # closed by the caller


class HeldRuns(Closing):
    """A task's runs. `cells` counts the cells of each store."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._file = nameless_file(environment)
        self._runs: dict[int, list[FileRun]] = defaultdict(list)
        self._size = 0
        self.cells: Counter[int] = Counter()

    def take(self, runs: Iterable[Sequence[SortedRun]]) -> None:
        """Take all runs."""
        for some in runs:
            for run in some:
                self._file.write(run.data.data)
                self._runs[run.store].append(FileRun(self._file.fileno(), self._size, len(run.data)))
                self._size += len(run.data)
                self.cells[run.store] += run.cells
        self._file.flush()

    def of(self, store: int) -> list[FileRun]:
        """Return a store's runs, in the order in which they came."""
        return self._runs.get(store, [])

    def close(self) -> None:
        """Free the disk."""
        with suppress(OSError):  # bytes that a full disk has not taken
            self._file.close()
