"""The DAGs for regions of HBase 1, run by Airflow itself, over a ZooKeeper with regions and servers that open them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.zk.busy_cluster import BusyCluster, busy_cluster, faultless_world
from tests.zk.fixtures import new_client, zk
from tests.zk.region_world import RegionWorld, states
from tests.zk.role_znodes import become_active
from walferry.airflow.operators.approval import NO, YES
from walferry.hbase.names import ServerName
from walferry.master import work
from walferry.master.states import RegionState
from walferry.master.znodes import encode_region, read_region

from .conftest import Run
from .people import person

__all__ = ["new_client", "zk"]  # fixtures

REGIONS = 3
TEMPLATE = "{{conn.slack.password}}"
SECRET = "hunter2-of-slack"


@dataclass(frozen=True)
class Site:
    """The world, and the root of its files."""

    world: RegionWorld
    root: Path

    def served(self) -> list[int]:
        """Return how many servers serve each region."""
        return [sum(encoded in server.online for server in self.world.live) for encoded in sorted(self.world.meta)]


@pytest.fixture
def site(
    zk: KazooClient, new_client: Callable[[], KazooClient], zookeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Site:
    """The cluster as the connection `hbase_source`: two servers, and regions that no server serves."""
    world = faultless_world(zk, new_client, REGIONS)
    cluster_of = busy_cluster(world, tmp_path)
    monkeypatch.setattr(work, "cluster_of", cluster_of)
    extra = {"wal_root": f"file://{tmp_path}", "znode_parent": world.nodes.base, "walferry_root": world.own.root}
    connection = {"conn_type": "generic", "host": zookeeper.quorum, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_CONN_SLACK", json.dumps({"conn_type": "http", "host": "slack", "password": SECRET}))
    return Site(world, tmp_path)


def tasks(run: Run) -> dict[str, str]:
    return {name: state for (name, _), state in run.tasks.items()}


def test_a_dry_run_lists_what_is_stuck_and_changes_nothing(
    site: Site, run_dag: Callable[..., Run], logged: Callable[[], str]
) -> None:
    ended = run_dag("region_transitions", dry_run=True)
    assert tasks(ended) == {"report": "success", "act": "success", "check": "failed"}
    assert ended.tries["check", None] == 1
    assert [(row["state"], row["next"]) for row in ended.report["regions"]] == [
        ("not served", "`regions unstick`, or an HMaster that is started")
    ] * REGIONS
    assert len(ended.report["findings"]) == len(ended.report["lines"]) == REGIONS
    reported = logged()
    assert f"0 of {REGIONS} regions are open at 2 RegionServers; no master is active" in reported
    assert "create the znode as OFFLINE and ask a server to open it" in reported
    assert "This is a dry run: nothing was done" in reported
    assert not site.world.zk.exists(site.world.own.master_role)
    assert sum(site.served()) == 0


def test_a_real_run_brings_regions_to_their_end_and_the_next_finds_nothing_to_do(
    site: Site, run_dag: Callable[..., Run], logged: Callable[[], str]
) -> None:
    world = site.world
    encoded = min(world.meta)
    gone = ServerName("rs-9.example.org", 16020, 1_600_000_000_000)
    world.zk.create(world.nodes.region_in_transition(encoded), encode_region(world.names[encoded], RegionState.OPENING, gone))
    ended = run_dag("region_transitions", dry_run=False)
    assert ended.state == "success"
    assert site.served() == [1] * REGIONS
    assert states(world) == {}
    assert not world.zk.exists(world.nodes.master)
    assert f"region {encoded}: the server that opened it is dead; force the znode to OFFLINE" in logged()
    version = world.zk.exists(world.own.master_role).version
    again = run_dag("region_transitions", dry_run=False)
    assert (again.state, again.report["ok"], again.report["lines"]) == ("success", True, ["Nothing is to be done."])
    assert world.zk.exists(world.own.master_role).version == version, "the role was not taken for nothing"


def test_what_people_have_to_do_fails_the_run_and_hostile_text_stays_text(
    site: Site, run_dag: Callable[..., Run], logged: Callable[[], str]
) -> None:
    world = site.world
    assert run_dag("region_transitions", dry_run=False).state == "success"
    encoded = min(world.meta)
    for server in world.live:
        server.online.add(encoded)
    value = encode_region(world.names[encoded], RegionState.OPENING, ServerName(TEMPLATE, 1, 1)) + b"\x1b[2J" * 1000
    world.zk.create(world.nodes.region_in_transition(TEMPLATE), value)
    ended = run_dag("region_transitions", dry_run=False)
    assert tasks(ended) == {"report": "success", "act": "success", "check": "failed"}
    twice, broken = sorted(ended.report["regions"], key=lambda row: str(row["region"]))
    assert (twice["region"], twice["state"], twice["next"]) == (encoded, "served twice", "an operator")
    assert (broken["region"], broken["state"]) == (TEMPLATE, "broken")
    assert site.served()[0] == 2, "a double assignment is resolved on request only"
    reported = logged()
    assert "regions close-copy" in reported
    assert SECRET not in reported
    assert "\x1b[2J" not in reported


def test_beside_an_hmaster_nothing_is_done_but_what_it_waits_for_in_vain(
    site: Site, run_dag: Callable[..., Run], new_client: Callable[[], KazooClient], later: Callable[..., None]
) -> None:
    world = site.world
    become_active(new_client(), world.nodes)
    assert run_dag("region_transitions", dry_run=False).report["lines"] == ["Nothing is to be done."]
    assert states(world) == {}
    encoded = min(world.meta)
    server = world.live[0]
    path = world.nodes.region_in_transition(encoded)
    world.zk.create(path, encode_region(world.names[encoded], RegionState.OPENING, server.name))

    def hmaster() -> None:
        give_up = time.monotonic() + 60
        while (found := read_region(world.zk, world.nodes, encoded)) and found.state is not RegionState.FAILED_OPEN:
            assert time.monotonic() < give_up
            time.sleep(0.1)
        server.online.add(encoded)
        world.zk.delete(path)

    later(0, hmaster)
    ended = run_dag("region_transitions", dry_run=False, limit_minutes=0)
    assert [row["state"] for row in ended.report["regions"]].count("OPENING") == 1
    assert tasks(ended)["act"] == "success"
    assert site.served()[0] == 1


def test_a_cluster_is_started_without_its_hmaster_after_the_wals_of_dead_servers_are_split(
    site: Site, run_dag: Callable[..., Run], logged: Callable[[], str], zookeeper: Any
) -> None:
    world = site.world
    dead = world.live[0]
    dead.online.add(min(world.meta))
    world.meta[min(world.meta)] = dead.name
    world.kill_server(dead)
    (site.root / "WALs" / str(dead.name) / f"{dead.name.encoded()}.1").touch()
    with person(YES) as asked:
        ended = run_dag("emergency_start")
    reported = logged()
    assert set(tasks(ended).values()) == {"success"}, reported
    (question,) = asked
    assert question.subject == f"Start the cluster of {zookeeper.quorum}{world.nodes.base} without its HMaster?"
    assert f"    the WALs of dead servers that are split first: {dead.name}\n" in question.body
    assert site.served() == [1] * REGIONS
    assert (site.root / "oldWALs" / f"{dead.name.encoded()}.1").exists()
    waits = reported.index(f"Nothing is opened yet: the WALs of {dead.name}, which is dead, are not split")
    assert (
        waits
        < reported.index(f"{REGIONS} of {REGIONS} regions are open, 0 are in transition")
        < reported.index("start an HMaster")
    )
    assert not world.zk.exists(world.nodes.master)


def test_while_wals_are_not_split_or_a_server_is_silent_nothing_is_opened(
    site: Site, run_dag: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    monkeypatch.setattr(BusyCluster, "splits", False)
    world = site.world
    dead = world.live[0]
    world.kill_server(dead)
    (site.root / "WALs" / str(dead.name) / f"{dead.name.encoded()}.1").touch()
    with person(YES):
        ended = run_dag("emergency_start", wait_minutes=1 / 20)
    assert tasks(ended)["start"] == "failed"
    assert sum(site.served()) == 0
    assert states(world) == {}
    reported = logged()
    assert f"the WALs of {dead.name}, which is dead, are not split: 1 WALs are left" in reported


def test_no_cluster_is_started_without_a_person_s_yes(site: Site, run_dag: Callable[..., Run], logged: Callable[[], str]) -> None:
    with person(NO, TEMPLATE):
        ended = run_dag("emergency_start")
    assert (tasks(ended)["preview"], tasks(ended)["start"], ended.tries["start", None]) == ("success", "failed", 1)
    assert sum(site.served()) == 0
    assert not site.world.zk.exists(site.world.own.master_role)
    assert f"the cluster is not started: {TEMPLATE} has rejected it. Nothing was done" in logged()


def test_a_yes_for_one_cluster_starts_no_other(
    site: Site, run_dag: Callable[..., Run], clear: Callable[..., Run], logged: Callable[[], str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with person(YES):
        ended = run_dag("emergency_start")
    assert tasks(ended)["start"] == "success"
    version = site.world.zk.exists(site.world.own.master_role).version
    elsewhere = os.environ["AIRFLOW_CONN_HBASE_SOURCE"].replace(str(tmp_path), f"{tmp_path}/b")
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", elsewhere)
    assert tasks(clear("emergency_start", ended, "start"))["start"] == "failed"
    assert "the connection leads to another cluster than the one that was approved. Nothing was done" in logged()
    assert site.world.zk.exists(site.world.own.master_role).version == version


def test_an_emergency_start_is_refused_beside_an_hmaster(
    site: Site, run_dag: Callable[..., Run], new_client: Callable[[], KazooClient], logged: Callable[[], str]
) -> None:
    become_active(new_client(), site.world.nodes)
    with person(YES) as asked:
        ended = run_dag("emergency_start")
    assert (tasks(ended)["preview"], asked) == ("failed", [])
    assert "HMaster m1.example.org,16000,1700000000000 is active" in logged()


@pytest.mark.parametrize("dag", ["region_transitions", "emergency_start"])
def test_an_unknown_parameter_is_refused(site: Site, run_dag: Callable[..., Run], dag: str) -> None:
    ended = run_dag(dag, dry=False)
    assert "failed" in tasks(ended).values()
    assert not site.world.zk.exists(site.world.own.master_role)
