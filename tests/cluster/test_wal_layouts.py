"""WALs in their own directory, several per server, archived by server, by each of HBase's writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded import wire
from embedded.client import GLOBAL, LOCAL
from embedded.standalone import StandaloneCluster
from tests.cluster.walferry_runs import plan, queues, roll, ship, source_of
from walferry.engine.summary import Status

ROWS = 400


@pytest.fixture(params=["filesystem", "asyncfs"])
def source(request: pytest.FixtureRequest, cluster_folder: Path) -> Iterator[StandaloneCluster]:
    folder = cluster_folder / f"multiwal-{request.param}"
    conf = {
        "hbase.wal.provider": "multiwal",
        "hbase.wal.regiongrouping.delegate.provider": request.param,
        "hbase.wal.regiongrouping.numgroups": "3",
        "hbase.wal.dir": f"file://{folder}/wals",
        "hbase.separate.oldlogdir.by.regionserver": "true",
    }
    with StandaloneCluster(folder, conf, name=f"multiwal-{request.param}") as cluster:
        yield cluster


def puts(first: int) -> list[wire.Mutation]:
    return [wire.put(f"row{i:04}", {"f:q": b"%d" % i, "l:q": b"local"}) for i in range(first, first + ROWS)]


@pytest.mark.timeout(900)
def test_several_wals_a_server_in_a_directory_of_their_own_are_shipped(
    source: StandaloneCluster, standalone_pair, java_client, managed_peer, unique: Callable[[str], str]
) -> None:
    here, there = java_client(source.address), java_client(standalone_pair.peer_cluster.address)
    table = unique("t")
    for client in (here, there):
        client.create_table(table, {"f": GLOBAL, "l": LOCAL}, [b"row%04d" % i for i in range(100, 800, 100)])
    peer = managed_peer(source.address, standalone_pair.peer_cluster.address)
    at = source_of(source.address)
    (server,) = here.region_servers()
    prefix = server.replace(",", "%2C")

    here.write(table, puts(0))
    here.flush(table)  # so that the WALs are archived when they are rolled
    roll(at, peer)
    here.write(table, puts(ROWS))
    roll(at, peer)
    planned = plan(at, peer)
    assert {g.group for g in planned.groups} == {f"{prefix}.{prefix}.regiongroup-{i}" for i in range(3)}
    places = {wal.url.rpartition("/")[0] for group in planned.groups for wal in group.wals if wal.url}
    root = f"file://{source.folder}/wals"
    assert f"{root}/oldWALs/{server}" in places
    assert places <= {f"{root}/oldWALs/{server}", f"{root}/WALs/{server}"}

    summaries = ship(at, peer, roll_first=False)
    assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
    assert len([s for s in summaries if s.shippedCells]) == 3
    compared = here.compare(table, there, families=["f"])
    assert compared.same, compared.examples
    assert compared.left == 2 * ROWS
    assert there.scan_all(table, ["l"]) == []
    assert all(len(queue.wals) == 3 for queue in queues(at, peer))  # the WALs that are being written
