"""When the master looks again."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tests.unit.master.looks import LATE, SOON, A, B, Site
from walferry.hbase.files.store import WrongRoot
from walferry.hbase.names import ServerName
from walferry.master import role_loop
from walferry.master.decide import Region, Servers, Step
from walferry.master.reconcile import ClusterView
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
