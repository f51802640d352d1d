"""Only one task at a time ships a WAL group's part of an interval again, against a real ZooKeeper."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from kazoo.client import KazooClient

from embedded.processes import wait_until
from tests.sessions import session_of
from tests.zk.replays import EDITS, PeerCluster, World, peer_cluster, soon, world
from walferry.engine.summary import GroupSummary, Status
from walferry.replay.order import Stages
from walferry.replay.shipment import ship_group
from walferry.shipping.runs import begin_run

__all__ = ["peer_cluster", "world"]  # fixtures


def test_of_two_tasks_for_the_same_group_of_a_run_one_ships(
    world: World, peer_cluster: PeerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walferry.shipping.group.SESSION_TIMEOUT_SECONDS", 0.0)  # the other one is alive: it is not waited for
    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(world.ship)
        wait_until(soon(peer_cluster, 3), "it ships", processes=[], timeout=60)
        rival = world.ship()
        assert rival.status is Status.HELD
        peer_cluster.seconds = 0.0
        assert shipping.result(60).status is Status.DONE
    assert peer_cluster.got == list(range(2 * EDITS))
    assert world.ship().status is Status.DONE


def test_a_task_that_has_waited_for_a_rival_goes_on_where_that_one_has_ended(
    world: World, peer_cluster: PeerCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The rival's run may be at a later stage by now. Edits of this stage, shipped again, would lie over it."""
    caplog.set_level(logging.INFO, "walferry.shipping.group")
    with ThreadPoolExecutor(2) as pool:
        shipping = pool.submit(world.ship)
        wait_until(soon(peer_cluster, 3), "it ships", processes=[], timeout=60)
        rival = pool.submit(world.ship)
        wait_until(lambda: "is held by" in caplog.text, "the rival waits", processes=[], timeout=60)
        peer_cluster.seconds = 0.0
        assert [each.result(60).status for each in (shipping, rival)] == [Status.DONE, Status.DONE]
    assert peer_cluster.got == list(range(2 * EDITS))


def test_a_try_of_a_run_ships_nothing_more_once_the_next_one_has_begun(
    world: World, peer_cluster: PeerCluster, zk: KazooClient
) -> None:
    """The try may have been paused, and knows other stages: its late edits would lie over the next try's."""
    session = session_of(zk, world.job)
    first = begin_run(session, "q", "again", 60)
    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(world.ship, begun=first)
        wait_until(soon(peer_cluster, 3), "it ships", processes=[], timeout=60)
        peer_cluster.seconds = 1.0
        second = begin_run(session, "q", "again", 60)
        assert shipping.result(30).status is Status.HELD
    peer_cluster.seconds = 0.0
    peer_cluster.got.clear()
    late = world.ship(begun=first)
    assert (late.status, peer_cluster.got) == (Status.HELD, [])
    assert late.error
    assert "a later try of this run" in late.error
    assert world.ship(begun=second).status is Status.DONE
    assert peer_cluster.got == list(range(2 * EDITS))


def test_stages_of_a_group_are_shipped_one_after_the_other_whichever_try_has_them(
    world: World, peer_cluster: PeerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walferry.shipping.group.SESSION_TIMEOUT_SECONDS", 0.0)  # the other one is alive: it is not waited for
    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(world.ship)
        wait_until(soon(peer_cluster, 3), "it ships", processes=[], timeout=60)
        begun = GroupSummary(group=f"{world.files.group}, stage 1", status=Status.DONE)
        assert ship_group(world.job, world.files, Stages(), 1, begun).status is Status.HELD
        peer_cluster.seconds = 0.0
        assert shipping.result(60).status is Status.DONE
