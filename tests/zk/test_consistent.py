"""Queues that move during a look are seen once, in the newer layout and in the classic ones."""

from collections.abc import Callable, Sequence

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, wal
from walferry.base.zk.client import Watch, children
from walferry.hbase.layout import QueueLayout, ZNodes
from walferry.replication.queues import reading as queues
from walferry.replication.queues.finding import find_wal
from walferry.replication.queues.reading import read_queues


def one_by_one(monkeypatch: pytest.MonkeyPatch, then: Callable[[str], None]) -> None:
    """Have znodes' children read one after the other, and call `then` after each."""

    def children_all(client: KazooClient, paths: Sequence[str], watch: Watch | None = None) -> list[list[str] | None]:
        found = []
        for path in paths:
            found.append(children(client, path, watch))
            then(path)
        return found

    monkeypatch.setattr(queues, "children_all", children_all)
    monkeypatch.setattr(queues, "children_each", children_all)


def test_a_queue_that_moves_while_it_is_read_is_read_once(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim comes after the dead server's queues were read and before the claiming server's are."""
    hbase.add_wal(DEAD, "p", wal(1, DEAD), position=100)
    hbase.zk.ensure_path(hbase.nodes.server_queues(OTHER))
    claims = [(DEAD, "p")]

    def claim_after_reading(path: str) -> None:
        if claims and path == hbase.nodes.queue(*claims[0]):
            hbase.claim(*claims.pop(), by=OTHER)

    one_by_one(monkeypatch, claim_after_reading)
    (queue,) = read_queues(session_of(zk, hbase), "p")
    assert not claims
    assert queue.path == hbase.nodes.queue(OTHER, f"p-{DEAD}")
    assert [queued.position for queued in queue.wals] == [100]


def test_a_wal_that_moves_behind_the_search_is_found(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTHER comes after SERVER in the search and holds the WAL. The WAL moves to SERVER once SERVER has been searched."""
    hbase.add_wal(OTHER, "p", wal(1, OTHER))
    hbase.zk.ensure_path(hbase.nodes.server_queues(SERVER))

    def claim_after_searching(path: str) -> None:
        if path == hbase.nodes.server_queues(SERVER):
            hbase.claim(OTHER, "p", by=SERVER)

    one_by_one(monkeypatch, claim_after_searching)
    found = find_wal(session_of(zk, hbase), "p", wal(1, OTHER))
    assert found == hbase.nodes.wal(SERVER, f"p-{OTHER}", wal(1, OTHER))


def test_a_wal_that_is_copied_and_deleted_while_queues_are_read_is_not_missed(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a classic layout: the copy is made after its place was read, and the original is deleted before its place is read."""
    classic = HBaseZNodes(hbase.zk, ZNodes(hbase.nodes.base, QueueLayout.CLASSIC))
    original = classic.add_wal(SERVER, f"p-{OTHER}", wal(1, OTHER), position=7)
    classic.zk.ensure_path(classic.nodes.server_queues("a,1,1"))
    moves = [original]

    def move_after_reading(path: str) -> None:
        if moves and path == classic.nodes.server_queues("a,1,1"):
            classic.add_wal("a,1,1", f"p-{OTHER}-{SERVER}", wal(1, OTHER), position=7)
            classic.zk.delete(moves.pop())

    one_by_one(monkeypatch, move_after_reading)
    found = [queued.name.text for queue in read_queues(session_of(zk, classic), "p") for queued in queue.wals]
    assert not moves
    assert found == [wal(1, OTHER)]

    moves.append(classic.nodes.wal("a,1,1", f"p-{OTHER}-{SERVER}", wal(1, OTHER)))
    classic.zk.delete(moves[0])
    classic.zk.delete(moves[0].rpartition("/")[0])
    classic.zk.create(original)
    moves[0] = original
    found = find_wal(session_of(zk, classic), "p", wal(1, OTHER))
    assert found == classic.nodes.wal("a,1,1", f"p-{OTHER}-{SERVER}", wal(1, OTHER))
