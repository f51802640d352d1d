"""Records of loads, against a real ZooKeeper: who may write them, what ends a load, and when it is forgotten."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, expire, wal
from tests.zk.load_notes import GROUPS, MINE, THEIRS, check_folder, done, folder, lease_of, note_folder, session, state_of
from walferry.load.errors import LoadOvertaken
from walferry.load.records import Load, begin_load, end, folders_of, forget, forget_finished, loads_of, note_done
from walferry.replication.queues.errors import LeaseLost
from walferry.replication.queues.lease import Lease, acquire
from walferry.replication.source.session import Session
from walferry.shipping.garbage_collection import collect_garbage_of_gone_peers

__all__ = ["session"]  # a fixture

NewClient = Callable[[], KazooClient]


def test_a_load_is_read_as_it_was_written(session: Session) -> None:
    with lease_of(session) as lease:
        path = begin_load(session, "p", "run", [MINE, THEIRS], lease)
        (begun,) = loads_of(session, "p")
        assert begun == Load("run", {MINE: "", THEIRS: ""})
        assert (begun.path, begun.folders) == (path, 0)
        note = note_folder(session.zk, path, folder())
        assert folders_of(session.zk, path) == {note: folder()}
        assert loads_of(session, "p")[0].folders == 1
        note_done(session.zk, path, done(), lease)
    assert loads_of(session, "p") == [done()]
    assert loads_of(session, "q") == []
    forget(session.zk, path)
    assert loads_of(session, "p") == []
    forget(session.zk, path)


ENDS: dict[str, Callable[[Session, str, Lease], None]] = {
    "done": lambda session, path, lease: note_done(session.zk, path, done(), lease),
    "ended": lambda session, path, lease: end(session.zk, path),
    "gone": lambda session, path, lease: forget(session.zk, path),
}


@pytest.mark.parametrize("how", ENDS)
def test_nothing_is_noted_and_nothing_loaded_once_a_load_is_over(
    session: Session, new_client: NewClient, hbase: HBaseZNodes, how: str
) -> None:
    task = new_client()
    with lease_of(session) as lease:
        path = begin_load(session, "p", "run", [MINE], lease)
        note = note_folder(task, path, folder())
        check_folder(task, path, note, state_of(session))
        ENDS[how](session, path, lease)
        with pytest.raises(LoadOvertaken, match=path):
            check_folder(task, path, note, state_of(session))
        with pytest.raises(LoadOvertaken, match=path):
            note_folder(task, path, folder("2"))
        assert set(folders_of(session.zk, path)) <= {note}


def test_a_task_whose_folder_was_deleted_loads_nothing(session: Session) -> None:
    with lease_of(session) as lease:
        path = begin_load(session, "p", "run", [MINE], lease)
        first, second = (note_folder(session.zk, path, folder(name)) for name in "12")
        forget(session.zk, first)
        with pytest.raises(LoadOvertaken):
            check_folder(session.zk, path, first, state_of(session))
        check_folder(session.zk, path, second, state_of(session))


def test_nothing_is_loaded_once_the_peer_was_enabled(session: Session) -> None:
    with lease_of(session) as lease:
        path = begin_load(session, "p", "run", [MINE], lease)
        note, state = note_folder(session.zk, path, folder()), lease.peer_state
        assert state == state_of(session)
        check_folder(session.zk, path, note, state)
        for _ in range(2):  # enabled, and disabled again
            session.zk.set(state[0], session.zk.get(state[0])[0])
            with pytest.raises(LoadOvertaken, match="may have been enabled"):
                check_folder(session.zk, path, note, state)


def test_whoever_has_lost_the_lease_neither_begins_a_load_nor_ends_it(
    zk: KazooClient, new_client: NewClient, hbase: HBaseZNodes
) -> None:
    session, other = session_of(zk, hbase), session_of(new_client(), hbase)
    lease = lease_of(session)
    path = begin_load(session, "p", "run", [MINE], lease)
    before = hbase.zk.get(path)[0]
    expire(zk)
    with lease_of(other):
        with pytest.raises(LeaseLost):
            note_done(session.zk, path, done(), lease)
        with pytest.raises(LeaseLost):
            begin_load(session, "p", "run", [MINE], lease)
    assert hbase.zk.get(path)[0] == before
    assert [load.path for load in loads_of(other, "p")] == [path]


def test_a_load_that_another_run_has_ended_is_not_done(session: Session) -> None:
    with lease_of(session) as lease:
        for over in (end, forget):
            path = begin_load(session, "p", "run", [MINE], lease)
            over(session.zk, path)
            over(session.zk, path)
            with pytest.raises(LoadOvertaken):
                note_done(session.zk, path, done(), lease)
        assert not any(load.done for load in loads_of(session, "p"))


def test_a_load_is_done_once_however_often_that_is_written(session: Session) -> None:
    """The answer to the first try may have been lost."""
    with lease_of(session) as lease:
        path = begin_load(session, "p", "run", [MINE], lease)
        note_done(session.zk, path, done(), lease)
        note_done(session.zk, path, done(), lease)
        with pytest.raises(LoadOvertaken):
            note_done(session.zk, path, done(last=6), lease)
        end(session.zk, path)
    assert loads_of(session, "p") == [done()]


def test_a_load_is_forgotten_once_none_of_its_wals_is_queued(session: Session, hbase: HBaseZNodes) -> None:
    with lease_of(session) as lease, lease_of(session, THEIRS) as theirs:
        for number in (5, 6):
            hbase.add_wal(SERVER, "p", wal(number))
        hbase.add_wal(OTHER, f"p-{DEAD}", wal(1, DEAD))
        path = begin_load(session, "p", "run", [MINE, THEIRS], lease)
        going_on = begin_load(session, "p", "run", [GROUPS[OTHER]], lease)
        loaded = Load("run", {MINE: wal(5), THEIRS: wal(1, DEAD)}, done=True, tables={"t": ("f",)})
        note_done(session.zk, path, loaded, lease)
        for removed in ((lease, wal(5)), (theirs, wal(1, DEAD))):
            forget_finished(session, "p")
            assert path in [load.path for load in loads_of(session, "p")]
            removed[0].remove_wal(removed[1])
        forget_finished(session, "p")
    assert [load.path for load in loads_of(session, "p")] == [going_on]


def test_loads_of_peers_that_are_gone_are_swept(session: Session, hbase: HBaseZNodes) -> None:
    hbase.add_peer("other")
    paths = {}
    for peer in ("p", "other"):
        with acquire(session, peer, MINE, "run") as lease:
            paths[peer] = begin_load(session, peer, "run", [MINE], lease)
        note_folder(session.zk, paths[peer], folder())
    hbase.zk.delete(hbase.nodes.peer("p"), recursive=True)
    collect_garbage_of_gone_peers(session)
    assert session.zk.exists(session.own.loads("p")) is None
    assert len(folders_of(session.zk, paths["other"])) == 1
