"""The five flows of the master, each from its beginning to its end, with servers that open and close regions as HBase's do."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.zk.region_world import Asked, RegionWorld, states
from walferry.hbase.values import PBUF
from walferry.names import ServerName
from walferry.protos import hbase_pb2 as pb
from walferry.regions import tables
from walferry.regions.acting import Role
from walferry.regions.catalog import CatalogRead
from walferry.regions.decide import Step
from walferry.regions.errors import TableStateChanged, WrongTableState
from walferry.regions.master import Cluster, Master, Pass, decide_for
from walferry.regions.plans import read_plans
from walferry.regions.reconcile import View, look
from walferry.regions.registry import ServerRegistry
from walferry.regions.role import take_role
from walferry.regions.split_tasks import TaskState, read_tasks, task_name
from walferry.regions.states import State
from walferry.regions.table_states import (
    ABSENT,
    WANTED,
    StoredState,
    TableState,
    read_state,
    read_states,
    write_state,
)
from walferry.regions.wal_splitting import servers_with_wals
from walferry.regions.writes import MasterWrites
from walferry.regions.znodes import encode_region

ME = ServerName("walferry.example.org", 16000, 1)
DEAD = ServerName("rs-9.example.org", 16020, 1_600_000_000_000)
REGIONS = 8
PASSES = 60


class WorldCluster(Cluster):
    """A cluster whose catalog is that of a RegionWorld."""

    world: RegionWorld
    meta_is_open = True

    def look(self) -> tuple[View, CatalogRead]:
        stored, _ = read_states(self.zk, self.nodes)
        self.world.enabled = stored.get("t", ABSENT).state in WANTED
        regions = self.world.catalog()
        read = CatalogRead(regions, stored, complete=self.meta_is_open)
        return look(
            self.zk, self.nodes, self.own, self.servers, lambda: regions, lambda: servers_with_wals(self.wal_root)
        ), read


class Flows:
    """A world with a master at work."""

    def __init__(self, world: RegionWorld, root: Path) -> None:
        self.world, self.root = world, root
        (root / "WALs").mkdir()
        for _ in range(2):
            self.start_server()
        zk = world.zk
        self.hold = take_role(zk, world.nodes, world.own, "test")
        role = Role(ME, self.hold, MasterWrites(zk, world.nodes, world.own, self.hold), ServerRegistry())
        self.cluster = WorldCluster(zk, world.nodes, world.own, Asked(world, lambda: None), f"file:{root}")
        object.__setattr__(self.cluster, "world", world)
        self.told: list[str] = []
        self.master = Master(self.cluster, role, tell=self.told.append)

    def start_server(self) -> None:
        self.world.start_server()
        (self.root / "WALs" / str(self.world.servers[-1].name)).mkdir()

    def kill(self, i: int = 0) -> ServerName:
        server = self.world.live[i]
        self.world.kill_server(server)
        (self.root / "WALs" / str(server.name) / f"{server.name.encoded()}.1").touch()
        return server.name

    def work(self) -> None:
        """Servers do what they were asked, and split WALs."""
        for server in self.world.live:
            self.world.settle_server(server)
        task_states, _ = read_tasks(self.world.zk, self.world.nodes)
        for wal in task_states:
            value = pb.SplitLogTask(state=TaskState.DONE.name, server_name=pb.ServerName(host_name="w", port=1, start_code=1))
            path = f"{self.world.nodes.split_tasks}/{task_name(wal)}"
            self.world.zk.set(path, PBUF + value.SerializeToString())
        for name in list(self.world.unsplit):
            if name not in servers_with_wals(f"file:{self.root}"):
                self.world.split_wals(name)

    def until_quiet(self) -> Pass:
        """Passes until nothing is left to do."""
        for _ in range(PASSES):
            done = self.master.one_pass()
            self.work()
            if not done.busy:
                return done
        raise AssertionError("\n".join(self.told[-20:]))

    def served(self) -> dict[str, ServerName]:
        """Who serves each region that is served; no region is served twice, and none is in transition."""
        found = {}
        for encoded in self.world.meta:
            serving = [server.name for server in self.world.live if encoded in server.online]
            assert len(serving) <= 1
            if serving:
                found[encoded] = serving[0]
        assert states(self.world) == {}
        assert read_plans(self.world.zk, self.world.own) == ({}, [])
        return found


@pytest.fixture
def flows(zk: KazooClient, new_client: Callable[[], KazooClient], tmp_path: Path) -> Flows:
    world = RegionWorld(zk, new_client, REGIONS, seed=1)
    world.reshapes = 0.0
    return Flows(world, tmp_path)


def test_a_start_clears_what_an_earlier_life_has_left_and_spreads_the_regions(flows: Flows) -> None:
    world = flows.world
    for encoded, state in zip(sorted(world.meta), (State.OPENING, State.CLOSED, State.OPENED, State.CLOSING), strict=False):
        world.zk.create(world.nodes.region_in_transition(encoded), encode_region(world.names[encoded], state, DEAD))
    assert flows.master.start(minimum=2)
    assert states(world) == {}
    flows.until_quiet()
    assert Counter(flows.served().values()) == dict.fromkeys((server.name for server in world.live), REGIONS // 2)


@pytest.mark.slow
def test_with_a_region_online_or_in_transition_at_a_live_server_it_is_a_failover(flows: Flows) -> None:
    world = flows.world
    encoded = min(world.meta)
    value = encode_region(world.names[encoded], State.OFFLINE, world.live[0].name)
    world.zk.create(world.nodes.region_in_transition(encoded), value)
    assert not flows.master.start()
    assert list(states(world)) == [encoded]
    flows.until_quiet()
    assert len(flows.served()) == REGIONS
    assert not flows.master.start()


def test_a_dead_server_s_regions_are_opened_elsewhere_after_its_wals_are_split(flows: Flows) -> None:
    flows.until_quiet()
    dead = flows.kill()
    flows.master.one_pass()
    assert states(flows.world) == {}  # all wait for the WALs
    flows.until_quiet()
    served = flows.served()
    assert len(served) == REGIONS
    assert dead not in served.values()
    assert (flows.root / "oldWALs" / f"{dead.encoded()}.1").exists()


def test_a_table_is_disabled_and_enabled_again(flows: Flows) -> None:
    flows.until_quiet()
    world = flows.world
    tables.disable(world.zk, world.nodes, flows.hold, "t")
    flows.until_quiet()
    assert flows.served() == {}
    assert read_state(world.zk, world.nodes, "t").state is TableState.DISABLED
    tables.enable(world.zk, world.nodes, flows.hold, "t")
    flows.until_quiet()
    assert len(flows.served()) == REGIONS
    assert read_state(world.zk, world.nodes, "t").state is TableState.ENABLED


@pytest.mark.parametrize("state", [State.OFFLINE, State.OPENED, State.FAILED_OPEN])
def test_an_open_that_another_master_has_left_of_a_disabled_table_leaves_no_region_open(flows: Flows, state: State) -> None:
    world = flows.world
    tables.disable(world.zk, world.nodes, flows.hold, "t")
    flows.until_quiet()
    encoded, server = min(world.meta), world.live[0]
    world.zk.create(world.nodes.region_in_transition(encoded), encode_region(world.names[encoded], state, server.name))
    if state is State.OPENED:
        server.online.add(encoded)
    for _ in range(5):  # a region that is open counts as quiet
        flows.until_quiet()
    assert flows.served() == {}
    assert read_state(world.zk, world.nodes, "t").state is TableState.DISABLED


def test_a_table_is_not_disabled_while_the_znode_of_one_of_its_regions_cannot_be_read(flows: Flows) -> None:
    flows.until_quiet()
    world = flows.world
    broken = world.nodes.region_in_transition(min(world.meta))
    world.zk.create(broken, b"junk")
    tables.disable(world.zk, world.nodes, flows.hold, "t")
    for _ in range(5):
        flows.until_quiet()
    assert read_state(world.zk, world.nodes, "t").state is TableState.DISABLING
    world.zk.delete(broken)
    flows.until_quiet()
    assert flows.served() == {}
    assert read_state(world.zk, world.nodes, "t").state is TableState.DISABLED


def test_a_server_that_dies_while_its_table_is_disabled_leaves_no_region_open(flows: Flows) -> None:
    flows.until_quiet()
    tables.disable(flows.world.zk, flows.world.nodes, flows.hold, "t")
    flows.master.one_pass()
    flows.kill()
    flows.until_quiet()
    assert flows.served() == {}
    assert read_state(flows.world.zk, flows.world.nodes, "t").state is TableState.DISABLED


def test_a_new_server_gets_its_share_of_the_regions(flows: Flows) -> None:
    flows.until_quiet()
    flows.start_server()
    assert flows.master.balance()
    assert flows.master.balance() == []  # regions are in transition
    flows.until_quiet()
    assert sorted(Counter(flows.served().values()).values()) == [2, 3, 3]


def test_the_loop_goes_on_until_it_is_told_to_stop(flows: Flows) -> None:
    stop = threading.Event()
    loop = threading.Thread(target=flows.master.run, args=(stop,))
    loop.start()
    try:
        give_up = time.monotonic() + 120
        while states(flows.world) or not all(flows.world.serving(row) for row in flows.world.all_rows):
            assert time.monotonic() < give_up, flows.told[-20:]
            flows.work()
            time.sleep(0.05)
    finally:
        stop.set()
        loop.join(60)
    assert not loop.is_alive()
    assert len(flows.served()) == REGIONS


def test_only_the_region_that_was_asked_for_is_opened(flows: Flows) -> None:
    encoded = min(flows.world.meta)
    for _ in range(10):
        flows.master.one_pass(frozenset({encoded}))
        flows.work()
    assert list(flows.served()) == [encoded]


def test_while_hbase_meta_cannot_be_read_no_other_region_is_touched(flows: Flows) -> None:
    view, read = flows.cluster.look()
    incomplete = CatalogRead(read.regions, complete=False)
    assert {decision.step for _, decision in decide_for(view, read)} == {Step.CREATE}
    assert {decision.step for _, decision in decide_for(view, incomplete)} == {Step.WAIT}


def test_a_table_s_state_changes_only_from_the_state_and_version_that_were_read(flows: Flows) -> None:
    world = flows.world
    with pytest.raises(WrongTableState, match="ENABLED"):
        write_state(world.nodes, flows.hold, "t", ABSENT, TableState.DISABLED)
    write_state(world.nodes, flows.hold, "t", ABSENT, TableState.DISABLING)
    assert read_state(world.zk, world.nodes, "t") == StoredState(TableState.DISABLING, 0)
    for seen in (ABSENT, StoredState(TableState.ENABLED, 7)):
        with pytest.raises(TableStateChanged):
            write_state(world.nodes, flows.hold, "t", seen, TableState.DISABLING)
