"""Runs `walferry regions` on a cluster whose servers open and close regions as HBase's servers do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.zk.busy_cluster import busy_cluster, faultless_world
from tests.zk.region_world import RegionWorld
from walferry.cli.main import main
from walferry.hbase.names import ServerName
from walferry.master import work

REGIONS = 4


class Commands:
    """The commands, run as by an operator of the world's cluster."""

    def __init__(self, world: RegionWorld, root: Path, quorum: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.world, self.capsys = world, capsys
        extra = {"wal_root": f"file://{root}", "znode_parent": world.nodes.base, "walferry_root": world.own.root}
        self.source = json.dumps({"conn_type": "generic", "host": quorum, "extra": extra})
        self.root = root
        self.cluster = busy_cluster(world, root)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command. Returns its exit status, output and errors."""
        where = ["--host", "localhost", "--wait", "60"] if arguments[0] not in ("list", "explain") else []
        status = main(["--source", self.source, "regions", *arguments, *where])
        reported = self.capsys.readouterr()
        return status, reported.out, reported.err

    def served(self) -> dict[str, list[ServerName]]:
        return {encoded: [each.name for each in self.world.live if encoded in each.online] for encoded in self.world.meta}


@pytest.fixture
def regions(
    zk: KazooClient, new_client: Callable[[], KazooClient], tmp_path: Path, zookeeper, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Commands:  # fmt: skip
    """Two servers, and regions that no server serves yet."""
    world = faultless_world(zk, new_client, REGIONS)
    found = Commands(world, tmp_path, zookeeper.quorum, capsys)
    monkeypatch.setattr(work, "cluster_of", found.cluster)
    return found


@pytest.fixture
def open_regions(regions: Commands) -> Commands:
    """The same, and all regions are open."""
    assert regions.run("unstick", "--yes")[0] == 0
    assert {len(servers) for servers in regions.served().values()} == {1}
    return regions
