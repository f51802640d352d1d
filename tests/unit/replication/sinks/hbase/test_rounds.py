"""Which parts of a shipment are sent at once, and which count as done."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import Cell, Entry
from tests.unit.replication.filters.test_entry_filter import entry, put
from tests.unit.replication.sinks.hbase.edits import OTHERS, parts, shipment_of
from tests.unit.replication.sinks.hbase.multi_messages import MultiRequest
from walferry.hbase.names import ServerName
from walferry.hbase.tables.regions import Region
from walferry.replication.sinks.hbase.actions import ActionRow, Actions, find_actions
from walferry.replication.sinks.hbase.locations import NOWHERE, RegionMap
from walferry.replication.sinks.hbase.multi import ActionOutcome, MultiResult, RegionActions, assemble_multi
from walferry.replication.sinks.hbase.rounds import (
    Call,
    Most,
    Places,
    by_cluster_ids,
    calls_of_round,
    done_in,
    how_many_fit,
    side_by_side,
)

MOST = Most(5000, 1 << 20)
ONE, TWO = ServerName("one", 1, 1), ServerName("two", 2, 2)


def rows(*keys: bytes, table: bytes = b"t", ids: tuple = ()) -> Entry:
    return entry(*(put(row=key) for key in keys), table=table, ids=ids)


def actions_of(*entries: Entry) -> Actions:
    return find_actions(shipment_of(entries))


def table_map(table: bytes, *regions: tuple[bytes, bytes, ServerName | None]) -> RegionMap:
    return RegionMap.of(table, [Region(table + b"," + start, start, end, server) for start, end, server in regions])


def everything(actions: Actions) -> np.ndarray:
    return np.arange(len(actions))


def sent(call: Call, actions: Actions) -> dict[bytes, list[bytes]]:
    """The rows that a call sends to each region, in order. Regions that are named twice are told apart."""
    multi = assemble_multi(actions, call.groups)
    request = MultiRequest.FromString(multi.param.tobytes())
    groups = np.split(multi.order, multi.firsts[1:-1])
    found: dict[bytes, list[bytes]] = {}
    for group, named in zip(groups, request.regionAction, strict=True):
        found.setdefault(named.region.value, []).extend(actions.key(i) for i in group.tolist())
    return found


def test_each_server_gets_the_rows_of_its_regions_in_order():
    actions = actions_of(rows(b"a", b"m", b"z"), rows(b"c", b"a"), rows(b"q", table=b"u"))
    maps = [table_map(b"t", (b"", b"b", ONE), (b"b", b"n", TWO), (b"n", b"", ONE)), table_map(b"u", (b"", b"", TWO))]
    places = Places.of(actions, everything(actions), maps)
    calls = calls_of_round(actions, everything(actions), places, MOST)
    assert [call.server for call in calls] == [ONE, TWO]
    assert sent(calls[0], actions) == {b"t,": [b"a", b"a"], b"t,n": [b"z"]}
    assert sent(calls[1], actions) == {b"t,b": [b"c", b"m"], b"u,": [b"q"]}


def test_actions_whose_region_nobody_has_are_left_out_and_named():
    actions = actions_of(rows(b"a", b"m", b"z"))
    places = Places.of(actions, everything(actions), [table_map(b"t", (b"", b"b", None), (b"n", b"", ONE))])
    assert places.homeless().tolist() == [True, True, False]
    assert places.region.tolist() == [0, NOWHERE, 1]
    (call,) = calls_of_round(actions, everything(actions), places, MOST)
    assert sent(call, actions) == {b"t,n": [b"z"]}


def test_a_request_has_at_most_as_many_actions_and_bytes_as_are_good_for_the_peer_cluster():
    actions = actions_of(*(rows(b"%02d" % i) for i in range(10)))
    assert how_many_fit(actions, everything(actions), Most(4, 1 << 20)) == 4
    size = int(actions.of(ActionRow.END)[0]) + len(actions.cluster_ids[0])
    assert how_many_fit(actions, everything(actions), Most(5000, 3 * size)) == 3
    assert how_many_fit(actions, everything(actions), Most(5000, 3 * size - 1)) == 2
    assert how_many_fit(actions, everything(actions), Most(5000, 1)) == 1
    assert how_many_fit(actions, np.array([9]), Most(5000, 1)) == 1


def test_the_cluster_ids_count_with_each_action():
    few = actions_of(*(rows(b"%02d" % i) for i in range(10)))
    many = actions_of(*(rows(b"%02d" % i, ids=tuple(UUID(int=n) for n in range(1, 20))) for i in range(10)))
    most = Most(5000, 500)
    assert (how_many_fit(few, everything(few), most), how_many_fit(many, everything(many), most)) == (9, 1)


def changing(key: bytes, count: int) -> list[Cell]:
    """Cells of a row that make as many mutations."""
    return [Cell(key, b"f", b"q", 1, 4 if i % 2 else 8, b"") for i in range(count)]


@pytest.mark.parametrize(("limit", "fit"), [(1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 6), (7, 7), (8, 8)])
def test_a_row_of_an_entry_is_never_cut(limit, fit):
    actions = actions_of(entry(*changing(b"a", 2), *changing(b"b", 4), *changing(b"c", 1)), entry(*changing(b"c", 1)))
    assert how_many_fit(actions, everything(actions), Most(limit, 1 << 20)) == fit


def test_a_row_that_is_larger_than_a_request_goes_alone():
    actions = actions_of(entry(*changing(b"a", 5), *changing(b"b", 1)))
    assert how_many_fit(actions, everything(actions), Most(2, 1 << 20)) == 5


def test_what_is_left_of_a_row_is_not_taken_for_a_part_of_the_next_one():
    actions = actions_of(entry(*changing(b"a", 2), *changing(b"b", 2), *changing(b"c", 2)))
    assert how_many_fit(actions, np.array([1, 3, 4, 5]), Most(2, 1 << 20)) == 2


def in_rounds(actions: Actions, most: Most) -> list[list[np.ndarray]]:
    """The parts of each round, until nothing is left."""
    left, found = everything(actions), []
    while left.size:
        found.append(list(side_by_side(actions, left, most)))
        left = np.setdiff1d(left, np.concatenate(found[-1]))
    return found


def test_what_fits_into_one_request_is_not_divided():
    actions = actions_of(rows(*(b"%02d" % i for i in range(50))))
    (part,) = side_by_side(actions, everything(actions), Most(50, 1 << 20))
    assert part.tolist() == list(range(50))


def test_many_rows_go_side_by_side_in_about_as_many_requests_as_they_need():
    actions = actions_of(rows(*(b"%04d" % i for i in range(9999))))
    (parts, *later) = in_rounds(actions, Most(1000, 1 << 20))
    assert len(parts) == 12
    assert not later
    size = int(actions.of(ActionRow.END)[-1]) + len(actions) * len(actions.cluster_ids[0])
    assert [len(parts) for parts in in_rounds(actions, Most(10_000, size // 3))] == [4]


def test_a_row_that_is_written_again_and_again_goes_in_order_and_lets_others_pass():
    actions = actions_of(*(rows(b"hot", b"%03d" % i) for i in range(500)))
    hot = [i for i in range(len(actions)) if actions.key(i) == b"hot"]
    rounds = in_rounds(actions, Most(100, 1 << 20))
    assert [i for parts in rounds for part in parts for i in part.tolist() if i in set(hot)] == hot
    assert 5 <= len(rounds) <= 7


@given(parts, st.integers(1, 6), st.integers(1, 300), st.data())
def test_no_row_is_in_two_requests_of_a_round_and_each_row_is_sent_in_order(edits, most_actions, most_bytes, data):
    actions, most = find_actions(shipment_of(*edits)), Most(most_actions, most_bytes)
    some = np.array(sorted(data.draw(st.sets(st.integers(0, len(actions) - 1), min_size=1))))
    left_of: dict[tuple[int, bytes], list[int]] = {}
    tables = actions.of(ActionRow.TABLE)
    for i in some.tolist():
        left_of.setdefault((int(tables[i]), actions.key(i)), []).append(i)
    seen: set[tuple[int, bytes]] = set()
    found = list(side_by_side(actions, some, most))
    assert sum(part.size for part in found) > 0
    for part in found:
        assert (np.diff(part) > 0).all()
        assert how_many_fit(actions, part, most) == part.size
        row_of = [(int(tables[i]), actions.key(i)) for i in part.tolist()]
        assert not seen & set(row_of)
        seen |= set(row_of)
        for row in set(row_of):
            mine = [i for i, at in zip(part.tolist(), row_of, strict=True) if at == row]
            assert mine == left_of[row][: len(mine)]


@given(parts, st.integers(1, 6), st.integers(1, 300))
def test_rounds_come_to_an_end_and_send_each_action_once(edits, most_actions, most_bytes):
    actions = find_actions(shipment_of(*edits))
    rounds = in_rounds(actions, Most(most_actions, most_bytes))
    assert sorted(i for round_ in rounds for part in round_ for i in part.tolist()) == list(range(len(actions)))


def test_actions_with_different_cluster_ids_are_in_groups_of_their_own():
    one, other = (OTHERS[1],), (OTHERS[2],)
    actions = actions_of(rows(b"a", ids=one), rows(b"b", ids=other), rows(b"c", ids=one), rows(b"d", ids=other))
    groups = [group.tolist() for group in by_cluster_ids(actions, everything(actions))]
    assert groups == [[0, 2], [1, 3]]


def test_a_row_with_different_cluster_ids_keeps_its_order():
    one, other = (OTHERS[1],), (OTHERS[2],)
    actions = actions_of(rows(b"a", b"b", ids=one), rows(b"b", ids=other), rows(b"c", ids=one), rows(b"d", ids=other))
    groups = [group.tolist() for group in by_cluster_ids(actions, everything(actions))]
    assert groups == [[0, 1], [2], [3], [4]]


def done(actions: Actions, *groups: tuple[list[int], list[int]]) -> list[int]:
    """What is done if, of the actions of each group, those at these places have failed."""
    multi = assemble_multi(actions, [RegionActions(b"r", np.array(some)) for some, _ in groups])
    outcome = np.full(multi.order.size, ActionOutcome.DONE, np.int8)
    for first, (_, failed) in zip(multi.firsts.tolist(), groups, strict=False):
        outcome[[first + place for place in failed]] = ActionOutcome.FAILED
    return sorted(done_in(actions, multi, MultiResult(outcome, ())).tolist())


def test_what_was_carried_out_is_done():
    actions = actions_of(rows(b"a", b"b", b"c"))
    assert done(actions, ([0, 1, 2], [])) == [0, 1, 2]
    assert done(actions, ([0, 1, 2], [1])) == [0, 2]


def test_what_comes_after_a_failure_in_the_same_row_is_sent_again_behind_it():
    actions = actions_of(*(rows(key) for key in (b"a", b"b", b"a", b"b", b"a")))
    assert done(actions, ([0, 1, 2, 3, 4], [2])) == [0, 1, 3]
    assert done(actions, ([0, 1, 2, 3, 4], [0, 1])) == []
    assert done(actions, ([0, 1, 2, 3, 4], [4])) == [0, 1, 2, 3]


def test_that_holds_over_the_groups_of_a_region_too():
    actions = actions_of(*(rows(key) for key in (b"a", b"b", b"a", b"b")))
    assert done(actions, ([0, 1], [0, 1]), ([2, 3], [])) == []
    assert done(actions, ([0, 1], [1]), ([2, 3], [])) == [0, 2]
