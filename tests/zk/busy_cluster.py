"""A cluster whose RegionServers carry out their orders before each look, for tests of operators' commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kazoo.client import KazooClient

from tests.zk.flows import WorldCluster
from tests.zk.region_world import Asked, RegionWorld
from tests.zk.role_znodes import ID
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.names import ServerName, url_encoded
from walferry.hbase.values import PBUF
from walferry.master.catalog import CatalogRead
from walferry.master.reconcile import ClusterView
from walferry.master.wal_splitting import TaskState, read_tasks, servers_with_wals
from walferry.replication.source.session import Session


class BusyCluster(WorldCluster):
    """Before each look the servers finish their orders, and split WALs if `splits` says so."""

    splits = True

    def look(self) -> tuple[ClusterView, CatalogRead]:
        world = self.world
        for server in world.live:
            world.settle_server(server)
        tasks, _ = read_tasks(world.zk, world.nodes)
        for wal in tasks if self.splits else ():
            value = pb.SplitLogTask(state=TaskState.DONE.name, server_name=pb.ServerName(host_name="w", port=1, start_code=1))
            world.zk.set(f"{world.nodes.split_tasks}/{url_encoded(wal)}", PBUF + value.SerializeToString())
        for name in set(world.unsplit) - servers_with_wals(self.wal_root):
            world.split_wals(name)
        return super().look()


def faultless_world(zk: KazooClient, new_client: Callable[[], KazooClient], regions: int) -> RegionWorld:
    """Make a world in which no call is lost and no open fails."""
    world = RegionWorld(zk, new_client, regions, seed=3)
    world.reshapes = 0.0
    world.chance.random = lambda: 0.5  # type: ignore[method-assign]
    return world


def start_server(world: RegionWorld, root: Path) -> ServerName:
    """Start a RegionServer with its folder of WALs."""
    world.start_server()
    (root / "WALs" / str(world.servers[-1].name)).mkdir()
    return world.servers[-1].name


def busy_cluster(world: RegionWorld, root: Path) -> Callable[[Session], BusyCluster]:
    """Start two servers of the world, with files in `root`. Returns a replacement for `work.cluster_of`."""
    (root / "WALs").mkdir()
    (root / "hbase.id").write_bytes(PBUF + pb.ClusterId(cluster_id=str(ID)).SerializeToString())
    for _ in range(2):
        start_server(world, root)

    def cluster_of(session: Session) -> BusyCluster:
        found = BusyCluster(session.zk, session.nodes, session.own, Asked(world, lambda: None), f"file://{root}")
        object.__setattr__(found, "world", world)
        return found

    return cluster_of
