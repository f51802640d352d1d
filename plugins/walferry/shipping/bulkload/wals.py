"""Chooses the WALs that one job loads.

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
