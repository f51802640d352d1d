"""A group is read where a plan has found it, and completely, wherever HBase moves it in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, wal
from walferry.hbase.layout import QueueLayout, ZNodes
from walferry.replication.queues import finding, znode_writes
from walferry.replication.queues.errors import LastWal
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.queue import QueuePlace
from walferry.shipping.candidates import candidates
from walferry.shipping.plan import groups_to_ship

GROUP = wal(0).rpartition(".")[0]
DEAD_GROUP = wal(0, DEAD).rpartition(".")[0]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that were looked for in all queues."""
    found: list[str] = []

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            found.append(args[-1])
            return function(*args)

        return noted

    monkeypatch.setattr(finding, "read_queues", noting("group", finding.read_queues))
    monkeypatch.setattr(znode_writes, "find_wal", noting("wal", znode_writes.find_wal))
    return found


def planned(zk: KazooClient, hbase: HBaseZNodes, group: str) -> QueuePlace:
    place = dict(groups_to_ship(session_of(zk, hbase), "p"))[group]
    assert place is not None
    return place


def read(zk: KazooClient, hbase: HBaseZNodes, place: QueuePlace | None, group: str = DEAD_GROUP) -> list[tuple[str, int]]:
    with acquire(session_of(zk, hbase), "p", group, "task") as lease:
        found = candidates(lease.read(place))
    return [(c.queued.name.text, c.queued.position) for g in found for c in g.wals]


def wals(*timestamps: int, server: str = DEAD) -> list[tuple[str, int]]:
    return [(wal(timestamp, server), 10 * timestamp) for timestamp in timestamps]


def queue_up(hbase: HBaseZNodes, *timestamps: int, server: str = DEAD, queue: tuple[str, str] | None = None) -> None:
    for timestamp in timestamps:
        hbase.add_wal(*(queue or (server, "p")), wal(timestamp, server), 10 * timestamp)


def test_a_group_that_lies_where_it_was_seen_is_read_there_alone(
    zk: KazooClient, hbase: HBaseZNodes, searched: list[str]
) -> None:
    queue_up(hbase, 1, 2, 3)
    queue_up(hbase, 1, 2, server=SERVER)
    assert read(zk, hbase, planned(zk, hbase, DEAD_GROUP)) == wals(1, 2, 3)
    place = planned(zk, hbase, GROUP)
    queue_up(hbase, 3, server=SERVER)  # a live server goes on queuing
    assert read(zk, hbase, place, GROUP) == wals(1, 2, server=SERVER)
    assert searched == []


@pytest.mark.parametrize("claims", [1, 2])
def test_a_group_that_was_claimed_since_the_plan_is_found_as_a_whole(
    zk: KazooClient, hbase: HBaseZNodes, searched: list[str], claims: int
) -> None:
    queue_up(hbase, 1, 2, 3)
    place = planned(zk, hbase, DEAD_GROUP)
    hbase.claim(DEAD, "p", by=OTHER)
    if claims == 2:
        hbase.claim(OTHER, f"p-{DEAD}", by=SERVER)
    assert read(zk, hbase, place) == wals(1, 2, 3)
    assert searched == [DEAD_GROUP]


def test_of_a_group_of_which_a_part_was_moved_none_is_taken_for_the_whole(
    zk: KazooClient, hbase: HBaseZNodes, searched: list[str]
) -> None:
    """A queue too large for one multi is claimed in several. The oldest WALs go first, and must be shipped first."""
    queue_up(hbase, 1, 2, 3)
    place = planned(zk, hbase, DEAD_GROUP)
    hbase.zk.delete(hbase.nodes.wal(DEAD, "p", wal(1, DEAD)))
    queue_up(hbase, 1, queue=(SERVER, f"p-{DEAD}"))
    assert read(zk, hbase, place) == wals(1, 2, 3)
    assert searched == [DEAD_GROUP]


def test_a_group_in_two_queues_has_no_place(zk: KazooClient, hbase: HBaseZNodes) -> None:
    queue_up(hbase, 2, 3)
    queue_up(hbase, 1, queue=(SERVER, f"p-{DEAD}"))
    assert groups_to_ship(session_of(zk, hbase), "p") == [(DEAD_GROUP, None)]
    assert read(zk, hbase, None) == wals(1, 2, 3)


def test_a_server_that_dies_between_plan_and_task_has_all_its_wals_read(
    zk: KazooClient, hbase: HBaseZNodes, searched: list[str]
) -> None:
    hbase.start_server(DEAD)
    queue_up(hbase, 1, 2)
    place = planned(zk, hbase, DEAD_GROUP)
    assert place.live
    queue_up(hbase, 3)
    hbase.stop_server(DEAD)
    assert read(zk, hbase, place) == wals(1, 2, 3)
    assert searched == [DEAD_GROUP]


def test_a_claim_between_the_names_and_the_positions_is_noticed(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_up(hbase, 1, 2, 3)
    place = planned(zk, hbase, DEAD_GROUP)
    real = finding.children

    def claim_after_listing(client: KazooClient, path: str) -> list[str] | None:
        names = real(client, path)
        hbase.claim(DEAD, "p", by=SERVER)
        return names

    monkeypatch.setattr(finding, "children", claim_after_listing)
    assert read(zk, hbase, place) == wals(1, 2, 3)


@pytest.mark.parametrize("deleted", [0, 1, 2])
def test_a_group_that_is_being_copied_in_the_classic_layout_is_read_as_a_whole(
    zk: KazooClient, hbase: HBaseZNodes, deleted: int
) -> None:
    """A RegionServer of HBase 1 has copied all WALs, and has deleted some of the originals."""
    classic = HBaseZNodes(hbase.zk, ZNodes(hbase.nodes.base, QueueLayout.CLASSIC))
    queue_up(classic, 1, 2, 3)
    place = planned(zk, classic, DEAD_GROUP)
    queue_up(classic, 1, 2, 3, queue=(SERVER, f"p-{DEAD}"))
    for timestamp in range(1, deleted + 1):
        classic.zk.delete(classic.nodes.wal(DEAD, "p", wal(timestamp, DEAD)))
    assert read(zk, classic, place) == wals(1, 2, 3)


def test_a_queue_that_is_claimed_after_it_was_read_is_looked_for_once(
    zk: KazooClient, hbase: HBaseZNodes, searched: list[str]
) -> None:
    queue_up(hbase, *range(1, 9))
    with acquire(session_of(zk, hbase), "p", DEAD_GROUP, "task") as lease:
        lease.read(planned(zk, hbase, DEAD_GROUP))
        lease.remove_wal(wal(1, DEAD))
        hbase.claim(DEAD, "p", by=SERVER)
        lease.register_position(wal(2, DEAD), 99)
        assert hbase.zk.get(hbase.nodes.wal(SERVER, f"p-{DEAD}", wal(2, DEAD)))[0] == b"PBUF\x08\x63"
        for timestamp in range(2, 9):
            assert lease.remove_wal(wal(timestamp, DEAD))
    assert hbase.queued("p") == []
    assert not hbase.zk.exists(hbase.nodes.queue(SERVER, f"p-{DEAD}"))
    assert searched == [wal(2, DEAD)]


@pytest.mark.parametrize("copies", [1, 3])
def test_a_queue_that_is_copied_after_it_was_read_loses_no_wal_that_was_not_removed(
    zk: KazooClient, hbase: HBaseZNodes, copies: int
) -> None:
    """In a classic layout; the originals are deleted once all are copied. Shipping again is allowed, a loss is not."""
    classic = HBaseZNodes(hbase.zk, ZNodes(hbase.nodes.base, QueueLayout.CLASSIC))
    queue_up(classic, 1, 2, 3)
    with acquire(session_of(zk, classic), "p", DEAD_GROUP, "task") as lease:
        lease.read(planned(zk, classic, DEAD_GROUP))
        queue_up(classic, *range(1, copies + 1), queue=(SERVER, f"p-{DEAD}"))
        if copies == 3:
            classic.zk.delete(classic.nodes.queue(DEAD, "p"), recursive=True)
        assert lease.remove_wal(wal(1, DEAD))
        left = {path.rpartition("/")[2] for path in classic.queued("p")}
        assert {wal(2, DEAD), wal(3, DEAD)} <= left
        lease.register_position(wal(2, DEAD), 99)


def test_an_emptied_queue_stays_while_hbase_copies_into_it(zk: KazooClient, hbase: HBaseZNodes) -> None:
    """HBase 1 skips a copy that fails because its queue is missing, and then deletes the originals (copyQueueFromLockedRS)."""
    classic = HBaseZNodes(hbase.zk, ZNodes(hbase.nodes.base, QueueLayout.CLASSIC))
    original, copy = classic.nodes.queue(DEAD, "p"), classic.nodes.queue(SERVER, f"p-{DEAD}")
    queue_up(classic, 1, 2, 3)
    classic.zk.ensure_path(copy)
    with acquire(session_of(zk, classic), "p", DEAD_GROUP, "task") as lease:
        assert not lease.remove_empty_queue(*hbase.nodes.place(copy))  # it has only just been made
        queue_up(classic, 1, queue=(SERVER, f"p-{DEAD}"))
        lease.read(None)
        assert lease.remove_wal(wal(1, DEAD))
        lease.remove_wal(wal(1, DEAD))  # the other copy
        assert classic.children(copy) == []
        assert classic.zk.exists(copy)
        for timestamp in (2, 3):
            queue_up(classic, timestamp, queue=(SERVER, f"p-{DEAD}"))
        classic.zk.delete(original, recursive=True)
        for timestamp in (2, 3):
            assert lease.remove_wal(wal(timestamp, DEAD))
        assert not classic.zk.exists(copy)


def test_a_wal_that_has_left_a_live_server_s_queue_is_not_taken_for_its_last_one(zk: KazooClient, hbase: HBaseZNodes) -> None:
    queue_up(hbase, 1, 2, server=SERVER)
    with acquire(session_of(zk, hbase), "p", GROUP, "task") as lease:
        lease.read(planned(zk, hbase, GROUP))
        with pytest.raises(LastWal):
            lease.remove_wal(wal(2))
        hbase.zk.delete(hbase.nodes.wal(SERVER, "p", wal(2)))
        assert lease.remove_wal(wal(2)) is False
        with pytest.raises(LastWal):
            lease.remove_wal(wal(1))
    assert hbase.queued("p") == [hbase.nodes.wal(SERVER, "p", wal(1))]
