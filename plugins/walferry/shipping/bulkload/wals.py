"""Chooses the WALs that one job loads.

WALs are numbered over all groups: group by group, and within a group oldest first. A group's WALs are loaded up to the first one
that cannot be loaded, so all edits that are shipped later are younger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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

    def is_same(self, other: LoadWal) -> bool:
        """Return whether another peer has the same edits of the same WAL left. Its number may differ.

        A dead server's newest WAL may end with a torn entry.
        """
        mine, theirs = (
            (wal.name, wal.position, wal.dead_servers, wal.live, wal.newest and not wal.live) for wal in (self, other)
        )
        return mine == theirs

    @property
    def bytes_left(self) -> int:
        """Bytes behind the position."""
        return max(0, self.size - self.position)


def numbered_again(groups: Sequence[Sequence[LoadWal]]) -> list[list[LoadWal]]:
    """Return the WALs of some of a load's groups with the numbers of a load that has only these groups."""
    numbered, start = list[list[LoadWal]](), 0
    for group in groups:
        end = start + len(group)
        numbered.append([replace(wal, number=start + i, end_of_group=end) for i, wal in enumerate(group)])
        start = end
    return numbered


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
