"""HBase's own log cleaner deletes shipped WALs, and none that is still queued."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import pytest

from embedded.client import GLOBAL
from embedded.hbase import QUICK_LOG_CLEANER
from embedded.standalone import StandaloneCluster
from embedded.wire import put
from tests.cluster.conftest import Sides
from tests.cluster.test_shipping import archive, eventually, located
from tests.cluster.walferry_runs import plan, positions, roll, ship_one, source_of
from walferry.shipping.summary import Status


@pytest.fixture
def quick(sides, cluster_folder, java_client) -> Iterator[Sides]:
    """The pair with another source, whose cleaner deletes unneeded WALs within seconds and not after ten minutes."""
    with StandaloneCluster(cluster_folder / "quick", QUICK_LOG_CLEANER, name="quick") as cluster:
        yield dataclasses.replace(
            sides, source_cluster=cluster, source=java_client(cluster.address), at=source_of(cluster.address)
        )


def test_it_takes_shipped_wals_and_none_that_is_queued(quick, unique, managed_peer):
    table = unique("t")
    for client in (quick.source, quick.slave):
        client.create_table(table, {"f": GLOBAL})
    peer = managed_peer(quick.source_cluster.address, quick.slave_cluster.address)
    quick.source.write(table, [put("r1", {"f:a": b"1"})])
    roll(quick.at, peer)
    first = [wal.name for group in plan(quick.at, peer).groups for wal in group.wals]
    archive(quick, first)
    time.sleep(6)  # two rounds of the cleaner, and more than its TTL
    assert all(located(quick, wal) for wal in first)
    assert ship_one(quick.at, peer).status is Status.DONE
    queued = positions(quick.at, peer)
    assert not queued.keys() & set(first)
    eventually(lambda: not any(located(quick, wal) for wal in first), f"{first} are deleted")
    assert all(located(quick, wal) for wal in queued)
