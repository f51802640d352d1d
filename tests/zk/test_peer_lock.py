"""One run at a time holds a peer lock, in a real ZooKeeper; other runs leave the peer to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes, expire
from walferry.base.zk.client import children
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import OwnZNodes
from walferry.replication.locks import peer_lock as module
from walferry.replication.locks.peer_lock import (
    NO_TURN,
    PeerLock,
    PeerLocked,
    holding_peer,
    holding_peer_after_others,
    turn_of,
    turn_of_attempt,
)
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.garbage_collection import collect_garbage_of_gone_peers


def path(at: SourceCluster, peer: str = "p") -> str:
    return OwnZNodes(at.root, at.nodes).peer_lock(peer)


def test_another_run_leaves_the_peer_and_names_the_run_that_has_it(zk: KazooClient, at: SourceCluster) -> None:
    with holding_peer(at, "p", "run 1", "run 1 on host h", NO_TURN):
        other = turn_of(session_of(zk, at), "p", "run 2").other
        assert "peer p is left to run 1 on host h, which has held it since 20" in str(other)
        with pytest.raises(PeerLocked, match="run 1 on host h"), holding_peer(at, "p", "run 2", "run 2", NO_TURN):
            pytest.fail("two runs hold the peer lock")
        with holding_peer(at, "q", "run 2", "run 2", NO_TURN):  # another peer is free
            pass
    turn = turn_of(session_of(zk, at), "p", "run 2")
    assert turn.other is None
    with holding_peer(at, "p", "run 2", "run 2", turn.number):
        assert turn_of(session_of(zk, at), "p", "run 1").other is not None


def test_a_plan_that_another_run_has_overtaken_ships_nothing(zk: KazooClient, at: SourceCluster) -> None:
    """The plan was made before the other run's job. The WALs queued then may be shipped by now."""
    planned = turn_of(session_of(zk, at), "p", "run 1").number
    with holding_peer(at, "p", "run 2", "run 2 on host h", planned):
        pass
    with (
        pytest.raises(PeerLocked, match="run 2 on host h, which has shipped it since this plan"),
        holding_peer(at, "p", "run 1", "run 1", planned),
    ):
        pytest.fail("the plan is out of date")
    assert children(zk, path(at)) == []
    with holding_peer(at, "p", "run 3", "run 3", turn_of(session_of(zk, at), "p", "run 3").number):
        pass


def test_a_run_that_was_overtaken_does_not_overtake_others(zk: KazooClient, at: SourceCluster) -> None:
    """Otherwise runs that ship nothing could go on overtaking each other, and no run would ship the peer."""
    early = turn_of(session_of(zk, at), "p", "run 1").number
    with holding_peer(at, "p", "run 2", "run 2", early):
        pass
    later = turn_of(session_of(zk, at), "p", "run 3").number  # its plan knows what run 2 has left
    with pytest.raises(PeerLocked), holding_peer(at, "p", "run 1", "run 1", early):
        pytest.fail("the plan is out of date")
    with holding_peer(at, "p", "run 3", "run 3", later):
        pass


@pytest.mark.parametrize(
    "record",
    [b"[" * 100_000, b'{"holder": {"a": 1}, "run": [2]}', b"[1]", b"\xff", b"9" * 5000, b'{"holder": "x\\n\\u001b[31mFAILED"}'],
)  # fmt: skip
def test_a_record_that_makes_no_sense_is_told_in_one_short_line(zk: KazooClient, at: SourceCluster, record: bytes) -> None:
    with holding_peer(at, "p", "run 1", "run 1", NO_TURN):
        zk.set(path(at), record)
        other = turn_of(session_of(zk, at), "p", "run 2").other
        assert other is not None
        assert str(other).isprintable()
        with pytest.raises(PeerLocked), holding_peer(at, "p", "run 2", "run 2", NO_TURN):
            pytest.fail("two runs hold the peer lock")


def test_a_holder_with_a_long_name_is_cut(zk: KazooClient, at: SourceCluster) -> None:
    with holding_peer(at, "p", "run 1", "x" * 100_000, NO_TURN):
        assert len(str(turn_of(session_of(zk, at), "p", "run 2").other)) < 2000


def test_a_retry_ends_the_session_that_its_killed_task_has_left(
    new_client: Callable[[], KazooClient], zk: KazooClient, at: SourceCluster
) -> None:
    planned = turn_of(session_of(zk, at), "p", "run 1").number
    killed = PeerLock(session_of(new_client(), at), "p", "run 1", "attempt 1")
    killed._hold.acquire("attempt 1", "run 1")  # and never released
    assert turn_of(session_of(zk, at), "p", "run 1").other is None
    assert turn_of(session_of(zk, at), "p", "run 2").other is not None
    began = time.monotonic()
    with holding_peer(at, "p", "run 1", "attempt 2", planned):
        assert turn_of(session_of(zk, at), "p", "run 2").other is not None
    assert time.monotonic() - began < 3


def test_a_run_whose_session_has_ended_takes_the_peer_lock_anew(
    zk: KazooClient, new_client: Callable[[], KazooClient], at: SourceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    mine = new_client()
    right = PeerLock(session_of(mine, at), "p", "run 1", "run 1")
    right.take(NO_TURN)
    before = right._hold
    expire(mine)
    give_up = time.monotonic() + 20
    while right._hold is before or not children(zk, path(at)):
        assert time.monotonic() < give_up
        time.sleep(0.05)
    assert turn_of(session_of(zk, at), "p", "run 2").other is not None
    right.give_up()
    assert children(zk, path(at)) == []


@pytest.mark.parametrize("still_held", [False, True])
@pytest.mark.parametrize("run", ["run 2", "run 1"])  # the latter: a retry, which puts out the attempts before
def test_a_run_whose_session_has_ended_does_not_take_the_peer_again_once_another_attempt_has_had_it(
    zk: KazooClient, new_client: Callable[[], KazooClient], at: SourceCluster, monkeypatch: pytest.MonkeyPatch, run: str,
    still_held: bool,
) -> None:  # fmt: skip
    """The data that the run has read under the lock are out of date by then: a copy's snapshots, a repair's rows."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    mine = new_client()
    right = PeerLock(session_of(mine, at), "p", "run 1", "attempt 1")
    right.take(NO_TURN)
    others_turn = threading.Event()
    acquire = module.FencedLock.acquire

    def after_the_other(lock: FencedLock, *args: str, **details: str) -> Mapping[str, str]:
        if lock._zk is mine:
            assert others_turn.wait(60)
        return acquire(lock, *args, **details)

    monkeypatch.setattr(module.FencedLock, "acquire", after_the_other)
    expire(mine)
    with ExitStack() as held:
        other = held.enter_context(holding_peer(at, "p", run, "attempt 2", turn_of(session_of(zk, at), "p", run).number))
        if not still_held:
            held.close()
        others_turn.set()
        right._keeper.join(60)
        assert turn_of_attempt(session_of(zk, at), "p", right.attempt) is None
        assert turn_of_attempt(session_of(zk, at), "p", other) is not None
        assert bool(children(zk, path(at))) == still_held
    right.give_up()


def test_the_right_to_a_peer_that_is_gone_is_swept(zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster) -> None:
    for peer in ("p", "gone"):
        with holding_peer(at, peer, "run 1", "run 1", NO_TURN):
            pass
    with holding_peer(at, "held", "run 1", "run 1", NO_TURN):
        collect_garbage_of_gone_peers(session_of(zk, at))
        assert children(zk, path(at).rpartition("/")[0]) == ["held", "p"]


def test_an_initial_snapshot_waits_for_the_batch_that_has_the_peer(at: SourceCluster) -> None:
    reported: list[str] = []
    taken, leave = threading.Event(), threading.Event()

    def batch() -> None:
        with holding_peer(at, "p", "batch", "batch 1", NO_TURN):
            taken.set()
            leave.wait(60)

    thread = threading.Thread(target=batch)
    thread.start()
    assert taken.wait(60)

    def waiting(why: str) -> None:
        reported.append(why)
        leave.set()

    with holding_peer_after_others(at, "p", "copy", "an initial snapshot", wait_seconds=60, waiting=waiting):
        thread.join()
    assert len(reported) == 1
    assert "batch 1" in reported[0]


def test_an_initial_snapshot_waits_no_longer_than_it_may(at: SourceCluster) -> None:
    copy = holding_peer_after_others(at, "p", "copy", "an initial snapshot", wait_seconds=0, waiting=lambda why: None)
    with holding_peer(at, "p", "batch", "batch 1", NO_TURN), pytest.raises(PeerLocked, match="batch 1"), copy:
        pytest.fail("two runs hold the peer lock")
