"""Servers roll once in half the time that the peer with the smallest limit allows, if they need it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from walferry.base.zk.errors import ConnectError
from walferry.hbase.errors import ClusterError
from walferry.hbase.names import ServerName
from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.queues import needed_rolls, roll_times
from walferry.replication.queues.needed_rolls import RollChoice
from walferry.replication.queues.roll_times import DEFAULT_SECONDS, MAX_SECONDS, MIN_SECONDS, RollTimes, seconds_between
from walferry.replication.source.session import Session

NEEDS = RollChoice(frozenset({ServerName.parse("rs-1,16020,1")}))
IDLE = RollChoice(frozenset())
SESSION = cast("Session", SimpleNamespace(source=None, zk=None))


def peer(max_lag: str = "") -> Peer:
    return Peer("p", "zk1:2181:/hbase", DISABLED, {"walferry.max_lag": max_lag} if max_lag else {})


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ([], None),
        ([""], DEFAULT_SECONDS),
        (["60"], 30),
        (["900", "120", ""], 60),
        (["86400", ""], DEFAULT_SECONDS),
        (["86400"], MAX_SECONDS),
        (["1"], MIN_SECONDS),
        (["soon"], DEFAULT_SECONDS),
    ],
)
def test_the_smallest_limit_counts(limits: list[str], seconds: float | None) -> None:
    assert seconds_between([peer(limit) for limit in limits]) == seconds


class Servers:
    """What the servers answer, and how often they were asked and noted."""

    def __init__(self) -> None:
        self.choice, self.asked, self.noted = IDLE, 0, 0

    def choose(self, _: Session) -> RollChoice:
        self.asked += 1
        return self.choice

    def note(self, *_: Any) -> None:
        self.noted += 1


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers()
    monkeypatch.setattr(needed_rolls, "choose", servers.choose)
    monkeypatch.setattr(needed_rolls, "note", servers.note)
    monkeypatch.setattr(roll_times, "writing_session", lambda *_: SESSION)
    return servers


def test_servers_are_asked_when_it_is_time_and_idle_ones_do_not_roll(servers: Servers) -> None:
    times, peers = RollTimes(), [peer("60")]
    assert not times.look(SESSION, peers, 0)
    assert (servers.asked, servers.noted, times.pause(0)) == (1, 1, 30)
    assert not times.look(SESSION, peers, 29)
    assert (servers.asked, times.pause(29)) == (1, 1)
    servers.choice = NEEDS
    assert times.look(SESSION, peers, 30)
    assert (servers.asked, servers.noted) == (2, 1)  # the batch notes its rolls
    assert not times.look(SESSION, peers, 31)
    assert times.look(SESSION, peers, 60)


def test_a_changed_limit_holds_at_once(servers: Servers) -> None:
    times = RollTimes()
    times.look(SESSION, [peer()], 0)
    assert times.pause(1) == DEFAULT_SECONDS - 1
    servers.choice = NEEDS
    assert not times.look(SESSION, [peer("60")], 20)
    assert times.pause(20) == 10
    assert times.look(SESSION, [replace(peer("60"), id="q")], 30)


def test_without_a_peer_no_server_is_asked(servers: Servers) -> None:
    times = RollTimes()
    assert not times.look(SESSION, [], 1000)
    assert (servers.asked, times.pause(1000)) == (0, None)


def test_if_it_cannot_be_found_out_a_batch_is_to_roll_and_say_why(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Session) -> RollChoice:
        raise ClusterError("there is no /hbase/rs")

    def away(_: Session) -> RollChoice:
        raise ConnectError("no answer")

    times = RollTimes()
    monkeypatch.setattr(needed_rolls, "choose", away)
    with pytest.raises(ConnectError):
        times.look(SESSION, [peer("60")], 0)
    monkeypatch.setattr(needed_rolls, "choose", fails)
    assert times.look(SESSION, [peer("60")], 1)
    assert not times.look(SESSION, [peer("60")], 2)
