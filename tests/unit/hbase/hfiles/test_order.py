"""The merge refuses cells with one key if it is not known which of them came later, and only those."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from itertools import combinations, permutations
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.hbase.hfiles.edits import edits_of, global_entry, runs_of
from tests.unit.hbase.hfiles.models import stored
from tests.unit.hbase.hfiles.test_merge import encoded, held, merged
from tests.unit.hbase.wal.encoder import PUT, Cell, encode_tags
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.hfiles import merge
from walferry.hbase.hfiles.errors import OrderUnknown
from walferry.hbase.hfiles.stores import TargetTable

FOREVER, SHORT, LONG = b"", *(encode_tags([(8, ttl.to_bytes(8))]) for ttl in (1000, 2000))


def cell(value: bytes, tags: bytes = FOREVER, row: bytes = b"r", qualifier: bytes = b"q") -> Cell:
    return Cell(row, b"f", qualifier, 1, PUT, value, tags)


class Edit(NamedTuple):
    """An edit of the one key. Its place is where it would stand in the merge if all sequence ids were equal."""

    cell: Cell
    number: int
    time: int
    place: int

    def is_after(self, other: Edit) -> bool:
        """Return whether it is known that this edit came later."""
        if self.number == other.number:
            return self.time == other.time and self.place > other.place
        return self.number > other.number and self.time >= other.time


def shown(order: Iterable[Cell]) -> list[Cell]:
    """What a scan shows one after the other as time goes on: of equal cells, which expire together, only the first."""
    found: list[Cell] = []
    for each in order:
        if each not in found:
            found.append(each)
        if each.tags == FOREVER:
            break
    return found


def possible(edits: Sequence[Edit]) -> list[list[Cell]]:
    """What a scan may show of edits, by all orders in which they may have come: the last of all comes first."""
    alive = [e for e in edits if not any((e.number, e.time) == (o.number, o.time) and o.is_after(e) for o in edits)]
    orders = [order for order in permutations(alive) if not any(b.is_after(a) for a, b in combinations(order, 2))]
    return [shown(edit.cell for edit in order) for order in orders]


CELLS = st.builds(cell, st.sampled_from([b"x", b"y"]), st.sampled_from([FOREVER, SHORT, LONG]))
RUNS = st.lists(st.lists(st.tuples(CELLS, st.integers(1, 4), st.integers(1, 4)), max_size=5), max_size=5)


@pytest.mark.long
@given(RUNS.filter(lambda runs: sum(map(len, runs)) <= 5), st.sampled_from([1, 1 << 20]))
@example([[(cell(b"x", SHORT), 3, 3), (cell(b"y", SHORT), 2, 2), (cell(b"y"), 1, 4)]], 1)
@example([[(cell(b"x", SHORT), 3, 2), (cell(b"x", SHORT), 2, 4), (cell(b"y"), 1, 3)]], 1)
@example([[(cell(b"x", LONG), 4, 4), (cell(b"y", SHORT), 3, 1), (cell(b"y", SHORT), 2, 3), (cell(b"x", LONG), 1, 2)]], 1)
def test_what_is_written_is_what_any_possible_order_shows_and_otherwise_two_edits_contradict_each_other(runs, size: int) -> None:
    edits = [Edit(*each, place) for place, each in enumerate(each for run in runs for each in run)]  # type: ignore[call-arg]
    try:
        with patch.object(merge, "MIN_PART_BYTES", size), patch.object(merge, "MAX_PART_BYTES", size):
            found = shown(merged(held(*map(encoded, runs)), chunk_bytes=size))
    except OrderUnknown:
        pairs = combinations(edits, 2)
        assert any(not a.is_after(b) and not b.is_after(a) and a.cell != b.cell for a, b in pairs)
    else:
        assert all(found == order for order in possible(edits))


def refused(*edits: tuple[Cell, int, int]) -> None:
    """Each of these orders of the edits in runs is refused, at whatever borders of chunks."""
    for runs in ([list(edits)], [[each] for each in edits], [[each] for each in reversed(edits)]):
        for chunk_bytes in (1, 1 << 20):
            with pytest.raises(OrderUnknown):
                merged(held(*map(encoded, runs)), chunk_bytes=chunk_bytes)


def test_a_larger_sequence_id_that_was_written_earlier_is_refused() -> None:
    refused((cell(b"old"), 900, 1000), (cell(b"new"), 5, 2000))


def test_one_sequence_id_that_was_written_twice_is_refused() -> None:
    refused((cell(b"old"), 5, 1000), (cell(b"new"), 5, 2000))


def test_other_tags_are_another_content() -> None:
    refused((cell(b"v"), 900, 1000), (cell(b"v", encode_tags([(70, b"x")])), 5, 2000))


def test_a_contradiction_is_found_behind_a_cell_that_is_none() -> None:
    """The second has the first one's content, and the third was written before the second."""
    refused((cell(b"x"), 3, 1000), (cell(b"x"), 2, 3000), (cell(b"y"), 1, 2000))
    refused((cell(b"x", SHORT), 3, 1000), (cell(b"x", SHORT), 2, 3000), (cell(b"y"), 1, 2000))


def test_a_contradiction_with_a_cell_that_expires_is_found_behind_the_next_one() -> None:
    """The third has the second one's content. If it was the last of all, its value counts before the first one expires."""
    refused((cell(b"x", SHORT), 3, 2000), (cell(b"y"), 2, 1000), (cell(b"y"), 1, 3000))
    refused((cell(b"x", SHORT), 3, 2000), (cell(b"y", SHORT), 2, 1000), (cell(b"y", SHORT), 1, 3000))


def test_the_same_content_may_have_any_order() -> None:
    runs = [encoded([(cell(b"v"), number, time)]) for number, time in ((900, 1000), (5, 2000), (5, 3000))]
    assert merged(held(*runs)) == [cell(b"v")]


def test_what_is_hidden_in_any_case_may_have_any_order() -> None:
    runs = [encoded([(cell(value), number, time)]) for value, number, time in ((b"a", 3, 9), (b"b", 2, 1), (b"c", 1, 2))]
    assert merged(held(*runs)) == [cell(b"a")]


def test_edits_that_were_written_at_the_same_time_have_the_order_of_their_sequence_ids() -> None:
    assert merged(held(encoded([(cell(b"new"), 6, 1000), (cell(b"old"), 5, 1000)]))) == [cell(b"new")]


def test_other_keys_are_not_compared() -> None:
    others = [cell(b"v", qualifier=b"q"), cell(b"w", qualifier=b"qq"), cell(b"x", row=b"s")]
    assert merged(held(encoded([(each, 9 - i, 1000 + i) for i, each in enumerate(others)]))) == others


def test_a_table_that_began_anew_within_what_is_sorted_at_once_is_refused() -> None:
    numbers = [(8, 1000), (9, 1001), (4, 5000)]
    entries = [global_entry([cell(b"%d" % i)], number, b"t", time) for i, (number, time) in enumerate(numbers)]
    (run,) = runs_of([edits_of(*entries)], {b"t": TargetTable((b"f",), (b"",))})
    with pytest.raises(OrderUnknown, match="sequence id 4 written at 5000 ms and sequence id 9 written at 1001 ms"):
        merged([MemoryFile(run.data.data)])


def test_the_error_names_the_column_and_both_edits_whatever_is_in_them() -> None:
    old, new = (cell(value, row=b"r\n<b>\xff" * 5_000, qualifier=b"q" * 50_000) for value in (b"a", b"b"))
    with pytest.raises(OrderUnknown) as raised:
        merged(held(encoded([(old, 8, 1), (new, 7, 2)])))
    message = str(raised.value)
    assert message.startswith(r"row r\x0A<b>\xFFr\x0A")
    assert "…, column f:qqqq" in message
    assert ": sequence id 7 written at 2 ms and sequence id 8 written at 1 ms. The table was dropped" in message
    assert message.isprintable()
    assert len(message) < 1500
    assert not raised.value.retry_helps
    assert "by RPC" in raised.value.advice
    assert str(pickle.loads(pickle.dumps(raised.value))) == message


def test_a_contradiction_is_refused_at_the_end_of_a_chunk() -> None:
    old, new = (cell(b"old"), 9, 1), (cell(b"new"), 8, 2)
    with pytest.raises(OrderUnknown):
        merged(held(encoded([old]), encoded([new])), chunk_bytes=len(stored(old[0])))
