"""A RegionServer dies while a region moves, in each of the five states, as the source and as the destination of the move.

Each state is made on real RegionServers of HBase 1.7.2: the test makes the writes and calls of a move up to that state, and stops
(SIGSTOP) a server that would go on. An open stays OPENING while the server of hbase:meta is stopped. docs/region-transitions.md
has the table of what the notes say and what happens here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from embedded.client import JavaClient
from embedded.hbase import ClusterAddress
from tests.cluster.region_site import Site, in_charge, region_site, wait_for
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.admin import close_regions
from walferry.hbase.rpc.errors import RpcError
from walferry.master.calls import CalledServers
from walferry.master.plans import Plan
from walferry.master.reconcile import Known, ToOpen, begin_to_close
from walferry.master.role import Role, acting_as_master
from walferry.master.states import RegionState
from walferry.master.transitions import Transition
from walferry.master.writes import Change, PlanChange
from walferry.master.znodes import RegionInTransition

STATES = (
    RegionState.OFFLINE,
    RegionState.CLOSED,
    RegionState.OPENED,
    RegionState.OPENING,
    RegionState.CLOSING,
)  # in this order, all states can be made at once
STOPPED_CALL_SECONDS = 1.0  # a stopped server takes the call and does not answer
SETTLED_SECONDS = 1.0


class Dies(Enum):
    """Which server of a move dies."""

    SOURCE = "source"
    DESTINATION = "destination"


@dataclass(frozen=True)
class Moving:
    """Regions on their way from one server to another, with hbase:meta at a third one."""

    site: Site
    role: Role
    source: ServerName
    destination: ServerName
    meta: ServerName

    def bring_to(self, known: Known, encoded: str, state: RegionState, stopped: ExitStack) -> None:
        """Bring a region of the source to a state of its move."""
        writes, servers = self.role.writes, CalledServers()
        if state is RegionState.CLOSING:
            stopped.enter_context(self.site.stopped(self.source))
        plan = PlanChange(None, Plan(self.destination, True, "a test moves it"))
        closing = writes.write(Change(Transition.CREATE_CLOSING, known.name, None, self.source), plan)
        assert closing is not None
        if state is RegionState.CLOSING:
            with contextlib.suppress(RpcError):
                close_regions(self.source, {encoded: closing.version}, timeout=STOPPED_CALL_SECONDS)
            return
        servers.close({self.source: [closing]})
        closed = self._reached(known, RegionState.CLOSED)
        if state is RegionState.CLOSED:
            return
        if state is RegionState.OPENING:
            stopped.enter_context(self.site.stopped(self.meta))
        offline = writes.write(Change(Transition.FORCE_OFFLINE, known.name, closed, self.destination))
        assert offline is not None
        if state is RegionState.OFFLINE:
            return
        servers.open({self.destination: [ToOpen(known.info, offline, known.opened_ms)]})
        self._reached(known, state)
        if state is RegionState.OPENING:
            time.sleep(SETTLED_SECONDS)  # the server has opened the region, and waits for hbase:meta
            self._reached(known, state)

    def _reached(self, known: Known, state: RegionState) -> RegionInTransition:
        found: list[RegionInTransition] = []

        def reached() -> bool:
            znode = self.role.writes.read(known.name)
            found[:] = [znode] if znode is not None else []
            return znode is not None and znode.state is state

        wait_for(reached, f"{known.name!r} is {state.name}")
        return found[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, java_client: Callable[[ClusterAddress], JavaClient]) -> Iterator[Site]:
    with region_site(Path(tmp_path_factory.mktemp("failures")), java_client, servers=3) as found:
        yield found
        found.hand_over()


def pick(site: Site, number: int) -> tuple[list[str], ServerName, ServerName, ServerName]:
    """Take `number` regions of one server, another server for them, and the server of hbase:meta, which is neither."""
    meta = site.meta_at()
    others = sorted(site.live - {meta}, key=lambda server: -site.load()[server])
    source, destination = others[:2]
    view, _ = site.look()
    its = [encoded for encoded in site.table_regions() if source in view.regions[encoded].served_by]
    if len(its) < number:
        with in_charge(site) as charge:
            plan = Plan(source, True, "a test moves it")
            for encoded in [each for each in site.table_regions() if each not in its][: number - len(its)]:
                begin_to_close(site.look()[0], {encoded: plan}, charge.role.writes, CalledServers())
            site.await_whole(charge.story)
        return pick(site, number)
    return its[:number], source, destination, meta


def fail(site: Site, states: Sequence[RegionState], dies: Dies, *, planned: bool = True) -> dict[RegionState, tuple[str, bool]]:
    """Bring a region into each state, kill a server, and let the role work. Returns its report and where each region went."""
    regions, source, destination, meta = pick(site, len(states))
    site.write()
    with acting_as_master(site.zk, site.nodes, site.own, site.candidate()) as role, ExitStack() as stopped:
        moving = Moving(site, role, source, destination, meta)
        catalog = site.look()[0].catalog
        for encoded, state in zip(regions, states, strict=True):
            moving.bring_to(catalog[encoded], encoded, state, stopped)
        site.kill(source if dies is Dies.SOURCE else destination)
    if not planned:
        for encoded in regions:
            site.zk.delete(site.own.region_plan(encoded))
    with in_charge(site) as charge:
        site.await_whole(charge.story)
        view, _ = site.look()
        site.start_servers(1)
        site.await_whole(charge.story)
    happened = {}
    for encoded, state in zip(regions, states, strict=True):
        (now,) = view.regions[encoded].served_by
        reported = [line.partition(": ")[2] for line in charge.reported if f"region {encoded}:" in line]
        print(
            f"| {state.name} | {dies.value} | {planned} | {' → '.join(reported)} | {'destination' if now == destination else now}"
        )
        happened[state] = (" ".join(reported), now == destination)
    return happened


def check(state: RegionState, dies: Dies, reported: str, at_destination: bool, *, planned: bool = True) -> None:
    named = state in (RegionState.OFFLINE, RegionState.OPENING, RegionState.OPENED)  # whose znode names the destination
    if dies is Dies.SOURCE and (planned or named):
        assert at_destination, reported
    if dies is Dies.DESTINATION:
        assert not at_destination
    forced = "force the znode to OFFLINE" in reported
    acknowledged = "delete the znode: the region is open" in reported
    if state in (RegionState.OPENING, RegionState.OPENED) and dies is Dies.SOURCE:
        assert acknowledged, reported
        assert not forced, reported
    elif state is RegionState.OFFLINE and dies is Dies.SOURCE:
        assert "names a live server" in reported
        assert not forced, reported
    else:
        assert forced, reported
        assert acknowledged, reported


@pytest.mark.parametrize("dies", Dies, ids=lambda dies: dies.value)
def test_a_server_dies_while_regions_are_in_all_states(site: Site, dies: Dies) -> None:
    for state, (reported, at_destination) in fail(site, STATES, dies).items():
        check(state, dies, reported, at_destination)


@pytest.mark.soak
@pytest.mark.parametrize("planned", [True, False], ids=["with its plan", "without its plan"])
@pytest.mark.parametrize("dies", Dies, ids=lambda dies: dies.value)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_a_server_dies_while_a_region_is_in_one_state(site: Site, state: RegionState, dies: Dies, planned: bool) -> None:
    reported, at_destination = fail(site, [state], dies, planned=planned)[state]
    check(state, dies, reported, at_destination, planned=planned)
