"""A batch's steps: rolling WALs of servers that answer, do not, or die; figures of a plan that fit Airflow's database."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from walferry.airflow.steps import batch
from walferry.names import ServerName
from walferry.rpc.errors import ConnectionFailed
from walferry.shipping.plan import GroupPlan, PeerPlan, PlannedWal
from walferry.source.cluster import SourceCluster

SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///hbase", user="etl")
ONE, TWO = ServerName("one", 16020, 1), ServerName("two", 16020, 2)


@dataclass
class Servers:
    """RegionServers as roll() meets them."""

    alive: set[ServerName] = field(default_factory=lambda: {ONE, TWO})
    silent: set[ServerName] = field(default_factory=set)  # do not answer
    lazy: set[ServerName] = field(default_factory=set)  # answer, and begin no new WAL
    dying: set[ServerName] = field(default_factory=set)  # are gone once they were asked
    newest: dict[tuple[str, str], int] = field(default_factory=lambda: {(str(ONE), "g1"): 10, (str(TWO), "g2"): 10})
    asked: list[tuple[ServerName, str | None]] = field(default_factory=list)

    def roll(self, server: ServerName, *, user: str | None, timeout: float) -> None:
        self.asked.append((server, user))
        if server in self.dying:
            self.alive = self.alive - {server}
            self.newest = {at: timestamp for at, timestamp in self.newest.items() if at[0] != str(server)}
        if server in self.silent:
            raise ConnectionFailed(f"{server.host}:{server.port}", "connection refused")
        if server not in self.lazy | self.dying:
            self.newest = {at: timestamp + (at[0] == str(server)) for at, timestamp in self.newest.items()}


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers()

    @contextmanager
    def connected(quorum: str):
        yield None

    monkeypatch.setattr("walferry.source.session.connected", connected)
    monkeypatch.setattr(batch, "check_peer", lambda *_: None)
    monkeypatch.setattr(batch, "live_servers", lambda *_: frozenset(servers.alive))
    monkeypatch.setattr(batch, "_newest_wals", lambda *_: dict(servers.newest))
    monkeypatch.setattr(batch, "roll_wal_writer", servers.roll)
    monkeypatch.setattr(batch, "ROLL_WAIT_S", 0.05)
    monkeypatch.setattr(batch, "ROLL_POLL_S", 0.01)
    return servers


def test_each_live_server_is_asked_once_as_the_connection_s_user(servers):
    assert batch.roll(SOURCE, "p") == batch.Rolled(2)
    assert sorted(servers.asked) == [(ONE, "etl"), (TWO, "etl")]


def test_a_live_server_that_does_not_answer_is_a_failure_and_the_others_are_rolled(servers):
    servers.silent = {TWO}
    rolled = batch.roll(SOURCE, "p")
    assert rolled.servers == 1
    assert list(rolled.failures) == [str(TWO)]
    assert "connection refused" in rolled.failures[str(TWO)]


@pytest.mark.parametrize("silent", [True, False])
def test_a_server_that_dies_meanwhile_is_no_failure(servers, silent):
    servers.dying = {TWO}
    servers.silent = {TWO} if silent else set()
    assert batch.roll(SOURCE, "p") == batch.Rolled(1)


def test_a_server_that_begins_no_new_wal_is_a_failure(servers):
    servers.lazy = {ONE}
    rolled = batch.roll(SOURCE, "p")
    assert rolled.servers == 1
    assert "no newer WAL" in rolled.failures[str(ONE)]


def test_a_server_without_wals_for_the_peer_is_not_waited_for(servers):
    del servers.newest[str(TWO), "g2"]
    assert batch.roll(SOURCE, "p") == batch.Rolled(2)


def test_a_cluster_without_live_servers_has_nothing_to_roll(servers):
    servers.alive, servers.newest = set(), {}
    assert batch.roll(SOURCE, "p") == batch.Rolled(0)


def _group(name: str, *wals: PlannedWal, problem: str | None = None) -> GroupPlan:
    return GroupPlan(name, "s,1,1", "p", len(wals) + 1, wals, problem)


def _wal(name: str, size: int | None = 100, *, finished: bool = False) -> PlannedWal:
    return PlannedWal(name, 0, size, None if size is None else "file:///w", finished)


def test_only_what_needs_a_job_is_counted():
    plan = PeerPlan("p", (_group("g1", _wal("a"), _wal("b", 50)), _group("g2", _wal("c", finished=True))))
    figures = batch.figures("p", plan.to_ship)
    assert (figures["groups"], figures["wals"], figures["bytes"]) == (1, 2, 150)


def test_a_plan_with_very_many_problems_stays_small():
    groups = tuple(_group(f"g{i}", _wal("a", None), problem="x" * 10_000) for i in range(3000))
    figures = batch.figures("p", groups)
    assert figures["groups"] == 3000
    assert figures["problems_left_out"] == 3000 - len(figures["problems"])
    assert len(json.dumps(figures)) < 20_000
