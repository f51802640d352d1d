"""A cluster's znodes are created only for the cluster whose files exist."""

from __future__ import annotations

import pytest

from tests.zk.region_commands import Commands, open_regions, regions
from tests.zk.role_znodes import nodes, own
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.values import PBUF
from walferry.master.errors import NoClusterId
from walferry.master.role import Candidate, acting_as_master

__all__ = ["nodes", "open_regions", "own", "regions"]  # fixtures


@pytest.mark.parametrize("value", [None, b"", b"garbage", PBUF + b"\xff"])
def test_no_cluster_id_is_invented(zk, nodes, own, tmp_path, value):
    if value is not None:
        (tmp_path / "hbase.id").write_bytes(value)
    refused = pytest.raises(NoClusterId, match=r"hbase\.id: .*Check that this is the cluster's hbase\.rootdir")
    with refused, acting_as_master(zk, nodes, own, Candidate("a run", f"file://{tmp_path}")):
        pass
    assert not zk.exists(nodes.master)
    assert not zk.exists(nodes.running)


def test_the_wals_of_another_cluster_are_not_touched(open_regions: Commands) -> None:
    """With another cluster's root, its servers would look dead: they have folders of WALs, and no session in this ZooKeeper."""
    regions = open_regions
    theirs = regions.root / "WALs" / "rs1.another.org,16020,1700000000000"
    theirs.mkdir()
    (theirs / "rs1.another.org%2C16020%2C1700000000000.1700000000001").touch()
    other = pb.ClusterId(cluster_id="00000000-0000-4000-8000-000000000000")
    (regions.root / "hbase.id").write_bytes(PBUF + other.SerializeToString())
    encoded, (source,) = next(iter(regions.served().items()))
    target = next(server.name for server in regions.world.live if server.name != source)
    status, _, err = regions.run("move", encoded, str(target), "--yes")
    assert theirs.is_dir()
    assert status == 1
    assert "hbase.id: these are the files of cluster 00000000-0000-4000-8000-000000000000" in err
    assert regions.served()[encoded] == [source]
    assert not regions.world.zk.exists(regions.world.nodes.master)
