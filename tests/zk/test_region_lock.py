"""Tasks of an initial snapshot load into a region of the peer cluster one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes, expire
from walferry.base.zk.fenced_lock import FencedLock
from walferry.load import region_lock
from walferry.load.region_lock import LOCKS, holding_region

TASKS = 8


def test_tasks_load_into_a_region_one_after_the_other_and_leave_nothing_behind(
    new_client: Callable[[], KazooClient], hbase: HBaseZNodes
) -> None:
    sessions = [session_of(new_client(), hbase) for _ in range(TASKS)]
    loading, seen = set[int](), list[int]()

    def load(number: int) -> None:
        for _ in range(3):
            with holding_region(sessions[number], "p", "run", "abc"):
                loading.add(number)
                seen.append(len(loading))
                time.sleep(0.01)
                loading.remove(number)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(TASKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == [1] * 3 * TASKS
    assert sessions[0].zk.get_children(f"{sessions[0].own.initial_snapshot('p')}/{LOCKS}") == []


def test_regions_do_not_wait_for_each_other_and_nobody_waits_for_ever(
    new_client: Callable[[], KazooClient], hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_lock, "WAIT_SECONDS", 0.3)
    one, other = (session_of(new_client(), hbase) for _ in range(2))
    with holding_region(one, "p", "run", "abc"), holding_region(other, "p", "run", "def"):
        before = time.monotonic()
        with holding_region(other, "p", "run", "abc"):  # its load's number is checked anyway
            assert time.monotonic() - before > 0.2
        with holding_region(one, "q", "run", "abc"), holding_region(other, "p", "the run that has overtaken it", "abc"):
            pass


def test_a_killed_task_keeps_its_turn_no_longer_than_its_session(
    new_client: Callable[[], KazooClient], hbase: HBaseZNodes
) -> None:
    killed, next_one = new_client(), session_of(new_client(), hbase)
    holding_region(session_of(killed, hbase), "p", "run", "abc").__enter__()
    threading.Timer(0.5, killed.stop).start()
    with holding_region(next_one, "p", "run", "abc"):
        pass


def test_a_task_whose_session_ends_while_it_waits_has_its_turn_in_the_next_session(
    new_client: Callable[[], KazooClient], hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    zk = new_client()
    session, acquire, expired = session_of(zk, hbase), FencedLock._acquire, list[str]()

    def interrupted(lock: FencedLock, *args: Any) -> Any:
        if not expired:
            expired.append("once")
            expire(zk)
            assert lock.lost.wait(30)
        return acquire(lock, *args)

    monkeypatch.setattr(FencedLock, "_acquire", interrupted)
    monkeypatch.setattr(region_lock, "WAIT_SECONDS", 10.0)
    began = time.monotonic()
    with holding_region(session, "p", "run", "abc"):
        assert time.monotonic() - began < 8
        assert zk.get_children(f"{session.own.initial_snapshot('p')}/{LOCKS}/run,abc") != []
