"""The time for which the next holders of a lease send nothing, because earlier holders' requests may still take effect."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, expire, wal
from walferry.base.zk import fenced_lock
from walferry.base.zk.client import ZNode
from walferry.base.zk.fenced_lock import FencedLock
from walferry.base.zk.right import PermittedRequest, Unsure, spare_seconds
from walferry.replication.queues import lease as leases
from walferry.replication.queues.errors import LeaseLost
from walferry.replication.queues.lease import Lease, acquire
from walferry.replication.source.session import Session

GROUP = wal(0, SERVER).rpartition(".")[0]
CALLS, SLACK = 60.0, 5.0
WHOLE = CALLS + spare_seconds(CALLS)


@pytest.fixture
def session(zk: KazooClient, hbase: HBaseZNodes) -> Session:
    hbase.add_wal(SERVER, "p", wal(1))
    return session_of(zk, hbase)


def take(session: Session, calls_seconds: float = CALLS, **known: float) -> Lease:
    return acquire(session, "p", GROUP, "test", calls_seconds=calls_seconds, known=known)


def send(lease: Lease) -> PermittedRequest:
    """Return a request that is sent and not answered yet."""
    request = lease.right.begin(CALLS)
    request.may_go_on()
    return request


def about(seconds: float) -> Any:
    return pytest.approx(seconds, abs=SLACK)


def test_after_a_holder_whose_requests_were_all_answered_nobody_waits(session: Session) -> None:
    first = take(session)
    send(first).answered()
    first.release()
    assert take(session).right.quiet_seconds == 0


def test_what_is_left_of_a_request_is_waited_for_by_all_that_follow(session: Session) -> None:
    first = take(session)
    send(first)
    first.release()
    second = take(session, calls_seconds=1.0)
    assert second.right.quiet_seconds == about(WHOLE)
    second.release()  # it has sent nothing itself
    assert take(session).right.quiet_seconds == about(WHOLE)


def test_who_gives_up_before_it_has_the_lease_leaves_what_it_has_heard_of_earlier_requests(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enabled(*_: object, wait: bool) -> None:
        raise KeyboardInterrupt

    first = take(session)
    send(first)
    first.release()
    with monkeypatch.context() as patch:
        patch.setattr(leases, "await_settled", enabled)
        with pytest.raises(KeyboardInterrupt):
            take(session, 1.0)
    assert take(session, 1.0).right.quiet_seconds == about(WHOLE)


def test_of_a_holder_that_just_vanished_the_whole_time_is_waited_for_by_all_that_follow(
    session: Session, new_client: Callable[[], KazooClient]
) -> None:
    for calls_seconds in (CALLS, 1.0):  # the second one vanishes before it has waited
        dead = new_client()
        take(Session(session.source, dead), calls_seconds)
        expire(dead)
    assert take(session, 1.0).right.quiet_seconds == about(WHOLE)


def test_a_process_knows_when_the_requests_of_its_own_earlier_lease_end(session: Session) -> None:
    first = take(session)
    send(first)
    first.release()
    assert take(session, **{first.token: fenced_lock.now() + 7}).right.quiet_seconds == about(7)


@pytest.mark.parametrize("answered", [False, True])
def test_the_record_of_a_finished_group_stays_while_requests_may_take_effect(
    session: Session, hbase: HBaseZNodes, answered: bool
) -> None:
    hbase.stop_server(SERVER)
    lease = take(session)
    request = send(lease)
    if answered:
        request.answered()
    lease.remove_wal(wal(1))
    lease.release()
    assert bool(hbase.zk.exists(session.own.lease("p", GROUP))) is not answered
    assert take(session).right.quiet_seconds == about(0 if answered else WHOLE)


@pytest.mark.parametrize(("passed", "left"), [(20, WHOLE - 20), (1000, 0), (-1000, WHOLE)])
def test_the_time_since_the_last_holder_s_end_is_zookeeper_s_and_may_go_back(
    session: Session, monkeypatch: pytest.MonkeyPatch, passed: int, left: float
) -> None:
    """Another server of the ensemble may lead by then, with another clock. No holder waits longer than the record says."""
    first = take(session)
    send(first)
    first.release()
    read = fenced_lock.read

    def later(zk: KazooClient, path: str) -> ZNode | None:
        found = read(zk, path)
        own = found is not None and b'"ended"' not in found.value
        return ZNode(found.value, found.stat._replace(mtime=found.stat.mtime + 1000 * passed)) if found and own else found

    monkeypatch.setattr(fenced_lock, "read", later)
    assert take(session).right.quiet_seconds == about(left)


def test_a_request_that_begins_while_the_lease_is_given_up_neither_hangs_nor_is_sent(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = take(session)
    begun, goes_on, allow, errors = threading.Event(), threading.Event(), lease.allow, list[Exception]()

    def late(seconds: float) -> None:
        begun.set()
        goes_on.wait(1)
        allow(seconds)

    def sender() -> None:
        try:
            lease.right.begin(2 * CALLS).may_go_on()  # of which the next holder is to be told first
        except (LeaseLost, Unsure) as error:
            errors.append(error)

    monkeypatch.setattr(lease, "allow", late)
    threads = [threading.Thread(target=each, daemon=True) for each in (sender, lease.release)]
    for thread in threads:
        thread.start()
        assert begun.wait(10)
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    assert len(errors) == 1
    assert take(session).right.quiet_seconds == 0


def test_nothing_is_sent_once_the_next_holder_is_told_what_may_still_take_effect(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = take(session)
    release, refused = FencedLock.release, list[str]()

    def released(one: FencedLock, **how: Any) -> None:
        with pytest.raises((LeaseLost, Unsure)):
            send(lease)
        refused.append("")
        release(one, **how)

    monkeypatch.setattr(FencedLock, "release", released)
    lease.release()
    assert refused == [""]
