"""A world of regions with a master at work, whose servers open, close and split regions and WALs as ordered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.zk.region_world import Asked, RegionWorld, states
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.names import ServerName, url_encoded
from walferry.hbase.values import PBUF
from walferry.master.catalog import CatalogRead
from walferry.master.master_calls import ServerRegistry
from walferry.master.plans import read_plans
from walferry.master.reconcile import ClusterView, look
from walferry.master.role import Role, take_role
from walferry.master.role_loop import Cluster, Master, Pass
from walferry.master.tables import ABSENT, WANTED, read_states
from walferry.master.wal_splitting import TaskState, read_tasks, servers_with_wals
from walferry.master.writes import MasterWrites

ME = ServerName("walferry.example.org", 16000, 1)
REGIONS = 8
PASSES = 60


class WorldCluster(Cluster):
    """A cluster with the catalog of a RegionWorld."""

    world: RegionWorld
    meta_is_open = True

    def look(self) -> tuple[ClusterView, CatalogRead]:
        stored, _ = read_states(self.zk, self.nodes)
        self.world.enabled = stored.get("t", ABSENT).state in WANTED
        regions = self.world.catalog()
        read = CatalogRead(regions, stored, complete=self.meta_is_open)
        return look(self.zk, self.nodes, self.own, self.servers, lambda: regions, lambda: servers_with_wals(self.wal_root)), read


class Flows:
    """A world with a master at work."""

    def __init__(self, world: RegionWorld, root: Path) -> None:
        self.world, self.root = world, root
        (root / "WALs").mkdir()
        for _ in range(2):
            self.start_server()
        zk = world.zk
        self.lock = take_role(zk, world.nodes, world.own, "test")
        role = Role(ME, self.lock, MasterWrites(zk, world.nodes, world.own, self.lock), ServerRegistry())
        self.cluster = WorldCluster(zk, world.nodes, world.own, Asked(world, lambda: None), f"file:{root}")
        object.__setattr__(self.cluster, "world", world)
        self.reported: list[str] = []
        self.master = Master(self.cluster, role, tell=self.reported.append)

    def start_server(self) -> None:
        self.world.start_server()
        (self.root / "WALs" / str(self.world.servers[-1].name)).mkdir()

    def kill(self, i: int = 0) -> ServerName:
        server = self.world.live[i]
        self.world.kill_server(server)
        (self.root / "WALs" / str(server.name) / f"{server.name.encoded()}.1").touch()
        return server.name

    def work(self) -> None:
        """Have servers carry out their orders, and split WALs."""
        for server in self.world.live:
            self.world.settle_server(server)
        task_states, _ = read_tasks(self.world.zk, self.world.nodes)
        for wal in task_states:
            value = pb.SplitLogTask(state=TaskState.DONE.name, server_name=pb.ServerName(host_name="w", port=1, start_code=1))
            path = f"{self.world.nodes.split_tasks}/{url_encoded(wal)}"
            self.world.zk.set(path, PBUF + value.SerializeToString())
        for name in list(self.world.unsplit):
            if name not in servers_with_wals(f"file:{self.root}"):
                self.world.split_wals(name)

    def until_quiet(self) -> Pass:
        """Make passes until nothing is left to do."""
        for _ in range(PASSES):
            done = self.master.one_pass()
            self.work()
            if not done.busy:
                return done
        raise AssertionError("\n".join(self.reported[-20:]))

    def served(self) -> dict[str, ServerName]:
        """Return the server of each served region. Checks that no region is served twice or in transition."""
        found = {}
        for encoded in self.world.meta:
            serving = [server.name for server in self.world.live if encoded in server.online]
            assert len(serving) <= 1
            if serving:
                found[encoded] = serving[0]
        assert states(self.world) == {}
        assert read_plans(self.world.zk, self.world.own) == ({}, {})
        return found


@pytest.fixture
def flows(zk: KazooClient, new_client: Callable[[], KazooClient], tmp_path: Path) -> Flows:
    world = RegionWorld(zk, new_client, REGIONS, seed=1)
    world.reshapes = 0.0
    return Flows(world, tmp_path)
