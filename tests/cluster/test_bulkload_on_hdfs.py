"""Edits of two real servers, whose regions move between them, are loaded as files by two others on HDFS."""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from embedded.jars import hbase_classpath
from embedded.java import find_java, jvm_options
from tests.cluster.loads import create_keeping_table, folders_left, records_left
from tests.cluster.test_hfiles import FAMILIES, ROWS, counted, repeated
from tests.cluster.walferry_runs import plan, roll, ship, source_of
from walferry.engine.summary import Status
from walferry.hbase.files.systems import list_entries
from walferry.replication.peers.settings import SinkKind

ALL_FAMILIES = (*FAMILIES, "L#0")  # L#0: Phoenix names its local indexes like this
LOADED = "_SeqId_"  # part of the names of loaded files
PRINTER = "org.apache.hadoop.hbase.io.hfile.HFilePrettyPrinter"


@pytest.mark.timeout(600)
def test_edits_with_equal_keys_of_several_servers_and_wals_leave_what_the_source_has(
    distributed_pair, java_client, managed_peer, unique
) -> None:
    """As regions move, one batch has edits of the same cells from both servers. The peer cluster has some of them already."""
    source, peer_cluster = (java_client(cluster.address) for cluster in distributed_pair)
    table, seed = unique("load"), random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    create_keeping_table(source, peer_cluster, table, ALL_FAMILIES)
    peer = managed_peer(distributed_pair.source.address, distributed_pair.peer_cluster.address)
    at = source_of(distributed_pair.source.address, SinkKind.HFILES)
    early = list(repeated(chance, 200, ALL_FAMILIES))
    for client in (source, peer_cluster):
        client.write(table, early, one_by_one=True)
    servers = source.region_servers()
    for _ in range(3):
        source.write(table, repeated(chance, 400, ALL_FAMILIES))
        source.write(table, repeated(chance, 50, ALL_FAMILIES), one_by_one=True)
        source.write(table, counted(chance, 50), one_by_one=True)
        roll(at, peer)
        for region in source.regions(table):
            source.move_region(region.encoded_name, next(server for server in servers if server != region.server))
    assert len([group for group in plan(at, peer).groups if group.wals]) == 2
    summaries = ship(at, peer)
    assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
    assert {s.sink for s in summaries} == {"hfiles"}
    assert not plan(at, peer).to_ship
    for raw in (True, False):
        compared = source.compare(table, peer_cluster, raw=raw)
        assert compared.same, compared.examples
        assert compared.left > ROWS
    assert records_left(at, peer) == []
    assert folders_left(distributed_pair.peer_cluster.address, table) == {}
    check_files(distributed_pair.peer_cluster, table)


def check_files(peer_cluster, table: str) -> None:
    """Check that HBase's own tool accepts the files that were loaded into a table, as `hbase hfile -v -m -k` does."""
    folder = f"{peer_cluster.address.wal_root}/data/default/{table}"
    files = [
        (family, f"{folder}/{region.name}/{family}/{file.name}")
        for region in list_entries(folder)
        for family in ALL_FAMILIES
        if not region.name.startswith(".")
        for file in list_entries(f"{folder}/{region.name}/{family}")
        if LOADED in file.name
    ]
    assert len(files) >= 8, files
    assert {family for family, _ in files} == set(ALL_FAMILIES)
    jars = os.pathsep.join(map(str, [peer_cluster.address.hbase_site.parent, *hbase_classpath()]))
    for _, file in files[:2]:
        command = [find_java(), *jvm_options(), "-cp", jars, PRINTER, "-v", "-m", "-k", "-f", file]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert "Scanned kv count -> " in done.stdout
        assert "WARNING, " not in done.stdout + done.stderr
