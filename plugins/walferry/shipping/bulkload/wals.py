"""Chooses the WALs that one job loads, and divides them into the parts that its tasks read.

WALs are numbered over all groups: group by group, and within a group oldest first. A group's WALs are loaded up to the first one
that cannot be loaded, so all edits that are shipped later are younger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from walferry.hbase.errors import PositionError
from walferry.hbase.files.store import WalLocation
from walferry.shipping.candidates import Candidate

LARGEST_PART_BYTES = 256 << 20  # of a part without its last WAL
PARTS_A_CORE = 4  # so that the last parts end at about the same time


@dataclass(frozen=True, slots=True)
class LoadWal:
    """A WAL to load. `end_of_group` is one more than the number of its group's last WAL."""

    number: int
    end_of_group: int
    name: str
    position: int
    size: int  # bytes of the file when it was found
    dead_servers: tuple[str, ...]
    live: bool
    newest: bool = False  # whether it is the newest closed WAL of its group

    @property
    def bytes_left(self) -> int:
        """Bytes behind the position."""
        return max(0, self.size - self.position)


def number_wals(groups: Sequence[Sequence[Candidate]], found: Mapping[str, WalLocation]) -> list[list[LoadWal]]:
    """Return each group's WALs that may be loaded: the ones before the first WAL whose file or position is unknown."""

    def is_known(wal: Candidate) -> bool:
        return wal.queued.name.text in found and not isinstance(wal.queued.position_or_problem, PositionError)

    numbered, start = [], 0
    for all_of_group in groups:
        group = list(takewhile(is_known, all_of_group))
        end = start + len(group)
        numbered.append(
            [
                LoadWal(start + i, end, wal.queued.name.text, wal.queued.position, found[wal.queued.name.text].size,
                        wal.dead_servers, wal.live, newest=wal is all_of_group[-1])
                for i, wal in enumerate(group)
            ]
        )  # fmt: skip
        start = end
    return numbered


def parts_of(wals: Sequence[LoadWal], cores: int, least_bytes: int) -> list[list[LoadWal]]:
    """Divide the WALs into parts of neighbours, about PARTS_A_CORE per core. All but the last have at least `least_bytes`."""
    total = sum(wal.bytes_left for wal in wals)
    enough = max(least_bytes, min(LARGEST_PART_BYTES, total // (PARTS_A_CORE * max(1, cores))))
    parts: list[list[LoadWal]] = []
    size = enough
    for wal in wals:
        if size >= enough:
            parts.append([])
            size = 0
        parts[-1].append(wal)
        size += wal.bytes_left
    return parts
