"""An interval of write times. Picks the entries of a WAL batch that were written in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from walferry.hbase.wal.wal_batches import WalBatch


@dataclass(frozen=True, order=True)
class Interval:
    """Write times from `start` up to but not including `end`, in ms since the epoch."""

    start: int
    end: int

    @classmethod
    def between(cls, start: datetime, end: datetime) -> Interval:
        """Return the interval between two times with time zones."""
        return cls(round(start.timestamp() * 1000), round(end.timestamp() * 1000))

    def __str__(self) -> str:
        return f"{moment(self.start)} to {moment(self.end)}"

    def overlap(self, start: int, end: int) -> Interval | None:
        """Return the part between two times, or None."""
        part = Interval(max(self.start, start), min(self.end, end))
        return part if part.start < part.end else None

    def entries_of(self, batch: WalBatch) -> npt.NDArray[np.bool_]:
        """Return for each entry of a WAL batch whether it was written in the interval."""
        written = batch.index.write_time
        return (written >= self.start) & (written < self.end)


def only(batch: WalBatch, chosen: npt.NDArray[np.bool_]) -> WalBatch:
    """Return the chosen entries of a WAL batch, in their order."""
    return batch if chosen.all() else batch.chosen(chosen)


def moment(ms: int) -> str:
    """Return a time in the form for messages, in UTC."""
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # a WAL's name may contain any number
        return f"{ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}" + (f".{ms % 1000:03d}" if ms % 1000 else "")
