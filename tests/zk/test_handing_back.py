"""A peer is handed back: both never send at once, and a killed step is repeated. A real ZooKeeper, and a Master."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.claim_cluster import WRITES, Killed
from tests.zk.handing_back_site import NEW, Site, lease, site
from tests.zk.hbase_znodes import expire
from walferry.admin.changing import pause, resume, set_tables, set_values
from walferry.admin.creating import take_over
from walferry.admin.handing_back import begin_hand_back, finish_hand_back
from walferry.admin.peers import PeerAdmin, Refused
from walferry.base.errors import WalferryError
from walferry.base.zk.client import children
from walferry.base.zk.fenced_lock import CALLS
from walferry.hbase.errors import MissingPeer
from walferry.hbase.rpc.server_codec import CallRefused, JavaException
from walferry.initial_snapshot.beginning import peer_to_copy
from walferry.load.copy_records import Records
from walferry.load.errors import CopyRefused, CopyUnderWay
from walferry.load.fence import Claim
from walferry.replication.locks.peer_lock import NO_TURN, holding_peer
from walferry.replication.peers.reading import DISABLED, ENABLED
from walferry.replication.source.peer_state import disabled_guard
from walferry.replication.source.peers import read_peer

__all__ = ["site"]  # a fixture


def test_the_new_peer_is_added_behind_new_wals_disabled_and_marked_and_collects(site: Site) -> None:
    admin, before = site.admin(), site.master.open_wal
    new = begin_hand_back(admin, "p", NEW)
    assert (new.state, new.managed, new.succeeds, dict(new.config)) == (DISABLED, False, "p", {"walferry.succeeds": "p"})
    assert read_peer(admin.session, "p").handed_back_to == NEW
    assert before not in site.master.queued(NEW)
    site.master.roll()
    assert site.master.queued(NEW) == site.master.queued("p")[1:]
    orders = list(site.master.orders)
    assert orders == ["update p", "add DISABLED n"]
    assert begin_hand_back(admin, "p", NEW) == new
    assert site.master.orders == orders, "a step that was done already changes nothing"


def test_ours_is_paused_then_removed_and_only_then_the_new_one_is_enabled(site: Site) -> None:
    admin = site.begin_shipped()
    site.master.roll()
    queued = site.master.queued(NEW)
    finish_hand_back(admin, "p", NEW)
    assert site.master.orders == ["update p", "remove p", "enable n"]
    assert (site.master.state_of("p"), site.master.state_of(NEW)) == (None, ENABLED)
    assert site.master.queued(NEW) == queued
    assert site.slept == []
    finish_hand_back(admin, "p", NEW)  # repeating a finished step changes nothing
    assert len(site.master.orders) == 3


def test_what_is_queued_for_ours_alone_is_shipped_first_and_runs_are_not_stopped_before(site: Site) -> None:
    admin = site.admin()
    begin_hand_back(admin, "p", NEW)
    orders = list(site.master.orders)
    with pytest.raises(Refused, match=r"is queued for p alone\. Let a batch ship it"):
        finish_hand_back(admin, "p", NEW)
    assert site.master.orders == orders
    pause(admin, "p")
    with pytest.raises(Refused, match="Resume it"):
        finish_hand_back(admin, "p", NEW)


class Life:
    """One command, which is killed before or after its write or order number `at`, each counted from 0. It does nothing then."""

    def __init__(self, site: Site, at: int, *, after: bool) -> None:
        self.zk = site.new_client()
        self.steps: list[str] = []
        self.dead = False
        self._at, self._after = at, after
        self._call = self.zk._call
        self.zk._call = self._gated
        site.master.before, site.master.after = self._before_order, self._after_order

    def _step(self, what: str) -> bool:
        """Return whether the step is done."""
        if self.dead:
            return False
        self.steps.append(what)
        self.dead = len(self.steps) - 1 == self._at
        return not self.dead or self._after

    def _before_order(self, order: str, peer_id: str) -> None:
        if not self._step(f"{order} {peer_id}"):
            raise CallRefused(JavaException.IO, "nobody has asked", do_not_retry=True)

    def _after_order(self, order: str, peer_id: str) -> None:
        if self.dead:
            raise CallRefused(JavaException.IO, "nobody hears the answer", do_not_retry=True)

    def _gated(self, request: Any, result: Any) -> Any:
        if not isinstance(request, WRITES) and not self.dead:
            return self._call(request, result)
        if isinstance(request, WRITES) and self._step(type(request).__name__):
            if not self.dead:
                return self._call(request, result)
            unheard = self.zk.handler.async_result()
            self._call(request, unheard)
            unheard.wait(20)
        result.set_exception(Killed())
        return None


def finish_killed(site: Site, at: int, *, after: bool) -> Life:
    """Finish handing back, killed at a step, unless there are fewer steps."""
    life = Life(site, at, after=after)
    try:
        finish_hand_back(site.admin(life.zk), "p", NEW)
    except (Killed, WalferryError):
        assert life.dead
    site.master.before = site.master.after = lambda order, peer_id: None
    life.zk._call = life._call
    expire(life.zk)
    return life


def watch(site: Site) -> list[str]:
    """Note each moment at which both peers could be sent."""
    both: list[str] = []

    def look(order: str, peer_id: str) -> None:
        if order == "enable" and site.master.state_of("p") is not None:
            both.append("enabled beside ours")
        if order == "remove" and peer_id == "p" and not site.master.queued(NEW):
            both.append("nothing queued any more")

    site.master.after = look
    return both


@pytest.mark.parametrize("after", [False, True], ids=["before a step", "after a step"])
def test_a_finish_that_is_killed_at_any_step_is_repeated(site: Site, after: bool) -> None:
    hbase = site.master.hbase
    for at in itertools.count():
        site.begin_shipped()
        queued = site.master.queued(NEW)
        killed = finish_killed(site, at, after=after)
        if site.master.state_of(NEW) == ENABLED:
            assert site.master.state_of("p") is None
        both = watch(site)
        finish_hand_back(site.admin(), "p", NEW)
        assert (site.master.state_of("p"), site.master.state_of(NEW)) == (None, ENABLED), (at, killed.steps)
        assert both == []
        assert site.master.queued(NEW) == queued
        site.master.after = lambda order, peer_id: None
        if not killed.dead:
            break
        hbase.zk.delete(hbase.nodes.peer(NEW), recursive=True)
        hbase.zk.delete(hbase.nodes.queue(site.master.server, NEW), recursive=True)
        hbase.add_peer("p")
        hbase.add_wal(site.master.server, "p", site.master.open_wal)
    assert [step for step in killed.steps if " " in step] == ["update p", "remove p", "enable n"]
    assert at > 10


def test_a_begin_that_is_killed_at_any_step_is_repeated(site: Site) -> None:
    for order in ("update", "add DISABLED"):
        for after in (False, True):

            def killed(now: str, peer_id: str, order: str = order) -> None:
                if now == order:
                    raise CallRefused(JavaException.IO, "killed", do_not_retry=True)

            if after:
                site.master.after = killed
            else:
                site.master.before = killed
            with pytest.raises(WalferryError):
                begin_hand_back(site.admin(), "p", NEW)
            site.master.before = site.master.after = lambda order, peer_id: None
            new = begin_hand_back(site.admin(), "p", NEW)
            assert (new.state, new.succeeds) == (DISABLED, "p")
            hbase = site.master.hbase
            hbase.zk.delete(hbase.nodes.peer(NEW), recursive=True)
            hbase.zk.delete(hbase.nodes.queue(site.master.server, NEW), recursive=True)
            hbase.set_config("p", {"walferry.managed": "true"})


@pytest.mark.parametrize("paused", [False, True])
def test_a_finish_that_is_refused_once_it_has_stopped_the_runs_lets_them_go_on(site: Site, paused: bool) -> None:
    admin = site.begin_shipped()
    if paused:
        pause(admin, "p")
    zk = site.new_client()
    lease(site, zk).acquire("run 7", **{CALLS: "60.0"})
    expire(zk)

    def sleep(seconds: float) -> None:
        if seconds > 1:
            site.master.hbase.set_state(NEW, ENABLED)

    with pytest.raises(Refused, match="peer n is ENABLED while Walferry ships p"):
        finish_hand_back(PeerAdmin(admin.session, sleep), "p", NEW)
    assert read_peer(session_of(zk_of(site), site.at), "p").paused is paused
    assert children(zk_of(site), lease(site, zk_of(site)).path) == []


def zk_of(site: Site) -> KazooClient:
    return site.master.hbase.zk


def test_a_peer_that_is_resumed_meanwhile_is_not_removed(site: Site) -> None:
    admin = site.begin_shipped()
    zk = site.new_client()
    lease(site, zk).acquire("run 7", **{CALLS: "60.0"})
    expire(zk)
    with pytest.raises(Refused, match="peer p was resumed meanwhile"):
        finish_hand_back(PeerAdmin(admin.session, lambda seconds: resume(site.admin(), "p") and None), "p", NEW)
    assert site.master.state_of("p") == DISABLED


def test_a_successor_that_was_enabled_has_to_be_disabled_and_ours_to_ship_once_more(site: Site) -> None:
    """HBase then begins WALs where it has stopped, so Walferry ships the edits that HBase shipped again, last."""
    admin = site.begin_shipped()
    hbase = site.master.hbase
    hbase.set_state(NEW, ENABLED)
    with pytest.raises(Refused, match=r"peer n is ENABLED while .*Disable it \(hbase shell: disable_peer 'n'\)"):
        finish_hand_back(admin, "p", NEW)
    with pytest.raises(Refused, match="peer n is ENABLED while"):
        begin_hand_back(admin, "p", NEW)
    site.master.roll()
    begun = site.master.queued(NEW)[-2]
    zk_of(site).delete(hbase.nodes.wal(site.master.server, NEW, begun))
    hbase.add_wal(site.master.server, NEW, begun, position=100)
    hbase.set_state(NEW, DISABLED)
    with pytest.raises(Refused, match=rf"1 WAL \({begun}.*is queued for p alone"):
        finish_hand_back(admin, "p", NEW)
    assert 85 < site.slept[-1] <= 90, "calls of HBase for the new peer may still be under way"
    site.ship()
    finish_hand_back(admin, "p", NEW)
    assert (site.master.state_of("p"), site.master.state_of(NEW)) == (None, ENABLED)


def test_a_successor_that_was_disabled_after_the_end_is_left_so(site: Site) -> None:
    admin = site.begin_shipped()
    finish_hand_back(admin, "p", NEW)
    site.master.hbase.set_state(NEW, DISABLED)
    with pytest.raises(Refused, match=r"peer p is gone, and n was ENABLED before.*enable_peer 'n'"):
        finish_hand_back(admin, "p", NEW)
    assert site.master.state_of(NEW) == DISABLED


def test_if_ours_was_removed_by_hand_its_last_requests_are_waited_for(site: Site) -> None:
    admin = site.begin_shipped()
    zk = site.new_client()
    lease(site, zk).acquire("run 7", **{CALLS: "60.0"})
    expire(zk)
    zk_of(site).delete(site.at.nodes.peer("p"), recursive=True)
    finish_hand_back(admin, "p", NEW)
    assert site.master.state_of(NEW) == ENABLED
    assert [85 < seconds <= 90 for seconds in site.slept] == [True]


@pytest.mark.parametrize("name", [NEW, "stranger"])
def test_a_peer_that_succeeds_none_of_ours_is_not_enabled(site: Site, name: str) -> None:
    site.master.hbase.add_peer("stranger", config={"walferry.succeeds": "another"})
    with pytest.raises(MissingPeer):
        finish_hand_back(site.admin(), "gone", name)
    assert site.master.orders == []


def test_the_successor_is_not_taken_over_while_ours_is_there(site: Site) -> None:
    admin = site.begin_shipped()
    with pytest.raises(Refused, match=r"peer p is being handed back to n\. Finish that"):
        take_over(admin, NEW)
    zk_of(site).delete(site.at.nodes.peer("p"), recursive=True)
    assert take_over(admin, NEW).managed


def test_tables_namespaces_and_bandwidth_stay_what_both_have(site: Site) -> None:
    admin = site.begin_shipped()
    changes: list[Callable[[], object]] = [
        lambda: set_tables(admin, "p", {"t": []}, allow_missing=True),
        lambda: set_values(admin, "p", {"namespaces": "ns"}, allow_missing=True),
        lambda: set_values(admin, "p", {"bandwidth": "1000"}),
    ]
    for change in changes:
        with pytest.raises(Refused, match="peer p is being handed back to n, which has its tables, namespaces and bandwidth"):
            change()
    assert site.master.orders == []
    assert set_values(admin, "p", {"sink": "direct"}).config["walferry.sink"] == "direct"
    finish_hand_back(admin, "p", NEW)


def test_a_hand_back_that_was_given_up_by_removing_the_new_peer_hinders_nothing(site: Site) -> None:
    admin = site.begin_shipped()
    hbase = site.master.hbase
    zk_of(site).delete(hbase.nodes.peer(NEW), recursive=True)
    zk_of(site).delete(hbase.nodes.queue(site.master.server, NEW), recursive=True)
    with pytest.raises(MissingPeer):
        finish_hand_back(admin, "p", NEW)
    assert set_values(admin, "p", {"bandwidth": "1000"}).bandwidth == 1000
    assert peer_to_copy(admin.session, "p").id == "p"
    assert begin_hand_back(admin, "p", "other").succeeds == "p"


def test_an_initial_snapshot_and_a_hand_back_exclude_each_other(site: Site) -> None:
    """HBase would ship edits from before the copy on top of it, and never the edits that the copy still lacks."""
    admin = site.admin()
    session = admin.session
    with holding_peer(site.at, "p", "copy", "copy", NO_TURN) as ours:
        records = Records(session, "p", Claim(session, "p", ours, disabled_guard(session, "p").version))
        state = records.begin("copy")
        with pytest.raises(CopyUnderWay):
            begin_hand_back(admin, "p", NEW)
        records.complete(type(state)(state.added, "copy", complete=True))
    begin_hand_back(admin, "p", NEW)
    with pytest.raises(CopyRefused, match="peer p is being handed back to n, whose queues have edits of before a copy"):
        peer_to_copy(session, "p")


def test_one_that_an_earlier_version_has_begun_is_ended_once_the_new_peer_is_disabled(site: Site) -> None:
    hbase, admin = site.master.hbase, site.admin()
    hbase.set_config("p", {"walferry.managed": "true", "walferry.handed-back-to": NEW})
    hbase.add_peer(NEW, ENABLED, {})
    hbase.add_wal(site.master.server, NEW, site.master.open_wal)
    with pytest.raises(Refused, match="peer n is not marked as the one that is to succeed p"):
        finish_hand_back(admin, "p", NEW)
    with pytest.raises(Refused, match="peer n is ENABLED while"):
        begin_hand_back(admin, "p", NEW)
    hbase.set_state(NEW, DISABLED)
    begin_hand_back(admin, "p", NEW)
    site.ship()
    finish_hand_back(admin, "p", NEW)
    assert site.master.state_of(NEW) == ENABLED


def test_a_killed_load_is_ended_before_ours_is_removed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from walferry.admin import handing_back

    ended: list[tuple[str, ...]] = []
    monkeypatch.setattr(handing_back, "end_loads", lambda session, peer, groups: ended.append((*groups, *site.master.orders)))
    finish_hand_back(site.begin_shipped(), "p", NEW)
    assert ended == [(site.group, "update p")]
