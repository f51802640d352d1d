"""Edits written into one real HBase arrive in another because Walferry shipped them."""

from __future__ import annotations

import pytest

from embedded.client import GLOBAL, LOCAL
from tests.cluster.walferry_runs import plan, ship, source_of
from walferry.summary import Status


@pytest.fixture
def pair(standalone_pair, java_client):
    return standalone_pair, java_client(standalone_pair.source.address), java_client(standalone_pair.slave.address)


@pytest.fixture
def table(pair, unique):
    """A table with one GLOBAL and one LOCAL family on both sides."""
    _, source, slave = pair
    name = unique("t")
    for client in (source, slave):
        client.create_table(name, {"f": GLOBAL, "l": LOCAL})
    return name


def test_global_families_arrive_and_local_ones_do_not(pair, table, managed_peer):
    clusters, source, slave = pair
    peer = managed_peer(clusters.source.address, clusters.slave.address)
    source.put_many(table, 2000, ["f:a", "f:b", "l:c"], batch=50)
    (summary,) = ship(source_of(clusters.source.address), peer)
    assert summary.status is Status.DONE, summary.error
    assert summary.shippedOps == 2000
    assert summary.shippedCells == 4000
    assert summary.cellsFiltered == 2000
    assert source.compare(table, slave, families=["f"]).same
    assert slave.scan_all(table, ["l"]) == []
    assert not plan(source_of(clusters.source.address), peer).to_ship
