"""Reads WALs without keeping their edits: the first half of a load, one call for each WAL.

It finds out which of the peer cluster's regions get edits of a WAL, and what must not be loaded. A WAL that cannot be read ends
its group's load. A table whose edits do not belong into files is left out of the whole load. Edits that are left out go by
requests.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from walferry.base.errors import WalferryError
from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.types import Bytes, Int32s, Ints, IntTable, OutIntTable
from walferry.base.records import Record
from walferry.base.texts import one_line
from walferry.hbase.wal.cells import cell_end
from walferry.load.errors import reason_of
from walferry.shipping.bulkload.job import LoadJob
from walferry.shipping.bulkload.reading import OutOfTime, WalReading, WalReport
from walferry.shipping.bulkload.runs import placed
from walferry.shipping.bulkload.wals import LoadWal

MAX_ERROR_CHARS = 2000
MAX_REGIONS = 5000  # of one WAL: its survey is a text of at most a million characters


@dataclass(frozen=True)
class WalSurvey(Record):
    """What is known of a WAL once it was read.

    With an `error`, neither the WAL nor those after it in its group are loaded. `regions` are the numbers of regions that get
    edits for files, each with the number of cells and their bytes. `host` is where the WAL was read, with so many processors that
    the task may use. `differs` has the numbers of the job's other peers that may get other edits of the WAL.
    """

    report: WalReport
    error: str = ""
    unfit: Mapping[str, str] = field(default_factory=dict)  # tables whose edits do not belong into files, and why
    regions: tuple[tuple[int, int, int], ...] = ()
    host: str = ""
    processors: int = 0
    differs: tuple[int, ...] = ()


def survey_wal(job: LoadJob, number: int) -> WalSurvey:
    """Read the WAL of a load with this number. Raises no error of the WAL."""
    wal = job.wals[number]
    reading, counts = WalReading(job, wal, job.also), np.zeros((len(job.stores.list), 2), np.int64)
    failed = _failed(job.record)
    if wal.number > failed.get(wal.end_of_group, wal.number):
        return WalSurvey(reading.report, "an earlier WAL of its group is not loaded")
    try:
        for edits in reading.edits():
            cells = placed(edits, job.stores, job.all_stores)
            _count(edits.batch.buf, cells.starts, cells.stores, counts)
    except (WalferryError, OSError, OutOfTime) as caught:
        failed.setdefault(wal.end_of_group, wal.number)
        return WalSurvey(reading.report, one_line(reason_of(caught), MAX_ERROR_CHARS), reading.unfit)
    regions = _by_region(job, counts)
    if len(regions) > MAX_REGIONS:
        why = f"{wal.name} has edits of {len(regions):,} regions, more than {MAX_REGIONS:,}"
        return WalSurvey(reading.report, why, reading.unfit)
    processors, differs = len(os.sched_getaffinity(0)), tuple(sorted(reading.differs))
    return WalSurvey(reading.report, "", reading.unfit, regions, socket.gethostname(), processors, differs)


@lru_cache(maxsize=8)
def _failed(record: str) -> dict[int, int]:
    """Return WALs of a load that this process could not read, by the ends of their groups.

    Each may have waited long to be closed. So the process leaves out what follows them, which is not loaded anyway.
    """
    return {}


def _by_region(job: LoadJob, counts: IntTable) -> tuple[tuple[int, int, int], ...]:
    """Return the counts of stores as those of regions, without regions that get nothing."""
    found = np.zeros((len(job.regions), 2), np.int64)
    np.add.at(found, job.region_of_store, counts)
    return tuple((int(number), int(found[number, 0]), int(found[number, 1])) for number in np.flatnonzero(found[:, 0]))


@unmanaged
def _count(buf: Bytes, starts: Ints, store_of: Int32s, counts: OutIntTable) -> None:
    """Add the cells and their bytes to the counts of their stores."""
    for i in range(starts.size):
        counts[store_of[i], 0] += 1
        counts[store_of[i], 1] += cell_end(buf, starts[i]) - starts[i]


@dataclass(frozen=True)
class Wanted:
    """The WALs and tables to load: all but some."""

    not_wals: frozenset[int]
    errors: Mapping[int, str]  # by the WAL with which a group's load ends
    unfit: Mapping[str, str]

    def table(self, name: bytes) -> bool:
        """Return whether a table is loaded."""
        return shown(name) not in self.unfit


def wanted_of(wals: Iterable[tuple[LoadWal, WalSurvey]]) -> Wanted:
    """Return what is loaded of WALs, which come group by group, and within a group in their order."""
    not_wals, errors, unfit = set[int](), dict[int, str](), dict[str, str]()
    end = 0  # WALs with smaller numbers are left out
    for wal, survey in wals:
        unfit = {**survey.unfit, **unfit}
        if wal.number >= end and survey.error:
            end, errors[wal.number] = wal.end_of_group, survey.error
        if wal.number < end:
            not_wals.add(wal.number)
    return Wanted(frozenset(not_wals), errors, unfit)


def shown(table: bytes) -> str:
    """Return a table's name for reports."""
    return table.decode(errors="backslashreplace")
