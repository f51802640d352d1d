"""Bulk loads between two real clusters with hbase.replication.bulkload.enabled, and the markers that such a source writes."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from embedded import wire
from embedded.client import GLOBAL, LOCAL
from embedded.distributed import ClusterOptions, DistributedClusters
from embedded.hbase import write_site
from embedded.jars import HBASE_2, JarSet
from embedded.standalone import StandaloneCluster
from tests.cluster.conftest import Sides
from tests.cluster.proxy import Flow, TcpProxy
from tests.cluster.replaying import now, ship_again
from tests.cluster.walferry_runs import ALL_SINKS, positions, ship, ship_one, source_of
from tests.conftest import side_by_side
from walferry.base.zk.client import children, connected
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.rpc import bulk_load
from walferry.replay.interval import Interval
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.queues.lease import Lease
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.bulkload import loading

AS_FILES = pytest.mark.parametrize("sink", [SinkKind.HFILES], indirect=True)
SLOW_SECONDS = 6.0
SCOPES = {"f": GLOBAL, "g": GLOBAL, "l": LOCAL}


@contextmanager
def which_replicate_loads(
    folder: Path, jars: tuple[JarSet, JarSet] = (HBASE_2, HBASE_2), more: Mapping[str, str] | None = None
) -> Iterator[tuple[StandaloneCluster, StandaloneCluster]]:
    """Run two clusters that each replicate bulk loads, `east` and `west`; `east` writes replication markers too.

    `more` are settings of both.
    """
    conf, names = folder / "replication-conf", ("east", "west")
    clusters = [
        StandaloneCluster(
            folder / name,
            {
                "hbase.replication.bulkload.enabled": "true",
                "hbase.replication.cluster.id": name,
                "hbase.replication.conf.dir": str(conf),
                "hbase.regionserver.replication.marker.enabled": str(name == "east").lower(),
                "hbase.regionserver.replication.marker.chore.duration": "1000",
                **(more or {}),
            },
            name=name,
            jars=its_jars,
        )
        for name, its_jars in zip(names, jars, strict=True)
    ]
    for name in names:
        write_site(conf / name / "core-site.xml", {"fs.defaultFS": "file:///"})
    with side_by_side(clusters):
        yield clusters[0], clusters[1]


@pytest.fixture(scope="module")
def east_and_west(cluster_folder: Path) -> Iterator[tuple[StandaloneCluster, StandaloneCluster]]:
    with which_replicate_loads(cluster_folder / "bulk") as clusters:
        yield clusters


@pytest.fixture
def sides(east_and_west, java_client, sink) -> Sides:
    east, west = east_and_west
    at = replace(source_of(east.address, sink), replication_cluster_id="east")
    return Sides(east, west, java_client(east.address), java_client(west.address), at)


@pytest.fixture
def table(both: Callable[..., str]) -> str:
    return both(SCOPES, splits=[b"row5"])


def puts(families: str = "fgl", rows: range = range(10), value: bytes = b"loaded") -> list[wire.Mutation]:
    return [wire.put(f"row{i}", {f"{family}:q": value + b" %d" % i for family in families}) for i in rows]


def load(sides: Sides, table: str, mutations: list[wire.Mutation] | None = None) -> None:
    sides.source.bulk_load(table, mutations or puts(), f"file://{sides.source_cluster.folder}/hfiles")


def references(sides: Sides, peer: str) -> list[str]:
    with connected(sides.at.quorum) as zk:
        return children(zk, sides.at.nodes.hfile_refs(peer)) or []


def cells(client, table: str, families: str) -> list[tuple[bytes, bytes, bytes]]:
    return [(c.row, c.family, c.value) for c in client.scan_all(table, list(families))]


def done(summary: GroupSummary) -> GroupSummary:
    assert summary.status is Status.DONE, summary.error
    return summary


@ALL_SINKS
@pytest.mark.timeout(900)
def test_bulk_loaded_rows_arrive_and_their_files_are_let_go(sides, table, peer):
    sides.source.write(table, puts(value=b"before"))
    load(sides, table)
    load(sides, table, puts(rows=range(20, 25)))
    sides.source.write(table, puts("f", range(30, 32)))
    held = references(sides, peer)
    assert len(held) >= 6  # two regions' and one region's files, of f and g; 2.6.1 refers to l's files too
    summary = done(ship_one(sides.at, peer))
    assert summary.shippedHFiles == 6
    assert "bulk_load" not in summary.logEditsFiltered
    assert references(sides, peer) == []
    compared = sides.source.compare(table, sides.peer_cluster, families=["f", "g"])
    assert compared.same, compared.examples
    assert compared.left >= 32
    assert sides.peer_cluster.scan_all(table, ["l"]) == []
    assert len(sides.source.scan_all(table, ["l"])) == 15


@pytest.mark.parametrize("sink", [SinkKind.DIRECT, SinkKind.HFILES], indirect=True)
def test_files_of_a_table_that_is_not_replicated_are_let_go(sides, both, peer):
    """HBase 2.6.1 makes references to such files, and never removes them."""
    local, other = both({"l": LOCAL}), both({"f": GLOBAL})
    sides.source.write(other, puts("f"))
    load(sides, local, puts("l"))
    assert references(sides, peer)
    summary = done(ship_one(sides.at, peer))
    assert summary.logEditsFiltered["bulk_load"] == 1
    assert references(sides, peer) == []
    assert sides.peer_cluster.scan_all(local) == []
    assert sides.source.compare(other, sides.peer_cluster).same


def test_a_peer_for_some_families_gets_the_files_of_these(sides, table, unique):
    peer = unique("peer")
    other = unique("t")
    for client in (sides.source, sides.peer_cluster):
        client.create_table(other, SCOPES)
    sides.source.roll_wals()
    sides.source.add_peer(
        peer, sides.peer_hbase.address.cluster_key, enabled=False, configuration={"walferry.managed": "true"},
        table_families={table: ["g"]},
    )  # fmt: skip
    try:
        load(sides, table)
        load(sides, other)
        assert len(references(sides, peer)) == 2
        summary = done(ship_one(sides.at, peer))
        assert summary.shippedHFiles == 2
        assert references(sides, peer) == []
        assert cells(sides.peer_cluster, table, "g") == cells(sides.source, table, "g") != []
        assert cells(sides.peer_cluster, table, "fl") == cells(sides.peer_cluster, other, "fgl") == []
    finally:
        sides.source.remove_peer(peer)


@ALL_SINKS
def test_a_bulk_load_keeps_its_place_among_the_region_s_edits(sides, table, peer):
    """A cell is put, loaded and put again with the same timestamp: the last one counts, at the peer cluster as at the source."""

    def at_5(value: bytes, rows: range) -> list[wire.Mutation]:
        return [wire.put(f"row{i}", {"f:q": value}, timestamp=5) for i in rows]

    sides.source.write(table, at_5(b"first", range(10)))
    load(sides, table, at_5(b"loaded", range(10)))
    sides.source.write(table, at_5(b"last", range(5)))
    load(sides, table, at_5(b"loaded again", range(2)))
    done(ship_one(sides.at, peer))
    expected = [b"loaded again"] * 2 + [b"last"] * 3 + [b"loaded"] * 5
    assert [value for _, _, value in cells(sides.source, table, "f")] == expected
    assert [value for _, _, value in cells(sides.peer_cluster, table, "f")] == expected


def test_files_that_were_archived_are_copied_from_there(sides, table, peer):
    load(sides, table)
    loaded = cells(sides.source, table, "fg")
    sides.source.drop_table(table)
    assert len(references(sides, peer)) >= 4
    done(ship_one(sides.at, peer))
    assert cells(sides.peer_cluster, table, "fg") == loaded != []
    assert references(sides, peer) == []


def test_a_load_that_takes_longer_than_a_call_may_is_loaded_once(sides, table, proxied, proxied_peer, monkeypatch):
    """HBASE-30238: HBase sends such a load again while the sink is at work on it, which then loads the same files twice."""
    load(sides, table, puts("f", rows=range(5)))  # of one region
    slow_answers(proxied.sink, monkeypatch)
    settings = PeerSettings(call_timeout_seconds=1.0, patience_seconds=4.0)
    summary = done(ship_one(sides.at, proxied_peer, settings=settings, senders=1))
    assert (summary.shippedHFiles, summary.failedBatches) == (1, 0)
    assert cells(sides.peer_cluster, table, "f") == cells(sides.source, table, "f") != []
    loaded = [path for path in Path(sides.peer_hbase.folder, "root", "data", "default", table).glob("*/f/*") if path.is_file()]
    assert len(loaded) == 1


def slow_answers(sink: TcpProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delay the answers of the first connection through the proxy, the sender's. Answers to pings are not delayed."""
    first: list[socket.socket] = []
    pump = sink._pump

    def pumped(here: socket.socket, there: socket.socket, flow: Flow) -> None:
        if flow is sink.answers:
            first.append(there)
            if there is first[0]:
                late = Flow()
                late.speed = 10 / SLOW_SECONDS  # an answer has some ten bytes
                flow = late
        pump(here, there, flow)

    monkeypatch.setattr(sink, "_pump", pumped)


def killed_at_a_load(at: SourceCluster, peer: str, let_go: bool) -> None:
    """Run a batch that kills itself once a load is acknowledged, before or after it removes the references."""
    remove = Lease.remove_hfile_refs

    def remove_and_die(lease: Lease, names: Sequence[str]) -> None:
        if let_go:
            remove(lease, names)
        os.kill(os.getpid(), signal.SIGKILL)

    Lease.remove_hfile_refs = remove_and_die  # type: ignore[method-assign]
    ship_one(at, peer, run_id="killed")


@pytest.mark.parametrize("let_go", [False, True])
def test_a_run_that_is_killed_after_a_load_was_acknowledged_loses_nothing(sides, table, peer, let_go):
    load(sides, table)
    load(sides, table, puts(rows=range(20, 25)))
    sides.source.write(table, puts("f", range(30, 32)))
    loaded = cells(sides.source, table, "fg")
    sides.source.drop_table(table)  # the files lie in the archive, where HBase deletes files without references
    before = references(sides, peer)
    run = get_context("spawn").Process(target=killed_at_a_load, args=(sides.at, peer, let_go))
    run.start()
    run.join(120)
    assert run.exitcode == -signal.SIGKILL
    after = references(sides, peer)
    assert (len(after) < len(before)) == let_go
    for name in set(before) - set(after):
        (file,) = Path(sides.source_cluster.folder, "root", "archive").rglob(name)
        file.unlink()  # as HBase's cleaner does
    summary = done(ship_one(sides.at, peer, run_id="killed"))
    assert summary.shippedHFiles == 6  # the first load's files once more
    assert (summary.missingHFiles > 0) == let_go
    assert cells(sides.peer_cluster, table, "fg") == loaded != []
    assert references(sides, peer) == []


def test_a_load_that_the_peer_cluster_cannot_copy_stops_its_queue_and_is_shipped_once_it_can(sides, table, peer):
    sides.source.write(table, puts("f", range(3)))
    load(sides, table)
    before = references(sides, peer)
    failed = ship_one(replace(sides.at, replication_cluster_id="nowhere"), peer, deadline=12, run_id="first")
    assert failed.status is Status.FAILED
    print(failed.error)
    regions = [region.encoded_name for region in sides.source.regions(table)]
    assert any(f"bulk load of region {region} of table {table} (f/" in failed.error for region in regions)
    assert "<hbase.replication.conf.dir>/nowhere" in failed.error
    assert failed.failedBatches > 0
    assert references(sides, peer) == before
    queued = positions(sides.at, peer)
    assert len(queued) == 2
    done(ship_one(sides.at, peer, run_id="second"))
    assert sides.source.compare(table, sides.peer_cluster, families=["f", "g"]).same
    assert references(sides, peer) == []


def test_a_load_stops_its_queue_until_the_connection_says_whether_and_how_to_ship_it(sides, table, peer):
    unsaid = replace(sides.at, replication_cluster_id=None)
    sides.source.write(table, puts("f", range(30, 40), b"before"))
    load(sides, table)
    sides.source.write(table, puts("f", range(40, 50), b"after"))
    failed = ship_one(unsaid, peer, run_id="first")
    assert failed.status is Status.FAILED
    print(failed.error)
    assert f"of table {table}" in failed.error
    assert "Set replication_cluster_id" in failed.error
    assert {value[:6] for _, _, value in cells(sides.peer_cluster, table, "fg")} == {b"before"}
    skipped = done(ship_one(replace(unsaid, skip_bulk_loads=True), peer, run_id="second"))
    assert skipped.logEditsFiltered["bulk_load"] == 2  # one per region
    assert {value[:6] for _, _, value in cells(sides.peer_cluster, table, "fg")} == {b"before", b"after "}
    assert len(references(sides, peer)) >= 4


def test_a_lost_file_stops_its_queue_until_its_reference_is_deleted(sides, table, peer):
    load(sides, table, puts("fg"))
    victim = references(sides, peer)[0]
    (file,) = Path(sides.source_cluster.folder, "root").rglob(victim)
    file.unlink()
    failed = ship_one(sides.at, peer, run_id="first")
    assert failed.status is Status.FAILED
    print(failed.error)
    assert f"/hbase/replication/hfile-refs/{peer}/{victim}" in failed.error
    with connected(sides.at.quorum) as zk:
        zk.delete(f"{sides.at.nodes.hfile_refs(peer)}/{victim}")
    summary = done(ship_one(sides.at, peer, run_id="second"))
    assert summary.missingHFiles == 1
    assert 0 < len(cells(sides.peer_cluster, table, "fg")) < 20


def test_an_interval_s_loads_are_shipped_again_as_long_as_their_files_are_there(sides, table, peer, monkeypatch):
    monkeypatch.setattr("walferry.replay.files.SLACK_MS", 5)
    start = now()
    sides.source.write(table, puts("f", range(30, 32), b"before"))
    load(sides, table)
    interval = Interval(start, now())
    sides.source.roll_wals()
    held = references(sides, peer)
    (first,) = ship_again(sides.at, peer, interval)
    assert done(first).shippedHFiles == 4
    assert references(sides, peer) == held  # the references belong to the queue
    done(ship_one(sides.at, peer))
    assert references(sides, peer) == []

    sides.peer_cluster.empty_table(table)
    (again,) = ship_again(sides.at, peer, interval, run_id="again, without references")
    assert (done(again).shippedHFiles, again.missingHFiles) == (4, 0)
    assert again.tables[table][0] == 1 + 2  # the puts, and one load per region
    assert sides.source.compare(table, sides.peer_cluster, families=["f", "g"]).same

    sides.peer_cluster.empty_table(table)
    victim = next(name for name in held if list(Path(sides.source_cluster.folder, "root", "data").rglob(f"g/{name}")))
    (file,) = Path(sides.source_cluster.folder, "root", "data").rglob(f"g/{victim}")
    file.unlink()  # as HBase's cleaner does after a compaction
    (failed,) = ship_again(sides.at, peer, interval, run_id="one is gone")
    assert failed.status is Status.FAILED
    assert (failed.error or "").startswith("1 HFiles of a bulk load of the interval are gone")
    (rest,) = ship_again(sides.at, peer, interval, run_id="the rest", what_is_there=True)
    assert (done(rest).shippedHFiles, rest.missingHFiles) == (4, 1)
    assert len(cells(sides.peer_cluster, table, "f")) == 12


@ALL_SINKS
def test_a_ring_of_clusters_loads_no_file_twice(sides, table, peer, managed_peer, sink):
    back = managed_peer(sides.peer_hbase.address, sides.source_cluster.address)
    west = replace(source_of(sides.peer_hbase.address, sink), replication_cluster_id="west")
    load(sides, table)
    assert done(ship_one(sides.at, peer)).shippedHFiles == 4
    with connected(west.quorum) as zk:
        assert len(children(zk, west.nodes.hfile_refs(back)) or ()) == 4
    summary = done(ship_one(west, back))
    assert (summary.shippedHFiles, summary.logEditsFiltered["from_peer_cluster"]) == (0, 2)
    with connected(west.quorum) as zk:
        assert not children(zk, west.nodes.hfile_refs(back))
    assert sides.source.compare(table, sides.peer_cluster, families=["f", "g"]).same


@AS_FILES
def test_a_peer_that_the_peer_cluster_gets_while_files_are_loaded_does_not_bring_them_back(
    sides, table, peer, managed_peer, monkeypatch: pytest.MonkeyPatch
):
    """The peer cluster replicates its loads to that peer. Loads from the source carry the source's id."""
    back: list[str] = []
    real = bulk_load.load

    def load_later(*arguments: Any) -> bool:
        if not back:
            back.append(managed_peer(sides.peer_hbase.address, sides.source_cluster.address))
        return real(*arguments)

    monkeypatch.setattr(bulk_load, "load", load_later)
    monkeypatch.setattr(loading, "LOADED_AT_ONCE", 1)
    sides.source.write(table, puts("fg"))
    summary = done(ship_one(sides.at, peer))
    assert (summary.sink, summary.notLoaded) == (SinkKind.HFILES, None)
    west = replace(source_of(sides.peer_hbase.address), replication_cluster_id="west")
    returned = done(ship_one(west, back[0]))
    assert (returned.shippedHFiles, returned.shippedCells) == (0, 0)
    assert returned.logEditsFiltered["from_peer_cluster"] >= 2  # a load a region
    assert sides.source.compare(table, sides.peer_cluster, families=["f", "g"], raw=True).same


@AS_FILES
def test_a_table_with_bulk_loads_in_its_wals_is_shipped_in_their_order_beside_one_that_is_loaded(sides, table, both, peer):
    other = both(SCOPES)
    for each in (table, other):
        sides.source.write(each, puts(value=b"before"))
    load(sides, table)
    for each in (table, other):
        sides.source.write(each, puts("f", range(3), value=b"after"))
    summary = done(ship_one(sides.at, peer))
    assert (summary.sink, summary.shippedHFiles) == (SinkKind.DIRECT, 4)
    assert f"table {table} go by requests: some of its edits are bulk loads" in summary.notLoaded
    assert summary.logEditsFiltered["loaded"] > 0
    assert references(sides, peer) == []
    for each in (table, other):
        assert sides.source.compare(each, sides.peer_cluster, families=["f", "g"]).same


def test_markers_never_arrive(sides, table, peer):
    """With bulk load replication on, HBase leaves all markers their scopes."""
    for i in range(4):
        sides.source.write(table, puts("fg", range(10 * i, 10 * i + 10)))
        sides.source.flush(table)
    sides.source.major_compact(table)
    filtered: Counter[str] = Counter()
    give_up = time.monotonic() + 120
    wanted = {"flush", "compaction", "region_event", "replication_marker"}
    run = 0
    while not wanted <= filtered.keys():
        assert time.monotonic() < give_up, filtered
        run += 1
        if run == 2:
            sides.source.create_table(f"{table}other", {"f": GLOBAL})  # opens a region
        filtered.update(done(ship_one(sides.at, peer, run_id=f"run{run}")).logEditsFiltered)
        time.sleep(1)
    assert filtered.keys() <= wanted | {"system_table", "not_global"}, filtered
    assert sides.source.compare(table, sides.peer_cluster, families=["f", "g"]).same
    assert {c.family for c in sides.peer_cluster.scan_all(table)} == {b"f", b"g"}


@pytest.mark.parametrize("reported", [True, False])
def test_without_bulk_load_replication_in_the_source_loads_are_counted(
    standalone_pair, java_client, managed_peer, unique, reported
):
    source, peer_cluster = java_client(standalone_pair.source.address), java_client(standalone_pair.peer_cluster.address)
    table = unique("t")
    for client in (source, peer_cluster):
        client.create_table(table, SCOPES)
    peer = managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)
    source.bulk_load(table, puts(), f"file://{standalone_pair.source.folder}/hfiles")
    source.write(table, puts("f", range(40, 42)))
    at = source_of(standalone_pair.source.address)
    summary = done(ship_one(replace(at, replication_cluster_id="east") if reported else at, peer))
    assert summary.logEditsFiltered["bulk_load"] == 1
    assert len(peer_cluster.scan_all(table)) == 2


@pytest.mark.timeout(900)
def test_bulk_loads_on_hdfs_arrive_even_those_of_a_server_that_died(cluster_folder, java_client, unique):
    conf = cluster_folder / "bulk-hdfs" / "replication-conf"
    options = {"hbase.replication.bulkload.enabled": "true", "hbase.replication.conf.dir": str(conf)}
    names = {name: ClusterOptions({**options, "hbase.replication.cluster.id": name}) for name in ("north", "south")}
    with DistributedClusters(conf.parent, names) as clusters:
        write_site(conf / "north" / "core-site.xml", {"fs.defaultFS": clusters.hdfs.url})
        source, peer_cluster = java_client(clusters["north"].address), java_client(clusters["south"].address)
        table = unique("t")
        for client in (source, peer_cluster):
            client.create_table(table, SCOPES, [b"row2", b"row4", b"row6", b"row8"])
        peer = "south"
        source.add_managed_peer(peer, clusters["south"].address.cluster_key)
        at = replace(source_of(clusters["north"].address), replication_cluster_id="north")
        source.write(table, puts("f", range(10), b"before"))
        source.bulk_load(table, puts(), f"{clusters.hdfs.url}/hfiles")
        assert len({region.server for region in source.regions(table)}) == 2
        clusters["north"].kill_regionserver()
        give_up = time.monotonic() + 240
        while len(source.region_servers()) == 2:  # until the master has noticed
            assert time.monotonic() < give_up
            time.sleep(0.5)
        shipped = 0
        while shipped < 10:  # of f and g, in five regions
            assert time.monotonic() < give_up, shipped
            source.roll_wals()
            summaries = ship(at, peer, run_id=unique("run"), roll_first=False)
            assert all(s.status is Status.DONE for s in summaries), [s.error for s in summaries]
            shipped += sum(s.shippedHFiles for s in summaries)
            time.sleep(1)
        compared = source.compare(table, peer_cluster, families=["f", "g"])
        assert (compared.same, compared.left) == (True, 20), compared.examples
        with connected(at.quorum) as zk:
            assert not children(zk, at.nodes.hfile_refs(peer))
