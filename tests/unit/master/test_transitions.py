"""The table of legitimate transitions."""

from __future__ import annotations

from walferry.master.states import OF_SPLITS, Actor, RegionState
from walferry.master.transitions import Transition


def test_each_row_has_another_meaning() -> None:
    """Members of an enum with equal values would be one member with two names."""
    assert len(list(Transition)) == len(Transition.__members__)


def test_a_server_makes_the_transitions_of_the_notes_and_those_of_1_7_only() -> None:
    servers = {(state, t.rule.after) for t in Transition for state in t.rule.before if t.rule.actor is Actor.REGIONSERVER}
    assert servers == {
        (RegionState.CLOSING, RegionState.CLOSED),
        (RegionState.OFFLINE, RegionState.OPENING),
        (RegionState.OPENING, RegionState.OPENING),
        (RegionState.OPENING, RegionState.OPENED),
        (RegionState.OFFLINE, RegionState.FAILED_OPEN),
        (RegionState.OPENING, RegionState.FAILED_OPEN),
    }


def test_an_operator_beside_an_hmaster_can_only_give_up_an_open() -> None:
    rules = [t.rule for t in Transition if t.rule.actor is Actor.OPERATOR]
    assert [(rule.before, rule.after, rule.keeps_server) for rule in rules] == [
        ({RegionState.OPENING}, RegionState.FAILED_OPEN, True)
    ]


def test_the_master_never_forces_a_split_or_a_merge() -> None:
    assert not Transition.FORCE_OFFLINE.rule.before & OF_SPLITS
