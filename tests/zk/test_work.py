"""Operators' orders are carried out to their end, on clusters of HBase 1 only."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from tests.zk.region_commands import Commands, regions
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.values import PBUF
from walferry.master import work
from walferry.master.errors import NotHBase1
from walferry.master.reconcile import Known
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session

__all__ = ["regions"]  # a fixture


def test_what_is_known_only_later_is_unstuck_too(regions: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """All regions except hbase:meta's are in this state while hbase:meta is not open."""
    world = regions.world
    every = dict(world.meta)
    first = min(every)
    catalog = world.catalog

    def grows() -> dict[str, Known]:
        known = catalog()
        opened = any(first in server.online for server in world.live)
        return {name: region for name, region in known.items() if opened or name == first}

    monkeypatch.setattr(world, "catalog", grows)
    assert regions.run("unstick", "--yes")[0] == 0
    assert {len(servers) for servers in regions.served().values()} == {1}


def test_a_cluster_of_hbase_2_is_refused(zk: KazooClient, regions: Commands) -> None:
    info = pb.RegionServerInfo()
    info.version_info.version = "2.6.1"
    for field in ("url", "revision", "user", "date", "src_checksum"):
        setattr(info.version_info, field, "")
    zk.set(f"{regions.world.nodes.rs}/{regions.world.live[0].name}", PBUF + info.SerializePartialToString())
    session = Session(SourceCluster(quorum="", wal_root="", znode_parent=regions.world.nodes.base), zk)
    with pytest.raises(NotHBase1, match=r"is HBase 2\.6\.1"):
        work.check_hbase_1(session)
