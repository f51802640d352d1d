"""Requests to several regions: their bytes as HBase's own messages, and what their results say of each action."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.replication.filters.test_entry_filter import entry, put
from tests.unit.replication.sinks.hbase.edits import ids_attribute, mutations_of, parts, shipment_of
from tests.unit.replication.sinks.hbase.multi_messages import MultiRequest, MultiResponse
from walferry.hbase.rpc.codec import CodecError
from walferry.replication.sinks.hbase.actions import Actions, find_actions
from walferry.replication.sinks.hbase.multi import (
    MAX_EXCEPTION_BYTES,
    MAX_EXCEPTIONS,
    ActionOutcome,
    Multi,
    RegionActions,
    assemble_multi,
    read_result,
)

REGION = b"t,,1700000000000.0123456789abcdef0123456789abcdef."


def groups_of(actions: Actions, chance: random.Random) -> list[RegionActions]:
    """Some of the actions, in arbitrary groups."""
    chosen = chance.sample(range(len(actions)), chance.randint(1, len(actions)))
    cuts = sorted(chance.sample(range(1, len(chosen)), chance.randint(0, len(chosen) - 1)))
    return [
        RegionActions(b"region %d" % i * chance.choice([1, 40]), np.array(chosen[first:end]))
        for i, (first, end) in enumerate(zip([0, *cuts], [*cuts, len(chosen)], strict=True))
    ]


@pytest.mark.long
@settings(max_examples=2 * settings().max_examples)
@given(parts, st.integers(0, 1 << 32))
def test_a_request_has_each_group_s_actions_in_order_and_the_cells_in_the_same_order(edits, seed):
    actions = find_actions(shipment_of(*edits))
    mutations = [m for entries in edits for m in mutations_of(entries)]
    groups = groups_of(actions, random.Random(seed))
    multi = assemble_multi(actions, groups)
    request = MultiRequest.FromString(multi.param.tobytes())
    assert [action.region.value for action in request.regionAction] == [group.region for group in groups]
    assert {(action.region.type, action.atomic) for action in request.regionAction} == {(1, False)}
    for sent, group in zip(request.regionAction, groups, strict=True):
        of_group = [mutations[i] for i in group.actions]
        assert [action.index for action in sent.action] == list(range(len(of_group)))
        assert [action.mutation.mutate_type for action in sent.action] == [m.kind for m in of_group]
        assert [action.mutation.associated_cell_count for action in sent.action] == [len(m.cells) for m in of_group]
        assert not any(action.mutation.HasField("row") for action in sent.action)
        attributes = [[(a.name, a.value) for a in action.mutation.attribute] for action in sent.action]
        assert attributes == [[("_cs.id", ids_attribute(m.ids))] for m in of_group]
    in_order = [mutations[i] for group in groups for i in group.actions]
    assert multi.cells.tobytes() == b"".join(cell.encode() for m in in_order for cell in m.cells)


def a_multi(*sizes: int) -> Multi:
    """A request with groups of these sizes."""
    actions = find_actions(shipment_of([entry(*(put(row=b"%05d" % i) for i in range(sum(sizes))))]))
    ends = np.cumsum([0, *sizes])
    return assemble_multi(actions, [RegionActions(REGION, np.arange(a, b)) for a, b in pairwise(ends)])


def test_indices_of_any_length_are_written():
    request = MultiRequest.FromString(a_multi(300).param.tobytes())
    assert [action.index for action in request.regionAction[0].action] == list(range(300))


def response(*regions: object) -> bytes:
    """A region is an exception's text, or a list of results: True, an exception's text, or None for nothing at all."""
    message = MultiResponse()
    for region in regions:
        result = message.regionActionResult.add()
        if isinstance(region, str):
            result.exception.name, result.exception.value = "E", region.encode()
            continue
        for index, each in enumerate(region):  # type: ignore[arg-type,var-annotated]
            if each is None:
                continue
            roe = result.resultOrException.add(index=index)
            if each is True:
                roe.result.SetInParent()
            else:
                roe.exception.name, roe.exception.value = "E", each.encode()
    return message.SerializeToString()


def test_each_action_has_a_result_of_its_own_and_a_region_s_exception_is_that_of_all_its_actions():
    multi = a_multi(3, 2, 2)
    result = read_result(multi, response([True, "busy", None], "moved", [True, True]))
    done, failed, nothing = ActionOutcome.DONE, ActionOutcome.FAILED, ActionOutcome.NOTHING
    assert result.outcome.tolist() == [done, failed, nothing, failed, failed, done, done]
    assert [text.rpartition(b"E\x12")[2][1:] for text in result.exceptions] == [b"busy", b"moved"]


def test_of_a_large_response_only_the_beginnings_of_a_few_exceptions_are_kept():
    texts = [f"{i:05d}" + "x" * 40_000 for i in range(MAX_EXCEPTIONS + 50)]
    large = response(texts, "y" * 5_000_000)
    result = read_result(a_multi(len(texts), 5000), large)
    assert len(result.exceptions) == MAX_EXCEPTIONS
    assert {len(text) for text in result.exceptions} == {MAX_EXCEPTION_BYTES}
    assert (result.outcome == ActionOutcome.FAILED).all()


def test_each_exception_is_kept_once_however_many_actions_it_is_that_of():
    result = read_result(a_multi(5, 3), response(["busy", "busy", "moved", "busy", True], "y" * 5_000_000))
    assert [text[3 + text.index(b"E\x12") :][:7] for text in result.exceptions] == [b"busy", b"moved", b"\x96\xb1\x02yyyy"]


def test_nothing_of_the_response_is_kept_when_all_went_well():
    assert read_result(a_multi(2), response([True, True])).exceptions == ()


def test_results_may_come_in_any_order():
    message = MultiResponse()
    result = message.regionActionResult.add()
    for index in (2, 0, 1):
        roe = result.resultOrException.add(index=index)
        if index == 1:
            roe.exception.name = "E"
        else:
            roe.result.SetInParent()
    outcome = read_result(a_multi(3), message.SerializeToString()).outcome.tolist()
    assert outcome == [ActionOutcome.DONE, ActionOutcome.FAILED, ActionOutcome.DONE]


def test_an_action_is_not_done_if_it_has_neither_a_result_nor_an_exception_or_both():
    message = MultiResponse()
    results = message.regionActionResult.add().resultOrException
    results.add(index=0)
    both = results.add(index=1)
    both.result.SetInParent()
    both.exception.name = "E"
    twice = results.add(index=2)
    twice.exception.name = "E"
    results.add(index=2).result.SetInParent()
    outcome = read_result(a_multi(3), message.SerializeToString()).outcome.tolist()
    assert outcome == [ActionOutcome.NOTHING, ActionOutcome.FAILED, ActionOutcome.FAILED]


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        response([True]),
        response([True], [True], [True]),
        response([True, True], [True]),
        b"\x0a\x05",
        response([True], [True])[:-1],
        b"\x0a\x04\x0a\x02\x08\xff",
        b"\xff" * 20,
    ],
    ids=["empty", "too few", "too many", "index over the end", "cut", "cut in a result", "cut in an index", "no field"],
)
def test_a_result_that_does_not_fit_the_request_is_an_error_that_says_where(broken):
    with pytest.raises(CodecError, match=r"the result of a Multi of 2 regions cannot be read at its byte \d+"):
        read_result(a_multi(1, 1), broken)


@settings(max_examples=3 * settings().max_examples)
@given(st.binary(max_size=60) | st.just(response([True, "x"], "y")), st.integers(0, 60), st.integers(0, 255))
def test_no_bytes_of_a_server_make_reading_a_result_leave_its_bounds(data, at, byte):
    data = data[:at] + bytes([byte]) + data[at + 1 :]
    try:
        result = read_result(a_multi(2, 1), data)
    except CodecError:
        return
    assert all(text in data for text in result.exceptions)
    assert bool(result.exceptions) == bool((result.outcome == ActionOutcome.FAILED).any())
