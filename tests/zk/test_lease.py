"""Lease and fencing against a real ZooKeeper."""

import math
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, LAYOUTS, OTHER, SERVER, HBaseZNodes, expire, wal
from walferry.base.zk.client import retried
from walferry.base.zk.fenced_lock import FencedLock
from walferry.base.zk.right import Unsure
from walferry.hbase.errors import EnabledPeer, MissingPeer, PositionError
from walferry.hbase.layout import OwnZNodes, QueueLayout, ZNodes
from walferry.hbase.values import decode_position
from walferry.replication.queues.dead_servers import WALFERRY_SERVER
from walferry.replication.queues.errors import LastWal, LeaseHeld, LeaseLost, WalGone
from walferry.replication.queues.finding import find_wal
from walferry.replication.queues.lease import Lease, acquire, settling_seconds
from walferry.replication.queues.znode_writes import ZNodeWrites

GROUP = wal(0).rpartition(".")[0]
DEAD_GROUP = wal(0, DEAD).rpartition(".")[0]

NewClient = Callable[[], KazooClient]


def take(zk: KazooClient, hbase: HBaseZNodes, group: str = GROUP, holder: str = "run-1") -> Lease:
    return acquire(session_of(zk, hbase), "p", group, holder)


def position(hbase: HBaseZNodes, name: str) -> int:
    path = find_wal(session_of(hbase.zk, hbase), "p", name)
    assert path is not None
    return decode_position(hbase.zk.get(path)[0], path)


def test_a_second_holder_is_told_who_has_it(zk: KazooClient, new_client: NewClient, hbase: HBaseZNodes) -> None:
    take(zk, hbase, holder="run-1 on host-a")
    with pytest.raises(LeaseHeld, match=r"held by run-1 on host-a since 20") as held:
        take(new_client(), hbase, holder="run-2")
    assert held.value.holder == "run-1 on host-a"


def test_two_holders_in_one_session_exclude_each_other_too(zk: KazooClient, hbase: HBaseZNodes) -> None:
    take(zk, hbase)
    with pytest.raises(LeaseHeld):
        take(zk, hbase)


def test_groups_and_peers_have_leases_of_their_own(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_peer("q")
    take(zk, hbase)
    take(zk, hbase, DEAD_GROUP)
    acquire(session_of(zk, hbase), "q", GROUP, "run-1")


def test_a_released_lease_can_be_acquired_at_once(zk: KazooClient, new_client: NewClient, hbase: HBaseZNodes) -> None:
    name = wal(1)
    hbase.add_wal(SERVER, "p", name)
    first = take(zk, hbase)
    first.release()
    second = take(new_client(), hbase)
    second.register_position(name, 100)
    with pytest.raises(LeaseLost, match="released"):
        first.register_position(name, 200)
    assert position(hbase, name) == 100


def test_a_sender_that_hangs_sends_nothing_while_its_lease_is_released(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At that moment the next holder learns that nothing is under way."""
    lease, release, refused = take(zk, hbase), FencedLock.release, list[Unsure]()
    request = lease.right.begin(60)

    def releasing(lock: FencedLock, *, forget: bool = False, calls_seconds: float = 0.0) -> None:
        with pytest.raises(Unsure) as unsure:
            request.may_go_on()
        refused.append(unsure.value)
        release(lock, forget=forget, calls_seconds=calls_seconds)

    monkeypatch.setattr(FencedLock, "release", releasing)
    lease.release()
    assert refused


def test_the_position_is_written_as_hbase_writes_it(zk: KazooClient, hbase: HBaseZNodes) -> None:
    path = hbase.add_wal(SERVER, "p", wal(1), position=85)
    take(zk, hbase).register_position(wal(1), 300)
    assert zk.get(path)[0] == b"PBUF\x08\xac\x02"


def test_a_position_never_moves_backwards(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1), position=500)
    lease = take(zk, hbase)
    lease.register_position(wal(1), 400)
    assert position(hbase, wal(1)) == 500
    lease.register_position(wal(1), 600)
    lease.register_position(wal(1), 599)
    assert position(hbase, wal(1)) == 600


def test_a_position_that_somebody_else_moved_on_is_not_moved_back(zk: KazooClient, hbase: HBaseZNodes) -> None:
    path = hbase.add_wal(SERVER, "p", wal(1))
    lease = take(zk, hbase)
    lease.register_position(wal(1), 100)
    hbase.zk.set(path, b"PBUF\x08\xac\x02")
    lease.register_position(wal(1), 200)
    assert position(hbase, wal(1)) == 300


def test_an_unparsable_position_is_left_as_it_is(zk: KazooClient, hbase: HBaseZNodes) -> None:
    path = hbase.add_wal(SERVER, "p", wal(1))
    hbase.zk.set(path, b"PBUF\xff")
    with pytest.raises(PositionError, match=path):
        take(zk, hbase).register_position(wal(1), 100)
    assert hbase.zk.get(path)[0] == b"PBUF\xff"


@pytest.mark.parametrize("next_holder", [False, True], ids=["nobody after it", "the next has it"])
def test_a_holder_whose_session_ended_can_move_and_delete_nothing(
    zk: KazooClient, new_client: NewClient, hbase: HBaseZNodes, next_holder: bool
) -> None:
    for timestamp in (1, 2):
        hbase.add_wal(SERVER, "p", wal(timestamp))
    hbase.zk.ensure_path(hbase.nodes.queue(DEAD, "p"))
    lease = take(zk, hbase)
    lease.register_position(wal(1), 100)
    expire(zk)
    if next_holder:
        take(new_client(), hbase, holder="run-2")
    before = hbase.everything()
    with pytest.raises(LeaseLost):
        lease.register_position(wal(1), 200)
    with pytest.raises(LeaseLost):
        lease.remove_wal(wal(1))
    with pytest.raises(LeaseLost):
        lease.remove_empty_queue(DEAD, "p")
    assert lease.lost.is_set()
    assert hbase.everything() == before


@pytest.mark.parametrize(
    ("next_holder", "reason"),
    [(False, "its holder znode is gone"), (True, "run-2 has it since")],
    ids=["nobody after it", "the next has it"],
)
def test_the_fence_holds_even_if_the_client_never_heard_of_its_session_s_end(
    zk: KazooClient, new_client: NewClient, hbase: HBaseZNodes, next_holder: bool, reason: str
) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    lease = take(zk, hbase)
    zk.state_listeners.clear()
    expire(zk)
    if next_holder:
        take(new_client(), hbase, holder="run-2")
    before = hbase.everything()
    retried(zk, zk.exists, "/")  # the client has a new session by now
    assert not lease.lost.is_set()
    with pytest.raises(LeaseLost, match=reason):
        lease.register_position(wal(1), 200)
    assert lease.lost.is_set()
    assert hbase.everything() == before


def test_a_lost_lease_stays_lost_when_its_own_client_acquires_a_new_one(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    old = take(zk, hbase)
    zk.state_listeners.clear()
    expire(zk)
    retried(zk, zk.exists, "/")
    new = take(zk, hbase)
    with pytest.raises(LeaseLost):
        old.register_position(wal(1), 200)
    new.register_position(wal(1), 100)
    assert position(hbase, wal(1)) == 100


def test_releasing_a_lost_lease_leaves_the_next_holder_alone(zk: KazooClient, new_client: NewClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    old = take(zk, hbase)
    expire(zk)
    new = take(new_client(), hbase)
    old.release()
    new.register_position(wal(1), 100)
    assert position(hbase, wal(1)) == 100


def test_a_queue_claimed_between_two_positions_is_found_again(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.start_server(DEAD)
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    lease = take(zk, hbase, DEAD_GROUP)
    lease.register_position(wal(1, DEAD), 100)
    hbase.stop_server(DEAD)
    hbase.claim(DEAD, "p", by=SERVER)
    lease.register_position(wal(1, DEAD), 200)
    hbase.claim(SERVER, f"p-{DEAD}", by=OTHER)
    lease.register_position(wal(1, DEAD), 300)
    assert hbase.queued("p") == [hbase.nodes.wal(OTHER, f"p-{DEAD}-{SERVER}", wal(1, DEAD))]
    assert position(hbase, wal(1, DEAD)) == 300


def test_a_wal_that_is_queued_nowhere_is_gone(zk: KazooClient, hbase: HBaseZNodes) -> None:
    path = hbase.add_wal(SERVER, "p", wal(1))
    lease = take(zk, hbase)
    lease.register_position(wal(1), 100)
    hbase.zk.delete(path)
    with pytest.raises(WalGone, match=wal(1)):
        lease.register_position(wal(1), 200)
    assert lease.remove_wal(wal(1)) is False


def test_another_peer_s_wal_of_the_same_name_is_not_touched(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_peer("q")
    hbase.add_wal(SERVER, "q", wal(1))
    before = hbase.everything()
    lease = take(zk, hbase)
    with pytest.raises(WalGone):
        lease.register_position(wal(1), 100)
    assert lease.remove_wal(wal(1)) is False
    assert hbase.everything() == before


def test_a_wal_of_another_group_is_refused(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1, provider=f".{GROUP}.regiongroup-0"))
    with pytest.raises(ValueError, match="is of group"):
        take(zk, hbase).register_position(wal(1, provider=f".{GROUP}.regiongroup-0"), 100)


def test_the_last_wal_of_a_live_server_s_group_stays(zk: KazooClient, hbase: HBaseZNodes) -> None:
    for timestamp in (9, 10):
        hbase.add_wal(SERVER, "p", wal(timestamp))
    hbase.add_wal(SERVER, "p", wal(11, provider=f".{GROUP}.regiongroup-0"))
    lease = take(zk, hbase)
    with pytest.raises(LastWal, match=wal(10)):
        lease.remove_wal(wal(10))
    assert lease.remove_wal(wal(9)) is True
    assert len(hbase.queued("p")) == 2


def test_a_finished_wal_is_kept_when_its_successor_vanishes_before_the_deletion(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    newer = hbase.add_wal(SERVER, "p", wal(2))
    lease = take(zk, hbase)
    real = ZNodeWrites._newer_wal

    def newer_wal(self: ZNodeWrites, path: str) -> str | None:
        found = real(self, path)
        if zk.exists(newer):
            hbase.zk.delete(newer)
        return found

    monkeypatch.setattr(ZNodeWrites, "_newer_wal", newer_wal)
    with pytest.raises(LastWal):
        lease.remove_wal(wal(1))
    assert hbase.queued("p") == [hbase.nodes.wal(SERVER, "p", wal(1))]


def test_with_its_last_wal_a_recovered_queue_goes(zk: KazooClient, hbase: HBaseZNodes) -> None:
    for timestamp in (1, 2):
        hbase.add_wal(SERVER, f"p-{DEAD}", wal(timestamp, DEAD))
    lease = take(zk, hbase, DEAD_GROUP)
    assert lease.remove_wal(wal(1, DEAD)) is True
    assert hbase.zk.exists(hbase.nodes.queue(SERVER, f"p-{DEAD}"))
    assert lease.remove_wal(wal(2, DEAD)) is True
    assert not hbase.zk.exists(hbase.nodes.queue(SERVER, f"p-{DEAD}"))
    assert hbase.zk.exists(hbase.nodes.server_queues(SERVER))


def test_a_dead_server_s_unclaimed_queue_goes_with_its_last_wal(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    assert take(zk, hbase, DEAD_GROUP).remove_wal(wal(1, DEAD)) is True
    assert not hbase.zk.exists(hbase.nodes.queue(DEAD, "p"))


def test_a_recovered_queue_with_wals_of_another_group_stays(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, f"p-{DEAD}", wal(1, DEAD))
    other = hbase.add_wal(SERVER, f"p-{DEAD}", wal(1, DEAD, provider=f".{DEAD_GROUP}.regiongroup-0"))
    take(zk, hbase, DEAD_GROUP).remove_wal(wal(1, DEAD))
    assert hbase.queued("p") == [other]


def test_an_emptied_queue_can_be_removed_but_no_other_znode(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    full = hbase.add_wal(SERVER, f"p-{DEAD}", wal(1, DEAD))
    empty = hbase.nodes.queue(SERVER, f"p-{OTHER}")
    hbase.zk.ensure_path(empty)
    live = hbase.nodes.queue(SERVER, "p")
    hbase.zk.delete(f"{live}/{wal(1)}")
    lease = take(zk, hbase)
    assert lease.remove_empty_queue(*hbase.nodes.place(empty)) is True
    assert lease.remove_empty_queue(SERVER, f"p-{DEAD}") is False
    assert lease.remove_empty_queue(SERVER, "p") is False
    for server, queue_id in (
        (SERVER, "q"),
        ("../peers", "p"),
        (SERVER, f"p-{DEAD}/{wal(1, DEAD)}"),
        (SERVER, "p/.."),
        (".", "p"),
    ):
        with pytest.raises(ValueError, match="is not a"):
            lease.remove_empty_queue(server, queue_id)
    assert hbase.zk.exists(live)
    assert hbase.zk.exists(full)


@pytest.mark.parametrize("states", [["ENABLED"], ["ENABLED", "DISABLED"]], ids=["enabled", "enabled and disabled again"])
def test_nothing_is_written_once_the_peer_was_enabled(zk: KazooClient, hbase: HBaseZNodes, states: list[str]) -> None:
    for timestamp in (1, 2):
        hbase.add_wal(SERVER, "p", wal(timestamp))
    lease = take(zk, hbase)
    lease.register_position(wal(1), 100)
    for state in states:
        hbase.set_state("p", state)
    before = hbase.everything()
    with pytest.raises(EnabledPeer):
        lease.register_position(wal(1), 200)
    with pytest.raises(EnabledPeer):
        lease.remove_wal(wal(1))
    assert hbase.everything() == before


def test_an_enabled_or_missing_peer_has_no_lease(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_peer("on", "ENABLED")
    with pytest.raises(EnabledPeer, match="Disable it"):
        acquire(session_of(zk, hbase), "on", GROUP, "run-1")
    with pytest.raises(MissingPeer, match="nobody"):
        acquire(session_of(zk, hbase), "nobody", GROUP, "run-1")


def test_a_removed_peer_is_named(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    lease = take(zk, hbase)
    hbase.zk.delete(hbase.nodes.peer("p"), recursive=True)
    with pytest.raises(MissingPeer):
        lease.register_position(wal(1), 100)


def test_shipping_creates_nothing_under_the_cluster_s_own_znodes(zk: KazooClient, hbase: HBaseZNodes) -> None:
    for timestamp in (1, 2):
        hbase.add_wal(SERVER, "p", wal(timestamp))
        hbase.add_wal(SERVER, f"p-{DEAD}", wal(timestamp, DEAD))
    before = hbase.everything()
    for server in (SERVER, DEAD):
        with take(zk, hbase, wal(0, server).rpartition(".")[0]) as lease:
            lease.register_position(wal(1, server), 100)
            lease.remove_wal(wal(1, server))
            lease.register_position(wal(2, server), 100)
    after = hbase.everything()
    assert before.keys() > after.keys()
    changed = {path for path in after if after[path] != before[path]}
    assert changed == {hbase.nodes.wal(SERVER, "p", wal(2)), hbase.nodes.wal(SERVER, f"p-{DEAD}", wal(2, DEAD))}


def test_references_to_hfiles_are_removed_under_the_lease(zk: KazooClient, new_client: NewClient, hbase: HBaseZNodes) -> None:
    parent = hbase.nodes.hfile_refs("p")
    names = [f"file{i}_SeqId_7_" for i in range(1200)]  # more than one multi takes
    for name in names[::2]:
        hbase.zk.create(f"{parent}/{name}", makepath=True)
    hbase.zk.create(f"{parent}/other")
    lease = take(zk, hbase)
    lease.remove_hfile_refs(names)
    assert hbase.zk.get_children(parent) == ["other"]
    lease.remove_hfile_refs(names)
    lease.release()
    take(new_client(), hbase, holder="run-2")
    with pytest.raises(LeaseLost):
        lease.remove_hfile_refs(["other"])
    assert hbase.zk.get_children(parent) == ["other"]


def test_references_of_a_peer_that_has_none_are_gone_already(zk: KazooClient, hbase: HBaseZNodes) -> None:
    take(zk, hbase).remove_hfile_refs(["a"])


@pytest.mark.parametrize("name", ["", "..", "../q/file", "a/b"])
def test_only_references_of_the_peer_are_removed(zk: KazooClient, hbase: HBaseZNodes, name: str) -> None:
    lease = take(zk, hbase)
    with pytest.raises(ValueError, match="not the name of an HFile"):
        lease.remove_hfile_refs([name])


def test_references_stay_when_the_peer_was_enabled(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.zk.create(f"{hbase.nodes.hfile_refs('p')}/a", makepath=True)
    lease = take(zk, hbase)
    hbase.set_state("p", "ENABLED")
    with pytest.raises(EnabledPeer):
        lease.remove_hfile_refs(["a"])
    assert hbase.zk.exists(f"{hbase.nodes.hfile_refs('p')}/a")


def lease_znode(hbase: HBaseZNodes, group: str) -> str:
    return OwnZNodes(hbase.root, hbase.nodes).lease("p", group)


@pytest.mark.parametrize("queue", [(DEAD, "p"), (SERVER, f"p-{DEAD}"), (WALFERRY_SERVER, f"p-{DEAD}")], ids=lambda q: q[0][:8])
def test_a_dead_server_s_lease_goes_when_its_holder_has_finished_the_group(
    zk: KazooClient, hbase: HBaseZNodes, queue: tuple[str, str]
) -> None:
    for timestamp in (1, 2):
        hbase.add_wal(*queue, wal(timestamp, DEAD))
    for timestamp in (1, 2):
        with take(zk, hbase, DEAD_GROUP) as lease:
            lease.remove_wal(wal(timestamp, DEAD))
        assert bool(zk.exists(lease_znode(hbase, DEAD_GROUP))) == (timestamp == 1)


def test_the_lease_of_a_group_that_is_queued_stays(zk: KazooClient, hbase: HBaseZNodes) -> None:
    other = f".{DEAD_GROUP}.regiongroup-0"
    for timestamp in (1, 2):
        hbase.add_wal(SERVER, "p", wal(timestamp))
        hbase.add_wal(DEAD, "p", wal(timestamp, DEAD, other))
    with take(zk, hbase) as lease:  # a live server's group has WALs as long as it lives
        lease.remove_wal(wal(1))
    assert zk.exists(lease_znode(hbase, GROUP))
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    with take(zk, hbase, DEAD_GROUP) as lease:  # the queue stays, with another group
        lease.remove_wal(wal(1, DEAD))
    assert not zk.exists(lease_znode(hbase, DEAD_GROUP))
    assert len(zk.get_children(hbase.nodes.queue(DEAD, "p"))) == 2


def test_who_removes_an_empty_queue_leaves_no_lease(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.zk.ensure_path(hbase.nodes.queue(DEAD, "p"))
    with take(zk, hbase, DEAD_GROUP) as lease:
        assert lease.remove_empty_queue(DEAD, "p")
    assert not zk.exists(lease_znode(hbase, DEAD_GROUP))


def test_a_holder_whose_lease_was_finished_and_made_anew_moves_nothing_and_is_told(
    zk: KazooClient, new_client: NewClient, hbase: HBaseZNodes
) -> None:
    """The counter begins at 0 again, so the new lease has the version that the old holder uses."""
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    zombie = take(zk, hbase, DEAD_GROUP)
    zombie.register_position(wal(1, DEAD), 50)
    zk.state_listeners.clear()
    expire(zk)
    retried(zk, zk.exists, "/")
    with take(new_client(), hbase, DEAD_GROUP, "run-2") as second:
        second.remove_wal(wal(1, DEAD))
    with pytest.raises(LeaseLost, match="it has no holder any more"):
        zombie.register_position(wal(1, DEAD), 100)
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    third = take(new_client(), hbase, DEAD_GROUP, "run-3")
    zombie.lost.clear()
    with pytest.raises(LeaseLost):
        zombie.remove_wal(wal(1, DEAD))
    zombie.release()
    third.register_position(wal(1, DEAD), 200)
    assert position(hbase, wal(1, DEAD)) == 200


@pytest.mark.parametrize("emptied_by", ["remove_wal", "remove_empty_queue"])
def test_who_empties_walferry_s_pseudo_server_removes_it(zk: KazooClient, hbase: HBaseZNodes, emptied_by: str) -> None:
    first, last = f"p-{DEAD}", f"p-{OTHER}"
    for queue, server in ((first, DEAD), (last, OTHER)):
        hbase.add_wal(WALFERRY_SERVER, queue, wal(1, server))
    take(zk, hbase, DEAD_GROUP).remove_wal(wal(1, DEAD))
    assert hbase.zk.get_children(hbase.nodes.queue_server(WALFERRY_SERVER)) == [last]
    lease = take(zk, hbase, wal(0, OTHER).rpartition(".")[0])
    if emptied_by == "remove_wal":
        lease.remove_wal(wal(1, OTHER))
    else:
        hbase.zk.delete(hbase.nodes.wal(WALFERRY_SERVER, last, wal(1, OTHER)))
        lease.remove_empty_queue(WALFERRY_SERVER, last)
    assert hbase.zk.get_children(hbase.nodes.queues) == []


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of more than a second, which are not really made."""
    pauses: list[float] = []
    real = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: pauses.append(seconds) if seconds > 1 else real(seconds))
    return pauses


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_peer_that_was_disabled_a_moment_ago_is_not_worked_on_before_its_region_servers_have_come_to_rest(
    zk: KazooClient, new_client: NewClient, monkeypatch: pytest.MonkeyPatch, slept: list[float], layout: QueueLayout,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """A call to the peer cluster takes effect late, and then the last position is registered. ZooKeeper's clock counts, not
    ours."""
    hbase = HBaseZNodes(new_client(), replace(ZNodes(f"/hbase-{layout}".replace(".", "-")), layout=layout))
    hbase.create()
    hbase.add_peer("p")
    monkeypatch.setattr(time, "time", lambda: 4e9)
    take(zk, hbase).release()
    assert slept == []  # it was added as it is now, so nobody has ever shipped it
    for state in ("ENABLED", "DISABLED"):
        hbase.set_state("p", state)
    with caplog.at_level("INFO"):
        take(zk, hbase).release()
    (pause,) = slept
    assert 80 < pause <= 90
    assert f"peer p: waiting {pause:.0f} s: it was disabled a moment ago, and calls of its RegionServers" in caplog.text


@pytest.mark.parametrize(
    ("ago", "config", "left"),
    [
        (0.0, {}, 90.0),
        (30.0, {}, 60.0),
        (91.0, {}, -1.0),
        (-5.0, {}, 90.0),  # ZooKeeper's leader has changed, and its clock with it
        (math.inf, {}, -math.inf),
        (0.0, {"replication.source.shipedits.timeout": "300000"}, 330.0),
        (0.0, {"replication.source.shipedits.timeout": "20000"}, 90.0),
        (0.0, {"replication.source.shipedits.timeout": "-1"}, 90.0),
        (0.0, {"replication.source.shipedits.timeout": "9" * 5000}, 90.0),
    ],
)
def test_calls_have_as_long_as_hbase_or_the_peer_gives_them(ago: float, config: dict[str, str], left: float) -> None:
    assert settling_seconds(ago, config) == pytest.approx(left)
