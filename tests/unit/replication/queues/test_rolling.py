"""Rolling the WALs of servers that answer, do not, or die, for any number of peers at once."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.sessions import session_of
from walferry.base.security.login import Login
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import ConnectionFailed
from walferry.replication.queues import rolling
from walferry.replication.queues.rolling import Rolled, roll
from walferry.replication.source.cluster import SourceCluster

SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///hbase", login=Login(user="etl"))
SESSION = session_of(None, SOURCE)  # type: ignore[arg-type]
ONE, TWO = ServerName("one", 16020, 1), ServerName("two", 16020, 2)


@dataclass
class Servers:
    """RegionServers as roll() meets them; `wals` has the newest WAL of each queue."""

    peers: tuple[str, ...] = ("p",)
    alive: set[ServerName] = field(default_factory=lambda: {ONE, TWO})
    silent: set[ServerName] = field(default_factory=set)  # do not answer
    lazy: set[tuple[ServerName, str]] = field(default_factory=set)  # answer, and queue no new WAL for the peer
    dying: set[ServerName] = field(default_factory=set)  # are gone once they were asked
    wals: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[ServerName, str | None]] = field(default_factory=list)
    reads: int = 0

    def queue(self, server: ServerName, peer: str) -> str:
        return SESSION.nodes.queue(str(server), peer)

    def roll(self, server: ServerName, *, login: Login, timeout: float) -> None:
        self.asked.append((server, login.user))
        if server in self.dying:
            self.alive = self.alive - {server}
            for peer in self.peers:
                self.wals.pop(self.queue(server, peer), None)
        if server in self.silent:
            raise ConnectionFailed(f"{server.host}:{server.port}", "connection refused")
        for peer in self.peers:
            if (server, peer) not in self.lazy and self.queue(server, peer) in self.wals:
                self.wals[self.queue(server, peer)] += 1

    def children(self, zk: Any, path: str) -> list[str] | None:
        self.reads += 1
        newest = self.wals.get(path)
        server = path.split("/")[-2].replace(",", "%2C")
        return None if newest is None else ["no WAL", *(f"{server}.{number}" for number in range(1, newest + 1))]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers()
    servers.wals = {servers.queue(server, "p"): 10 for server in (ONE, TWO)}
    monkeypatch.setattr(rolling, "live_servers", lambda *_: frozenset(servers.alive))
    monkeypatch.setattr(rolling, "children_each", lambda zk, paths: [servers.children(zk, path) for path in paths])
    monkeypatch.setattr(rolling, "roll_wal_writer", servers.roll)
    monkeypatch.setattr(rolling, "QUEUED_SECONDS", 0.05)
    monkeypatch.setattr(rolling, "POLL_SECONDS", 0.01)
    return servers


def test_each_live_server_is_asked_once_for_all_peers_as_the_connection_s_user(servers: Servers):
    servers.peers = ("p", "q", "r")
    servers.wals = {servers.queue(server, peer): 10 for server in (ONE, TWO) for peer in servers.peers}
    assert roll(SESSION, servers.peers) == Rolled(2)
    assert sorted(servers.asked) == [(ONE, "etl"), (TWO, "etl")]
    assert servers.reads == 2 * len(servers.wals)  # names only, before and after


def test_a_live_server_that_does_not_answer_is_a_failure_and_the_others_are_rolled(servers: Servers):
    servers.silent = {TWO}
    rolled = roll(SESSION, ["p"])
    assert rolled.servers == 1
    assert list(rolled.failures) == [str(TWO)]
    assert "connection refused" in rolled.failures[str(TWO)]


@pytest.mark.parametrize("silent", [True, False])
def test_a_server_that_dies_meanwhile_is_not_a_failure(servers: Servers, silent: bool):
    servers.dying = {TWO}
    servers.silent = {TWO} if silent else set()
    assert roll(SESSION, ["p"]) == Rolled(1)


def test_a_server_that_queues_no_new_wal_for_one_of_the_peers_is_a_failure(servers: Servers):
    servers.peers = ("p", "q")
    servers.wals |= {servers.queue(server, "q"): 10 for server in (ONE, TWO)}
    servers.lazy = {(ONE, "q")}
    rolled = roll(SESSION, servers.peers)
    assert rolled.servers == 1
    assert "no newer WAL" in rolled.failures[str(ONE)]


def test_only_the_given_servers_are_asked(servers: Servers):
    assert roll(SESSION, ["p"], [TWO]) == Rolled(1)
    assert [server for server, _ in servers.asked] == [TWO]
    assert servers.reads == 2
    assert roll(SESSION, ["p"], []) == Rolled(0)
    assert (len(servers.asked), servers.reads) == (1, 2)


def test_a_server_without_wals_for_the_peer_is_not_waited_for(servers: Servers):
    del servers.wals[servers.queue(TWO, "p")]
    assert roll(SESSION, ["p"]) == Rolled(2)


def test_a_cluster_without_live_servers_has_nothing_to_roll(servers: Servers):
    servers.alive, servers.wals = set(), {}
    assert roll(SESSION, ["p"]) == Rolled(0)


def test_very_many_silent_servers_delay_a_roll_no_longer_than_one(servers: Servers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rolling, "ASKED_AT_ONCE", 2)
    monkeypatch.setattr(rolling, "CALLS_SECONDS", 0.3)
    servers.alive = {ServerName(f"s{number}", 16020, 1) for number in range(40)}
    servers.wals = {}

    def silent(server: ServerName, *, login: Login, timeout: float) -> None:
        time.sleep(timeout)
        raise ConnectionFailed(f"{server.host}:{server.port}", "no answer")

    monkeypatch.setattr(rolling, "roll_wal_writer", silent)
    began = time.monotonic()
    rolled = roll(SESSION, ["p"])
    assert time.monotonic() - began < 2
    assert len(rolled.failures) == 40


@pytest.mark.long
def test_a_call_that_does_not_keep_its_time_delays_no_roll(servers: Servers, monkeypatch: pytest.MonkeyPatch):
    """No timeout is for the look-up of a server's name, which may hang."""
    monkeypatch.setattr(rolling, "CALLS_SECONDS", 0.3)
    hung = threading.Event()

    def ask(server: ServerName, *, login: Login, timeout: float) -> None:
        if server == TWO:
            hung.wait(20)
        servers.roll(server, login=login, timeout=timeout)

    monkeypatch.setattr(rolling, "roll_wal_writer", ask)
    began = time.monotonic()
    try:
        rolled = roll(SESSION, ["p"])
        assert time.monotonic() - began < 5
    finally:
        hung.set()
    assert rolled.servers == 1
    assert "within 0.3 s" in rolled.failures[str(TWO)]


@pytest.mark.parametrize("listed", list(itertools.permutations([3, 10, 2])), ids=str)
def test_the_newest_wal_of_a_group_is_known_in_whatever_order_a_queue_is_listed(listed: tuple[int, ...]):
    names = [f"h%2C1%2C1.{began}" for began in listed]
    assert rolling._newest_of([*names, "no WAL", "h%2C2%2C2.7"]) == {"h%2C1%2C1": 10, "h%2C2%2C2": 7}
