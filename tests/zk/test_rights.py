"""A run that gives a peer up takes all rights to send its edits: it names present holders, and waits for earlier ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.claim_cluster import Killed
from tests.zk.handing_back_site import NEW, Site, lease, site
from tests.zk.hbase_znodes import expire
from walferry.admin.handing_back import finish_hand_back
from walferry.admin.peers import PeerAdmin, Refused
from walferry.base.zk.fenced_lock import CALLS, FencedLock
from walferry.engine.summary import GroupSummary
from walferry.hbase.errors import PausedPeer
from walferry.hbase.layout import OwnZNodes
from walferry.replication.peers.reading import ENABLED, check_shippable
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.lease import lock_of as lease_of
from walferry.replication.source.peers import read_peer
from walferry.shipping.runs import begin_run, group_path, write_group

__all__ = ["site"]  # a fixture


def gone_group(site: Site, zk: KazooClient) -> FencedLock:
    """Return the right of a group that is in no queue any more."""
    return lease_of(session_of(zk, site.at), "p", "rs-9%2C1%2C1")


def turn(site: Site, zk: KazooClient) -> FencedLock:
    """Return the right of a task that ships an interval again."""
    session = session_of(zk, site.at)
    begin_run(session, "p", "replay", 3600)
    write_group(session, "p", "replay", GroupSummary(group="g, stage 1"))
    return FencedLock(zk, f"{group_path(session, 'p', 'replay', 'g, stage 1')}/lease", lambda *_: Killed(), lambda *_: Killed())


def peer_lock(site: Site, zk: KazooClient) -> FencedLock:
    """Return the right of a repair."""
    return FencedLock(zk, OwnZNodes(site.at.root, site.at.nodes).peer_lock("p"), lambda *_: Killed(), lambda *_: Killed())


RIGHTS = [lease, gone_group, turn, peer_lock]


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: right.__name__)
def test_whoever_ships_is_named_and_not_disturbed(site: Site, right: Callable[[Site, KazooClient], FencedLock]) -> None:
    admin = site.begin_shipped()
    held = right(site, site.new_client())
    held.acquire("run 7 on host h")
    with pytest.raises(Refused, match=r"peer p is in the hands of run 7 on host h, since 20.* Try again once that has ended"):
        finish_hand_back(admin, "p", NEW)
    assert site.master.orders == []
    held.release()
    finish_hand_back(admin, "p", NEW)
    assert site.master.state_of(NEW) == ENABLED


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: right.__name__)
def test_the_requests_of_who_was_killed_have_come_to_their_end_before_ours_is_removed(
    site: Site, right: Callable[[Site, KazooClient], FencedLock], caplog: pytest.LogCaptureFixture
) -> None:
    admin = site.begin_shipped()
    zk = site.new_client()
    right(site, zk).acquire("run 7", **{CALLS: "60.0"})
    expire(zk)
    orders: list[list[str]] = []
    admin = PeerAdmin(admin.session, lambda seconds: (site.slept.append(seconds), orders.append(list(site.master.orders)))[0])
    with caplog.at_level("INFO"):
        finish_hand_back(admin, "p", NEW)
    (pause,) = [seconds for seconds in site.slept if seconds > 1]
    assert 85 < pause <= 90
    assert orders[-1] == ["update p"], "it is paused, and not removed yet"
    assert f"peer p: waiting {pause:.0f} s: requests of a run that was killed" in caplog.text


def test_who_takes_a_right_while_the_others_are_waited_for_finds_the_peer_paused(site: Site) -> None:
    admin = site.begin_shipped()
    zk = site.new_client()
    lease(site, zk).acquire("run 7", **{CALLS: "60.0"})
    expire(zk)
    found: list[BaseException] = []

    def sleep(seconds: float) -> None:
        session = session_of(site.new_client(), site.at)
        with acquire(session, "p", "another%2C1%2C1", "a recovery"):
            try:
                check_shippable(read_peer(session, "p"))
            except PausedPeer as error:
                found.append(error)

    finish_hand_back(PeerAdmin(admin.session, sleep), "p", NEW)
    assert len(found) == 1
