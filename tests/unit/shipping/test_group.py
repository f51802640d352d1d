"""Which errors of an attempt make a group begin again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.base.security.login import Login
from walferry.base.zk.errors import ConnectError, LoginRefused
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.queues.errors import LeaseLost
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping import group as shipping
from walferry.shipping.group import ship_group
from walferry.shipping.group_job import GroupJob

SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///hbase")
DONE = GroupSummary(group="g", status=Status.DONE)
LOST = LeaseLost("p", "g", "the ZooKeeper session ended")
TRY_SECONDS = 7.0  # that each attempt takes


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[GroupSummary, float]]:
    """`ship(*attempts)` → the summary, and the time at which it was there. Each attempt raises or returns the given value."""
    now = [1000.0]

    def ship(*attempts: Any, reached: bool = True, refused: bool = False, deadline: float = 1060.0) -> tuple[GroupSummary, float]:
        left = list(attempts)

        @contextmanager
        def connected(quorum: str, *, login: Login) -> Iterator[SimpleNamespace]:
            if refused:
                raise LoginRefused("no keytab")
            if not reached:
                raise ConnectError("no ZooKeeper server answered")
            yield SimpleNamespace(default_acl=None)

        def attempt(job: GroupJob, zk: object, known: object) -> GroupSummary:
            now[0] += TRY_SECONDS
            what = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(what, Exception):
                raise what
            return what

        monkeypatch.setattr("walferry.replication.source.session.connected", connected)
        monkeypatch.setattr(shipping, "_ship_group", attempt)
        monkeypatch.setattr(shipping.time, "time", lambda: now[0])
        monkeypatch.setattr(shipping.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
        job = GroupJob(source=SOURCE, peer_id="p", group="g", run_id="r", holder="h", deadline=deadline)
        return ship_group(job), now[0]

    return ship


def test_a_lost_lease_and_an_ensemble_that_goes_away_make_the_group_begin_again(ship):
    assert ship(LOST, ConnectError("away"), DONE)[0] == DONE


def test_an_ensemble_that_stays_away_is_given_up_at_the_deadline_as_passing_trouble(ship):
    summary, ended = ship(ConnectError("away"))
    assert (summary.status, summary.error, summary.passing) == (Status.FAILED, "away", True)
    assert ended < 1060 + TRY_SECONDS


def test_an_ensemble_that_was_never_reached_is_given_up_at_once(ship):
    summary, ended = ship(DONE, reached=False)
    assert (summary.status, summary.passing) == (Status.FAILED, True)
    assert ended == 1000


def test_a_login_that_can_never_succeed_is_no_passing_trouble(ship):
    summary, ended = ship(DONE, refused=True)
    assert (summary.status, summary.error, summary.passing) == (Status.FAILED, "no keytab", False)
    assert ended == 1000


def test_trouble_of_the_group_s_own_ends_it(ship):
    summary, ended = ship(ValueError("broken"), DONE)
    assert (summary.status, summary.passing) == (Status.FAILED, False)
    assert ended == 1000 + TRY_SECONDS
