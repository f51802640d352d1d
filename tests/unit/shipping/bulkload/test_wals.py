"""Which WALs are loaded, under which numbers, and in which parts."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.errors import PositionError
from walferry.hbase.files.store import WalLocation
from walferry.hbase.names import parse_wal_name
from walferry.replication.queues.queue import QueuedWal
from walferry.shipping.bulkload.wals import LoadWal, number_wals
from walferry.shipping.candidates import Candidate

BAD = PositionError("/queues/wal", "not a position")


def candidate(group: int, number: int, position: int | PositionError | None = 0) -> Candidate:
    name = parse_wal_name(f"rs-{group}%2C16020%2C1700000000001.{number}")
    return Candidate(QueuedWal(name, f"/queues/{name}", position, 0), live=group % 2 == 0, dead_servers=(f"dead-{group}",))


def found(*wals: Candidate, size: int = 1000) -> dict[str, WalLocation]:
    return {wal.queued.name.text: WalLocation(f"file:///{wal.queued.name}", size, archived=True) for wal in wals}


def names(numbered: Sequence[Sequence[LoadWal]]) -> list[list[str]]:
    return [[wal.name.rpartition(".")[2] for wal in group] for group in numbered]


def test_a_group_is_loaded_up_to_the_first_wal_whose_file_or_position_is_not_known() -> None:
    whole, lost, unread = ([candidate(group, number) for number in (1, 2, 3)] for group in (1, 2, 3))
    unread[1] = candidate(3, 2, BAD)
    numbered = number_wals([whole, lost, unread], found(*whole, lost[1], lost[2], *unread))
    assert names(numbered) == [["1", "2", "3"], [], ["1"]]
    assert [(wal.number, wal.end_of_group) for group in numbered for wal in group] == [(0, 3), (1, 3), (2, 3), (3, 4)]


def test_a_wal_to_load_has_what_its_candidate_and_its_file_say() -> None:
    wal = candidate(2, 7, position=300)
    ((load,),) = number_wals([[wal]], found(wal, size=1000))
    assert load == LoadWal(0, 1, wal.queued.name.text, 300, 1000, ("dead-2",), live=True, newest=True)
    assert load.bytes_left == 700


def test_a_position_behind_the_file_s_end_leaves_nothing_to_read() -> None:
    wal = candidate(1, 1, position=300)
    ((load,),) = number_wals([[wal]], found(wal, size=0))
    assert load.bytes_left == 0


@given(st.lists(st.lists(st.sampled_from(["known", "missing", "bad position"]), max_size=6), max_size=6))
def test_numbers_have_no_holes_and_end_with_their_groups(groups: list[list[str]]) -> None:
    wals = [
        [candidate(group, number, BAD if kind == "bad position" else 0) for number, kind in enumerate(kinds)]
        for group, kinds in enumerate(groups)
    ]
    known = [
        wal for some, kinds in zip(wals, groups, strict=True) for wal, kind in zip(some, kinds, strict=True) if kind != "missing"
    ]
    numbered = number_wals(wals, found(*known))
    assert [wal.number for group in numbered for wal in group] == list(range(sum(map(len, numbered))))
    for mine, kinds, candidates in zip(numbered, groups, wals, strict=True):
        good = next((i for i, kind in enumerate(kinds) if kind != "known"), len(kinds))
        assert [wal.name for wal in mine] == [wal.queued.name.text for wal in candidates[:good]]
        assert all(wal.end_of_group == mine[-1].number + 1 for wal in mine)
