"""A peer cluster of HBase 1 takes all kinds of edits, while its regions move and its servers die."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.classic import classic_options
from embedded.client import GLOBAL, LOCAL, JavaClient
from embedded.distributed import DistributedCluster, DistributedClusters
from embedded.hbase import ClusterAddress
from embedded.wire import put
from tests.cluster.classic_failover import tried_again
from tests.cluster.peer_changes import reconfigure
from tests.cluster.test_peer_cluster_in_motion import BYTES_A_SECOND, SMALL, SPLITS, all_kinds
from tests.cluster.test_peers_that_change import with_bandwidth
from tests.cluster.walferry_runs import BOTH_SINKS, await_progress, plan, positions, roll, ship, source_of
from tests.conftest import StandalonePair
from walferry.engine.summary import Status
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.cluster import SourceCluster

EDITS = 4_000

pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True)
class Sides:
    source: JavaClient
    peer_cluster: JavaClient
    cluster: DistributedCluster
    address: ClusterAddress
    at: SourceCluster


@pytest.fixture(scope="module")
def classic(cluster_folder: Path) -> Iterator[DistributedCluster]:
    with DistributedClusters(
        cluster_folder / "classic-peer-cluster", {"peer_cluster": classic_options(regionservers=2)}
    ) as clusters:
        yield clusters["peer_cluster"]


@pytest.fixture
def sides(
    standalone_pair: StandalonePair, classic: DistributedCluster, java_client: Callable[..., JavaClient], sink: SinkKind
) -> Sides:
    address = standalone_pair.source.address
    return Sides(java_client(address), java_client(classic.address), classic, address, source_of(address, sink))


@pytest.fixture
def peer(sides: Sides, managed_peer: Callable[..., str]) -> str:
    return managed_peer(sides.address, sides.cluster.address)


@pytest.fixture
def table(sides: Sides, unique: Callable[[str], str]) -> str:
    name = unique("t")
    for client in (sides.source, sides.peer_cluster):
        client.create_table(name, {"f": GLOBAL, "g": GLOBAL, "l": LOCAL}, SPLITS, versions=100_000)
        for family in ("f", "g"):
            # A region that is closed writes its memory to a file, and leaves out what deletes have masked.
            client.alter_family(name, family, {"KEEP_DELETED_CELLS": "TRUE"})
    return name


def write(sides: Sides, table: str) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    sides.source.write(table, all_kinds(EDITS, random.Random(seed)))


def check_same(sides: Sides, table: str) -> None:
    compared = tried_again(lambda: sides.source.compare(table, sides.peer_cluster, families=["f", "g"], raw=True))
    assert compared.same, compared.examples
    assert compared.left > EDITS // 2
    assert tried_again(lambda: sides.peer_cluster.scan_all(table, ["l"], raw=True)) == []


@BOTH_SINKS
def test_edits_of_all_kinds_arrive(sides, peer, table, sink):
    write(sides, table)
    summaries = ship(sides.at, peer)
    assert [(s.status, s.failedBatches) for s in summaries] == [(Status.DONE, 0)], summaries
    check_same(sides, table)


def move_regions(sides: Sides, table: str) -> None:
    """Move each region to the other server."""
    servers = sides.peer_cluster.region_servers()
    for region in sides.peer_cluster.regions(table):
        sides.peer_cluster.move_region(region.encoded_name, next(each for each in servers if each != region.server))


def kill_server(sides: Sides, table: str) -> None:
    sides.cluster.kill_regionserver(0)


@pytest.mark.parametrize("change", [move_regions, kill_server])
def test_what_the_peer_cluster_did_not_carry_out_is_sent_again_to_where_the_regions_are(sides, peer, table, change):
    reconfigure(sides.address, peer, with_bandwidth(BYTES_A_SECOND))
    write(sides, table)
    roll(sides.at, peer)
    before = positions(sides.at, peer)
    with ThreadPoolExecutor(1) as pool:
        shipping = pool.submit(ship, sides.at, peer, roll_first=False, settings=SMALL, deadline=400)
        await_progress(sides.at, peer, before)
        change(sides, table)
        assert not shipping.done()
        (summary,) = shipping.result(420)
    sides.cluster.start_all_regionservers()
    assert summary.status is Status.DONE, summary.error
    assert (summary.sink, summary.directRefused) == (SinkKind.DIRECT, None)
    assert summary.failedBatches > 0
    check_same(sides, table)


@pytest.mark.parametrize(("families", "lacking"), [(["g"], "column family f of table {}"), ([], "table {}")])
def test_what_the_peer_cluster_lacks_is_named_and_nothing_of_it_is_taken_as_shipped(sides, peer, unique, families, lacking):
    table = unique("t")
    sides.source.create_table(table, {"f": GLOBAL})
    if families:
        sides.peer_cluster.create_table(table, dict.fromkeys(families, GLOBAL))
    sides.source.write(table, [put("row", {"f:a": b"v"})])
    (summary,) = ship(sides.at, peer)
    assert summary.status is Status.FAILED
    assert f"{lacking.format(table)} does not exist there. Create it there" in summary.error
    assert summary.directRefused is None
    assert plan(sides.at, peer).to_ship


@pytest.mark.parametrize("sink", [SinkKind.HFILES], indirect=True)
def test_it_takes_no_files_and_gets_the_edits_by_requests(sides: Sides, peer: str, table: str) -> None:
    sides.source.write(table, [put("row", {"f:0": b"x"})])
    summaries = ship(sides.at, peer)
    assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
    assert [cell.value for cell in sides.peer_cluster.scan_all(table)] == [b"x"]
    assert any("HBase 1, which takes no files" in (s.notLoaded or "") for s in summaries), [s.notLoaded for s in summaries]
