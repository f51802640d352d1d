"""An operator's options for a region while an HMaster is active."""

from __future__ import annotations

from tests.unit.master.looks import DEAD, HMASTER, LATE, SOON, A, B, Site, code
from walferry.master.beside_active_master import decide_beside
from walferry.master.decide import Region, Step
from walferry.master.states import OF_SPLITS, RegionState
from walferry.master.znodes import RegionInTransition

REGION = code(1)


def decided_beside(state: RegionState | None, **facts: object) -> Step:
    site = Site(hmaster=HMASTER)
    site.silent = {B} if facts.pop("silent", False) else set()
    site.add(1, state, **facts)  # type: ignore[arg-type]
    snapshot = site.look()
    return decide_beside(snapshot.view, snapshot.view.regions[REGION], HMASTER, 600.0).step


def znode_of(state: RegionState) -> RegionInTransition:
    return RegionInTransition(b"hbase:meta,,1", state, A, 0, 0, False, b"")


def test_beside_an_hmaster_only_an_open_that_does_not_go_on_is_given_up() -> None:
    assert decided_beside(RegionState.OPENING, idle=LATE) is Step.GIVE_UP_OPEN
    assert decided_beside(RegionState.OPENING, idle=SOON) is Step.WAIT
    assert decided_beside(RegionState.OPENING, idle=LATE, silent=True) is Step.WAIT
    assert decided_beside(RegionState.OPENING, idle=SOON, served_by=(A,)) is Step.WAIT
    assert decided_beside(RegionState.OPENING, idle=LATE, served_by=(A,)) is Step.REPORT
    assert decided_beside(RegionState.OPENING, server=DEAD, idle=LATE) is Step.WAIT
    assert decided_beside(RegionState.OPENING, idle=LATE, listed=False) is Step.REPORT
    assert decided_beside(RegionState.OPENING, idle=LATE, served_by=(A, B)) is Step.REPORT
    meta = Region(b"hbase:meta,,1", znode_of(RegionState.OPENING), None, frozenset(), True, A, LATE, True)
    snapshot = Site(hmaster=HMASTER).look()
    assert decide_beside(snapshot.view, meta, HMASTER, 600.0).step is Step.REPORT
    others = {*RegionState} - {RegionState.OPENING}
    assert {decided_beside(state, idle=SOON) for state in [None, *others]} == {Step.WAIT}
    assert {decided_beside(state, idle=LATE) for state in [None, *OF_SPLITS]} == {Step.WAIT}
    assert {decided_beside(state, idle=LATE) for state in others - OF_SPLITS} == {Step.REPORT}
