"""The master's role over a real HDFS: WALs of dead and of half-dead servers, and where the blocks of regions lie."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.client import JavaClient
from embedded.hbase import ClusterAddress, write_site
from embedded.hdfs import Hdfs
from tests.cluster.region_site import Site, in_charge, region_site, wait_for
from walferry.hbase.files.systems import list_entries
from walferry.hbase.names import ServerName
from walferry.master.locality import HdfsLocality


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    hdfs = Hdfs(Path(tmp_path_factory.mktemp("hdfs")))
    try:
        hdfs.start()
        yield hdfs
    finally:
        hdfs.kill()


@pytest.fixture(scope="module")
def site(
    hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory, java_client: Callable[[ClusterAddress], JavaClient]
) -> Iterator[Site]:
    folder = Path(tmp_path_factory.mktemp("on-hdfs"))
    with region_site(folder, java_client, files=hdfs, splits=[b"4", b"8", b"c"]) as found:
        yield found
        found.hand_over()


def archived(site: Site, server: ServerName) -> list[str]:
    """The WALs of a server in oldWALs."""
    return [entry.name for entry in list_entries(f"{site.root}/oldWALs") if entry.name.startswith(server.encoded())]


def busiest(site: Site) -> ServerName:
    """The server with most regions that does not have hbase:meta."""
    return max(site.live - {site.meta_at()}, key=lambda server: site.load()[server])


def test_the_open_wal_of_a_dead_server_is_closed_split_and_archived(site: Site) -> None:
    with in_charge(site) as charge:
        site.start_servers(1)
        dead = busiest(site)
        site.kill(dead)
        site.await_whole(charge.story)
        assert archived(site, dead)
        site.write()


def test_the_server_of_hbase_meta_dies(site: Site) -> None:
    with in_charge(site) as charge:
        site.start_servers(1)
        dead = site.meta_at()
        site.kill(dead)
        site.await_whole(charge.story)
        assert any(name.endswith(".meta") for name in archived(site, dead))
        site.write()


def test_a_server_that_stood_still_for_longer_than_its_session_can_write_nothing_any_more(site: Site) -> None:
    with in_charge(site) as charge:
        site.start_servers(1)
        zombie = busiest(site)
        process = next(each.process for each in site.cluster.regionservers if each.server_name == str(zombie))
        with site.stopped(zombie):
            site.zk.delete(f"{site.nodes.base}/rs/{zombie}")  # as if its session had ended
            site.await_regions(charge.story)
        site.write()  # the client still knows the regions at the zombie
        wait_for(lambda: not process.alive, "the zombie aborts")
        site.await_whole(charge.story)
    site.cluster.regionservers = [each for each in site.cluster.regionservers if each.process is not process]


def test_webhdfs_tells_where_the_blocks_of_a_region_lie(
    site: Site, hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = re.search(r"Jetty bound to port (\d+)", hdfs.processes[0].log_text())
    assert found is not None
    write_site(tmp_path / "core-site.xml", {"fs.defaultFS": hdfs.url})
    write_site(tmp_path / "hdfs-site.xml", {"dfs.namenode.http-address": f"localhost:{found[1]}"})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    view, _ = site.look()
    held = HdfsLocality(site.root, getpass.getuser())(list(view.catalog.values()))
    assert held.keys() == view.catalog.keys()
    with_files = [encoded for encoded in site.table_regions() if held[encoded]]
    assert with_files  # regions that were opened again after a server's death
    assert all(held[encoded] == {"localhost": 1.0} for encoded in with_files)
