"""A change of a region's znode is written only if the table of transitions has it, and as that says."""

from __future__ import annotations

import itertools
from unittest.mock import Mock, call

import pytest

from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.master.errors import IllegitimateTransition
from walferry.master.states import Actor, RegionState
from walferry.master.transitions import Transition
from walferry.master.writes import Change, _add, _after, _value
from walferry.master.znodes import RegionInTransition

NAME = b"t,,1700000000000.0123456789abcdef0123456789abcdef."
ONE, OTHER = ServerName("rs1", 16020, 1), ServerName("rs2", 16020, 2)


def new_value(change: Change, actor: Actor) -> bytes | None:
    """The znode's value after the change; None if it is deleted."""
    return _value(_after(change, actor))


@pytest.mark.parametrize("transition", Transition)
def test_a_change_is_encoded_only_if_the_table_has_it(transition: Transition) -> None:
    for before, actor in itertools.product([None, *RegionState], Actor):
        check_change(transition, before, actor)


def check_change(transition: Transition, before: RegionState | None, actor: Actor) -> None:
    seen = None if before is None else RegionInTransition(NAME, before, ONE, 0, 0, False, b"")
    rule = transition.rule
    legitimate = rule.actor is actor and (before in rule.before if before is not None else not rule.before)
    change = Change(transition, NAME, seen, OTHER)
    if not legitimate:
        with pytest.raises(IllegitimateTransition, match=transition.name):
            new_value(change, actor)
    elif rule.after is None:
        assert new_value(change, actor) is None
    else:
        value = new_value(change, actor)
        assert value is not None
        assert (b"rs1" in value) == rule.keeps_server


@pytest.mark.parametrize("transition", [Transition.ALLOW_SPLIT, Transition.ALLOW_MERGE])
def test_the_answer_to_a_split_or_merge_keeps_the_regions_that_the_server_named(transition: Transition) -> None:
    """The server compares them with its own, and gives up the split if they are missing."""
    (before,) = transition.rule.before
    seen = RegionInTransition(NAME, before, ONE, 0, 0, True, b"the daughters")
    value = new_value(Change(transition, NAME, seen), Actor.MASTER)
    assert value is not None
    assert b"the daughters" in value


def test_a_change_of_another_region_s_znode_is_refused() -> None:
    seen = RegionInTransition(b"t,x,1.fedcba9876543210fedcba9876543210.", RegionState.OPENED, ONE, 0, 0, False, b"")
    with pytest.raises(IllegitimateTransition, match="another region"):
        new_value(Change(Transition.DELETE_OPENED, NAME, seen), Actor.MASTER)


def test_a_transition_that_chooses_a_server_needs_one() -> None:
    with pytest.raises(IllegitimateTransition, match="needs a server"):
        new_value(Change(Transition.CREATE_OFFLINE, NAME, None), Actor.MASTER)


@pytest.mark.parametrize("value", [None, b"value"])
def test_a_znode_is_changed_or_deleted_only_at_the_version_that_was_seen(value: bytes | None) -> None:
    seen = RegionInTransition(NAME, RegionState.OPENED, ONE, 7, 0, False, b"")
    multi, nodes = Mock(), ZNodes("/hbase")
    _add(multi, nodes, Change(Transition.DELETE_OPENED, NAME, seen, OTHER), value)
    path = nodes.region_in_transition("0123456789abcdef0123456789abcdef")
    expected = call.delete(path, 7) if value is None else call.set_data(path, value, 7)
    assert multi.mock_calls == [expected]
