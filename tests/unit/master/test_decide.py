"""The master's next step for a region: the five states with each server dead, as in the Master Rewrite Notes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from walferry.hbase.names import ServerName
from walferry.hbase.tables.regions import META_REGION
from walferry.master.decide import MAX_FAILURES, Decision, Region, Servers, Step, decide
from walferry.master.plans import Plan
from walferry.master.states import OF_SPLITS, RegionState
from walferry.master.znodes import RegionInTransition

NAME = b"t,,1700000000000.0123456789abcdef0123456789abcdef."
LIVE, OTHER, DEAD = (ServerName(f"rs{i}", 16020, i) for i in range(3))
LIMIT = 600.0
SOON, LATE = 1.0, LIMIT + 1


def znode(state: RegionState, server: ServerName) -> RegionInTransition:
    return RegionInTransition(NAME, state, server, 3, 0, state in OF_SPLITS, b"")


def decided(
    state: RegionState | None,
    server: ServerName = LIVE,
    *,
    served_by: ServerName | None = None,
    plan: Plan | None = None,
    recovering: bool = False,
    idle: float = SOON,
    wanted: bool = True,
    listed: bool = True,
    last: ServerName | None = None,
) -> Decision:
    served = frozenset() if served_by is None else frozenset({served_by})
    node = None if state is None else znode(state, server)
    servers = Servers(frozenset({LIVE, OTHER}), frozenset({DEAD}) if recovering else frozenset())
    return decide(Region(NAME, node, plan, served, listed, last, idle, wanted), servers, LIMIT)


TO_OTHER, TO_DEAD = Plan(OTHER, True, "balance"), Plan(DEAD, True, "balance")
STAY_CLOSED = Plan(None, False, "disable")


def test_an_offline_region_is_opened_by_the_live_server_that_its_znode_names() -> None:
    assert (decided(RegionState.OFFLINE).step, decided(RegionState.OFFLINE).server) == (Step.ASK_TO_OPEN, LIVE)


@pytest.mark.parametrize("state", [None, RegionState.OFFLINE, RegionState.OPENING, RegionState.CLOSED, RegionState.FAILED_OPEN])
@pytest.mark.parametrize("last", [OTHER, ServerName("rs9", 16020, 9)])
def test_hbase_meta_waits_for_its_wals_whatever_server_zookeeper_names_for_it(
    state: RegionState | None, last: ServerName
) -> None:
    """ZooKeeper may have been restored from an old copy, and nothing else says which server had hbase:meta last."""
    gone = ServerName("rs8", 16020, 8)
    node = None if state is None else replace(znode(state, LIVE if state is RegionState.OFFLINE else gone), name=META_REGION)
    for with_meta_wals, waits in ((frozenset({DEAD}), True), (frozenset[ServerName](), False)):
        servers = Servers(frozenset({LIVE, OTHER}), frozenset({DEAD}), with_meta_wals=with_meta_wals)
        decision = decide(Region(META_REGION, node, None, frozenset(), True, last, SOON, True), servers, LIMIT)
        assert (decision.step is Step.WAIT, decision.server == DEAD) == (waits, waits)


def test_an_offline_region_that_its_live_server_does_not_begin_to_open_within_the_limit_goes_elsewhere() -> None:
    decision = decided(RegionState.OFFLINE, LIVE, idle=LATE, plan=Plan(LIVE, True, "balance"))
    assert (decision.step, decision.server, decision.avoid) == (Step.REASSIGN, None, LIVE)
    assert decided(RegionState.OFFLINE, LIVE, idle=LATE, last=DEAD, recovering=True).step is Step.WAIT
    alone = Servers(frozenset({LIVE}), frozenset())
    region = Region(NAME, znode(RegionState.OFFLINE, LIVE), None, frozenset(), True, None, LATE, True)
    assert decide(region, alone, LIMIT).step is Step.ASK_TO_OPEN
    at_work = Servers(frozenset({LIVE, OTHER}), frozenset(), opening=frozenset({LIVE}))
    assert decide(region, at_work, LIMIT).step is Step.ASK_TO_OPEN  # it works through a long queue


def test_an_offline_region_that_its_server_serves_was_opened_since_its_znode_was_read() -> None:
    assert decided(RegionState.OFFLINE, served_by=LIVE).step is Step.WAIT
    assert decided(RegionState.OFFLINE, served_by=LIVE, idle=LATE).step is Step.REPORT
    assert decided(RegionState.OFFLINE, served_by=OTHER).step is Step.REPORT


def test_an_offline_region_whose_server_is_dead_gets_another_one_at_once() -> None:
    assert decided(RegionState.OFFLINE, DEAD, recovering=True, last=LIVE).step is Step.REASSIGN
    assert decided(RegionState.OFFLINE, DEAD, plan=TO_DEAD).server is None


@pytest.mark.parametrize("server", [LIVE, OTHER])
@pytest.mark.parametrize("last", [DEAD, None])
@pytest.mark.parametrize(
    "state", [RegionState.OFFLINE, RegionState.OPENING, RegionState.OPENED, RegionState.FAILED_OPEN, RegionState.CLOSED]
)
def test_no_state_of_a_znode_hides_that_the_wals_of_the_last_server_are_not_split(
    state: RegionState, last: ServerName | None, server: ServerName
) -> None:
    """HBase's own master may die after it has named another server for hbase:meta, and before it has any WAL split."""
    assert decided(state, server, last=last, recovering=True, idle=LATE).step is Step.WAIT
    assert decided(state, server, last=last, idle=LATE).step in (Step.ASK_TO_OPEN, Step.REASSIGN)


@pytest.mark.parametrize("state", [RegionState.OPENING, RegionState.OPENED])
def test_a_region_that_a_dead_server_opened_waits_for_its_wals_and_then_goes_elsewhere(state: RegionState) -> None:
    assert decided(state, DEAD, recovering=True).step is Step.WAIT
    assert decided(state, DEAD).step is Step.REASSIGN
    assert decided(state, DEAD, plan=TO_DEAD).server is None


def test_a_region_that_a_live_server_opens_is_left_to_it_whoever_had_it_before() -> None:
    """The dead server was the source: the notes say "ignore"."""
    assert decided(RegionState.OPENING, LIVE, last=DEAD, recovering=True).step is Step.WAIT


def test_a_live_server_that_does_not_open_a_region_within_the_limit_loses_it() -> None:
    decision = decided(RegionState.OPENING, LIVE, idle=LATE)
    assert (decision.step, decision.avoid) == (Step.REASSIGN, LIVE)


def test_an_opened_region_is_acknowledged_when_its_server_says_that_it_serves_it() -> None:
    assert decided(RegionState.OPENED, LIVE, served_by=LIVE).step is Step.ACKNOWLEDGE
    assert decided(RegionState.OPENED, LIVE).step is Step.WAIT
    assert decided(RegionState.OPENED, LIVE, idle=LATE).step is Step.REASSIGN


def test_a_closing_region_whose_source_is_dead_is_opened_at_the_destination_once_its_wals_are_split() -> None:
    assert decided(RegionState.CLOSING, DEAD, plan=TO_OTHER, recovering=True).step is Step.WAIT
    decision = decided(RegionState.CLOSING, DEAD, plan=TO_OTHER)
    assert (decision.step, decision.server) == (Step.REASSIGN, OTHER)
    assert decided(RegionState.CLOSING, DEAD).step is Step.REASSIGN


def test_a_closing_region_whose_destination_is_dead_is_closed_by_its_source_first() -> None:
    assert decided(RegionState.CLOSING, LIVE, plan=TO_DEAD, served_by=LIVE).step is Step.ASK_TO_CLOSE
    assert decided(RegionState.CLOSING, LIVE, plan=TO_DEAD).step is Step.WAIT
    decision = decided(RegionState.CLOSED, LIVE, plan=TO_DEAD)
    assert (decision.step, decision.server) == (Step.REASSIGN, None)


def test_a_closed_region_goes_to_the_destination_of_its_plan() -> None:
    decision = decided(RegionState.CLOSED, LIVE, plan=TO_OTHER)
    assert (decision.step, decision.server) == (Step.REASSIGN, OTHER)


@pytest.mark.parametrize("state", [RegionState.CLOSED, RegionState.CLOSING])
def test_a_region_of_a_table_that_is_being_disabled_is_not_opened_again(state: RegionState) -> None:
    assert decided(state, DEAD, plan=STAY_CLOSED).step is Step.FORGET
    assert decided(state, DEAD, wanted=False).step is Step.FORGET


def test_a_failed_open_goes_to_another_server_until_too_many_have_failed() -> None:
    decision = decided(RegionState.FAILED_OPEN, LIVE, plan=Plan(LIVE, True, "startup"))
    assert (decision.step, decision.server, decision.avoid) == (Step.REASSIGN, None, LIVE)
    assert decided(RegionState.FAILED_OPEN, LIVE, plan=Plan(LIVE, True, "startup", MAX_FAILURES)).step is Step.REPORT


def test_a_region_without_a_znode_is_opened_if_nobody_serves_it_and_its_table_is_enabled() -> None:
    assert decided(None, last=LIVE).step is Step.CREATE
    assert decided(None, last=LIVE, served_by=OTHER).step is Step.WAIT
    assert decided(None, last=LIVE, wanted=False).step is Step.WAIT
    assert decided(None, last=DEAD, recovering=True).step is Step.WAIT


def test_splits_and_merges_are_allowed_and_ended_but_not_interrupted() -> None:
    assert {state: decided(state, LIVE, listed=False).step for state in OF_SPLITS} == {
        RegionState.REQUEST_SPLIT: Step.ALLOW,
        RegionState.REQUEST_MERGE: Step.ALLOW,
        RegionState.SPLITTING: Step.WAIT,
        RegionState.MERGING: Step.WAIT,
        RegionState.SPLIT: Step.END_SPLIT,
        RegionState.MERGED: Step.END_SPLIT,
    }
    assert {decided(state, DEAD).step for state in OF_SPLITS - {RegionState.SPLITTING, RegionState.MERGING}} == {Step.WAIT}


def test_no_region_is_ever_opened_while_a_server_serves_it_or_its_wals_are_not_split() -> None:
    known = {
        "served_by": [None, LIVE, OTHER],
        "plan": [None, TO_OTHER, TO_DEAD, STAY_CLOSED],
        "recovering": [True, False],
        "idle": [SOON, LATE],
        "wanted": [True, False],
        "listed": [True, False],
    }
    for state, server, *values in itertools.product([None, *RegionState], [LIVE, DEAD], *known.values()):
        facts = dict(zip(known, values, strict=True))
        decision = decided(state, server, last=server, **facts)  # type: ignore[arg-type]
        what = (state, server, facts, decision)
        if decision.step in (Step.CREATE, Step.REASSIGN, Step.ASK_TO_OPEN):
            assert facts["served_by"] is None, what
            assert facts["listed"] or state is None, what
            assert not (facts["recovering"] and server is DEAD), what
        if decision.step in (Step.CREATE, Step.REASSIGN):
            assert decision.server is not DEAD, what
            assert decision.server is None or decision.server is not decision.avoid, what


def test_a_region_that_two_servers_serve_is_left_to_people() -> None:
    servers = Servers(frozenset({LIVE, OTHER}), frozenset())
    for state in [None, *RegionState]:
        node = None if state is None else znode(state, LIVE)
        region = Region(NAME, node, None, frozenset({LIVE, OTHER}), True, LIVE, LATE, True)
        assert decide(region, servers, LIMIT).step is Step.REPORT


def test_a_region_whose_last_server_is_unknown_waits_for_the_wals_of_all_dead_servers() -> None:
    """hbase:meta after ZooKeeper has lost its data: nothing says which server's WALs have its edits."""
    assert decided(None, recovering=True).step is Step.WAIT
    assert decided(None).step is Step.CREATE


def test_a_region_whose_last_server_splits_or_merges_one_is_left_to_it() -> None:
    """The daughters of a split, and the regions that are merged, have no znode of their own."""
    region = Region(NAME, None, None, frozenset(), True, LIVE, 0.0, True)
    busy = Servers(frozenset({LIVE, OTHER}), frozenset(), splitting=frozenset({LIVE}))
    assert decide(region, busy, LIMIT).step is Step.WAIT
    assert decide(region, Servers(busy.live, frozenset()), LIMIT).step is Step.CREATE


@pytest.mark.parametrize(("state", "step"), [(RegionState.REQUEST_MERGE, Step.WAIT), (RegionState.REQUEST_SPLIT, Step.ALLOW)])
def test_no_merge_is_allowed_while_its_server_closes_a_region(state: RegionState, step: Step) -> None:
    region = Region(NAME, znode(state, LIVE), None, frozenset(), False, None, 0.0, True)
    closing = Servers(frozenset({LIVE, OTHER}), frozenset(), closing=frozenset({LIVE}))
    assert decide(region, closing, LIMIT).step is step
