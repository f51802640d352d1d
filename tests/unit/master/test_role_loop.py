"""When the master looks again."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tests.unit.master.looks import LATE, SOON, A, B, Site
from walferry.hbase.files.store import WrongRoot
from walferry.hbase.names import ServerName
from walferry.master import role_loop
from walferry.master.decide import MAX_FAILURES, Region, Servers, Step
from walferry.master.plans import Plan
from walferry.master.reconcile import LIMIT_SECONDS, ClusterView, PassOutcome
from walferry.master.role_loop import MOVING_SECONDS, Cluster, Master, Pass
from walferry.master.states import RegionState
from walferry.master.znodes import RegionInTransition

NAME = b"t,,1700000000000.0123456789abcdef0123456789abcdef."
SERVER = ServerName("rs", 16020, 1)


@pytest.mark.parametrize(
    ("state", "idle", "moving"),
    [(RegionState.OPENING, 1.0, True), (RegionState.OPENING, MOVING_SECONDS, False), (None, 0.0, False)],
)
def test_it_looks_again_soon_while_a_region_has_changed_a_moment_ago(
    state: RegionState | None, idle: float, moving: bool
) -> None:
    znode = None if state is None else RegionInTransition(NAME, state, SERVER, 1, 0, False, b"")
    region = Region(NAME, znode, None, frozenset(), True, None, idle, True)
    view = ClusterView(Servers(frozenset({SERVER}), frozenset()), {}, {"r": region}, {}, {}, frozenset(), [])
    done = Pass(view, [], [])
    assert (done.moving, done.acted, done.busy) == (moving, False, state is not None)


@pytest.mark.parametrize(
    ("state", "step"), [(None, Step.CREATE), (RegionState.OFFLINE, Step.ASK_TO_OPEN), (RegionState.CLOSED, Step.REASSIGN)]
)
def test_no_server_is_asked_to_open_a_region_that_a_silent_one_may_serve(state: RegionState | None, step: Step) -> None:
    """A znode that another master has left may be OFFLINE, though a server that does not answer now has the region open."""
    site = Site()
    site.add(1, state, A)
    assert [decision.step for _, decision in site.look().decided] == [step]
    site.silent = {B}
    assert [(decision.step, decision.server) for _, decision in site.look().decided] == [(Step.WAIT, B)]


@pytest.mark.parametrize(
    ("server", "silent", "last", "idle", "step"),
    [
        (B, {B}, A, LATE, Step.REASSIGN),
        (B, {B}, A, SOON, Step.WAIT),
        (B, {B}, B, LATE, Step.WAIT),  # it may have served the region all the time
        (B, {A, B}, A, LATE, Step.WAIT),
        (B, {A}, B, LATE, Step.WAIT),
    ],
)
def test_a_silent_server_that_has_not_begun_to_open_a_region_loses_it(
    server: ServerName, silent: set[ServerName], last: ServerName, idle: float, step: Step
) -> None:
    """It was sent a version of the region's znode, and can only begin at this one, which is gone then."""
    site = Site()
    site.add(1, RegionState.OFFLINE, server, last=last, idle=idle)
    site.silent = silent
    ((_, decision),) = site.look().decided
    assert (decision.step, decision.avoid if step is Step.REASSIGN else server) == (step, server)


@pytest.mark.parametrize("state", [RegionState.OPENING, RegionState.OPENED, RegionState.CLOSED, RegionState.FAILED_OPEN, None])
def test_a_silent_server_that_may_have_begun_to_open_a_region_keeps_it(state: RegionState | None) -> None:
    site = Site()
    site.add(1, state, B, idle=LATE)
    site.silent = {B}
    assert [decision.step for _, decision in site.look().decided] == [Step.WAIT]


def master_of(limit_seconds: float) -> Master:
    role: Any = SimpleNamespace(lock=Mock(), me=None, writes=None, changed=threading.Event())
    cluster: Any = SimpleNamespace(zk=None, nodes=None, wal_root="file:///x")
    return Master(cluster, role, limit_seconds=limit_seconds)


def test_a_server_is_asked_before_it_loses_a_region_that_was_offline_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master that wrote the znode may have died before it asked the server, hours before another one looks."""
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(role_loop, "time", clock)
    site, master = Site(), master_of(LIMIT_SECONDS)
    encoded = site.add(1, RegionState.OFFLINE, B, idle=10 * LATE)

    def steps() -> list[tuple[Step, ServerName | None]]:
        return [(each.step, each.server) for _, each in master._patient(site.look().decided, frozenset(site.silent))]

    assert steps() == [(Step.ASK_TO_OPEN, B)]
    clock.now += LIMIT_SECONDS - 1
    assert steps() == [(Step.ASK_TO_OPEN, B)]
    site.silent = {B}
    assert steps() == [(Step.WAIT, B)]
    site.silent = set()
    clock.now += 2
    assert steps() == [(Step.REASSIGN, None)]
    region = site.regions[encoded]
    assert region.znode is not None
    site.regions[encoded] = replace(region, znode=replace(region.znode, version=region.znode.version + 1))
    assert steps() == [(Step.ASK_TO_OPEN, B)]  # another master has assigned it anew


def test_without_a_limit_a_server_still_gets_the_time_for_one_request() -> None:
    site, master = Site(), master_of(0.0)
    site.add(1, RegionState.OFFLINE, B, idle=LATE)
    assert [each.step for _, each in master._patient(site.look().decided, frozenset())] == [Step.ASK_TO_OPEN]


def test_what_only_people_can_do_does_not_keep_it_busy() -> None:
    site = Site()
    site.add(1, RegionState.FAILED_OPEN, A, plan=Plan(None, True, "x", MAX_FAILURES))
    site.add(2, served_by=(A,))
    decided = site.look().decided
    outcomes = [PassOutcome(region, decision) for region, decision in decided if decision.step is not Step.WAIT]
    assert [each.decision.step for each in outcomes] == [Step.REPORT]
    assert not Pass(site.look().view, outcomes, []).busy
    site.add(3, RegionState.OPENING, A)
    assert Pass(site.look().view, outcomes, []).busy


def test_where_blocks_lie_is_asked_only_if_regions_are_to_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes calls for each region, and up to a minute, in which nobody looks after a dead server."""
    site, master, asked = Site(), master_of(LIMIT_SECONDS), []
    for number in range(8):
        site.add(number, served_by=(A,) if number < 4 else (B,))
    master._locality = lambda known: asked.append(len(known)) or {}  # type: ignore[func-returns-value]
    found = site.look()
    master._cluster = SimpleNamespace(look=lambda: (found.view, found.read), servers=None)  # type: ignore[assignment]
    assert (master.balance(), asked) == ([], [])
    monkeypatch.setattr(role_loop.placement, "begin_moves", lambda _view, planned, *_: planned)
    for number in range(8, 14):
        site.add(number, served_by=(A,))
    found = site.look()
    assert len(master.balance()) == 3
    assert asked == [14]


def test_all_passes_wait_for_changes_by_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client keeps each different function on a znode that does not change, so the passes of weeks would fill the memory."""
    stop, watches = threading.Event(), []
    monkeypatch.setattr(role_loop, "live_servers", lambda _zk, _nodes, watch: watches.append(watch))
    monkeypatch.setattr(role_loop, "children", lambda _zk, _path, watch: watches.append(watch))
    monkeypatch.setattr(role_loop, "WalSplitting", lambda *_: None)
    monkeypatch.setattr(role_loop, "_wait", lambda *_: stop.set() if len(watches) == 6 else None)
    monkeypatch.setattr(Master, "one_pass", lambda _: SimpleNamespace(acted=True, moving=False, busy=True))
    nothing: Any = SimpleNamespace(
        zk=None, nodes=SimpleNamespace(in_transition="/"), wal_root="", lock=Mock(), me=None, changed=threading.Event()
    )
    Master(nothing, nothing).run(stop)
    assert len(watches) == 6
    assert set(watches) == {watches[0]}


def test_a_root_with_no_wals_of_any_server_that_serves_regions_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as hbase.rootdir, if hbase.wal.dir is set: dead servers would seem to have no WALs to be split."""
    site = Site()
    site.add(1, served_by=(A,))
    snapshot = site.look()

    def look(*arguments: Any) -> ClusterView:
        _, _, _, _, catalog, _ = arguments
        catalog()
        return snapshot.view

    monkeypatch.setattr(role_loop, "look", look)
    monkeypatch.setattr(role_loop, "read_catalog", lambda *_, **__: snapshot.read)
    unused: Any = None
    cluster = Cluster(unused, unused, unused, unused, tmp_path.as_uri())
    for server in (None, B):
        (tmp_path / "WALs" / str(server or "")).mkdir(parents=True)
        with pytest.raises(WrongRoot, match=rf"WALs has no folder of {A} or any other server that serves regions"):
            cluster.look()
    (tmp_path / "WALs" / str(A)).mkdir()
    assert cluster.look() == (snapshot.view, snapshot.read)
    site = Site()
    snapshot = site.look()
    assert Cluster(unused, unused, unused, unused, "file:///nowhere").look()[0] is snapshot.view


def test_a_look_finds_the_dead_servers_that_have_wals_of_hbase_meta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    fenced, other = (ServerName(f"rs{n}", 16020, n) for n in (7, 8))
    site.recovering = {fenced, other}
    snapshot = site.look()
    monkeypatch.setattr(role_loop, "look", lambda *arguments: (arguments[4](), snapshot.view)[1])
    monkeypatch.setattr(role_loop, "read_catalog", lambda *_, **__: snapshot.read)
    for folder, wal in ((f"{fenced}-splitting", "a.1.meta"), (str(other), "a.1"), (str(A), "a.1.meta")):
        (tmp_path / "WALs" / folder).mkdir(parents=True)
        (tmp_path / "WALs" / folder / wal).touch()
    unused: Any = None
    view, _ = Cluster(unused, unused, unused, unused, tmp_path.as_uri()).look()
    assert view.servers.with_meta_wals == {fenced}
