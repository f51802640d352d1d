"""The master who watches a real cluster of HBase 1.7.2: what becomes of deaths, silent servers, clients and HMasters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedded.client import JavaClient
from embedded.hbase import ClusterAddress
from tests.cluster.region_site import TABLE, Site, region_site, wait_for
from tests.cluster.walferry_runs import source_of
from walferry.hbase.cluster import live_servers
from walferry.hbase.rpc import admin
from walferry.master import keeping
from walferry.master.states import RegionState
from walferry.master.work import WorkTerms
from walferry.master.znodes import encode_region
from walferry.replication.source.session import open_session

LIMIT_SECONDS = 5.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, java_client: Callable[[ClusterAddress], JavaClient]) -> Iterator[Site]:
    with region_site(Path(tmp_path_factory.mktemp("watching")), java_client, servers=3) as found:
        yield found


@contextmanager
def kept(site: Site, *, clients: bool = True) -> Iterator[Future[Any]]:
    """Keep the master's role in a thread for the length of a block. The future has what `keep_role` returns."""
    said: list[str] = []
    stop = threading.Event()
    terms = WorkTerms("the test", "tests", "localhost", "127.0.0.1", limit_seconds=LIMIT_SECONDS, serves_clients=clients)

    def keep() -> Any:
        with open_session(source_of(site.cluster.address)) as session:
            return keeping.keep_role(session, terms, stop, said.append, balance_seconds=None)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(keep)
        try:
            wait_for(lambda: future.done() or any("acts as the cluster's master" in line for line in said), "it is the master")
            yield future
        except BaseException:
            print("\n".join(said[-60:]))
            raise
        finally:
            stop.set()
    future.result()


def test_a_client_of_hbase_1_disables_and_enables_a_table(site: Site) -> None:
    with kept(site):
        assert site.cluster.switch_table("disable", TABLE) == f"done: disable {TABLE}"
        assert site.amiss(closed=True) == []
        assert "TableNotEnabledException" in site.cluster.switch_table("disable", TABLE)
        assert site.cluster.switch_table("enable", TABLE) == f"done: enable {TABLE}"
        site.await_whole()
        assert "TableNotDisabledException" in site.cluster.switch_table("enable", TABLE)
        assert "TableNotFoundException" in site.cluster.switch_table("disable", "nothing")


def test_a_region_that_a_silent_server_was_to_open_goes_to_another_one(site: Site) -> None:
    """The silent server has a session, so it may come back at any time: then it must not open the region."""
    encoded = site.table_regions()[0]
    known = site.look()[0].catalog[encoded]
    with kept(site, clients=False):
        site.await_whole()
    assert known.server is not None
    silent = next(server for server in sorted(site.live) if server not in (known.server, site.meta_at()))
    close(site, encoded)
    with site.stopped(silent):
        site.zk.create(site.nodes.region_in_transition(encoded), encode_region(known.name, RegionState.OFFLINE, silent))
        with kept(site, clients=False):
            path = site.nodes.region_in_transition(encoded)
            wait_for(lambda: site.zk.exists(path) is None, "the region is open elsewhere")
            assert silent in live_servers(site.zk, site.nodes), "its session has not ended"
    with kept(site, clients=False):
        site.await_whole()
    assert site.look()[0].catalog[encoded].server != silent


def close(site: Site, encoded: str) -> None:
    """Have the region's server close it, without a znode: as after a death whose WALs are split."""
    (server,) = site.look()[0].regions[encoded].served_by
    admin.close_copy(server, encoded)
    wait_for(lambda: encoded not in site.regions.servers.online([server])[server], "the region is closed")


def test_the_death_of_a_server_mends_itself_and_an_hmaster_that_is_started_gets_the_role(site: Site) -> None:
    with kept(site) as future:
        site.await_whole()
        site.write()
        site.kill(site.meta_at())
        site.await_whole()
        site.write()
        site.cluster.launch_master()
        assert future.result(60)[0].startswith("localhost,")
    site.cluster.await_ready()
    report = site.cluster.hbck()
    assert report.inconsistencies == 0, report.text
    assert site.client.scan_all(TABLE) == site.cells
