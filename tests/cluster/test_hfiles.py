"""HFiles that Walferry writes from a real source's WALs make a real peer cluster equal to the source.

Flushes drop deleted cells, and compactions drop the delete markers too, at other times on each side. So the tables keep deleted
cells and are not compacted.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from embedded import wire
from embedded.client import GLOBAL, JavaClient
from embedded.standalone import StandaloneCluster
from embedded.wire import Mutation
from tests.cluster.decoding import copies_of_closed_wals
from tests.unit.hbase.hfiles.edits import runs_of
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.files.systems import open_wal
from walferry.hbase.hfiles.blocks import Compression
from walferry.hbase.hfiles.bloom import Bloom
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.errors import OrderUnknown
from walferry.hbase.hfiles.merge import merge_runs
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.hfiles.stores import TargetTable
from walferry.hbase.hfiles.writer import write_file
from walferry.hbase.names import parse_wal_name
from walferry.hbase.wal.reader import read_wal_batches
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules, PeerTables
from walferry.shipping.bulkload.runs import Edits, SortedRun

Load = Callable[[JavaClient, str, list[str]], None]
FAMILIES = ("f", "g")
ROWS = 60
SOURCE_SPLITS, PEER_CLUSTER_SPLITS = [b"row30"], [b"row10", b"row20", b"row40"]
SETTINGS = FileSettings(block_bytes=2_000, encoding=Encoding.FAST_DIFF, compression=Compression.GZ, bloom=Bloom.ROWCOL)


def repeated(chance: random.Random, count: int, families: Sequence[str] = FAMILIES) -> Iterator[Mutation]:
    """Yield puts and deletes of few cells with few timestamps, so that most keys come again with other values and tags."""
    for _ in range(count):
        row, column = f"row{chance.randrange(ROWS):02}", f"{chance.choice(families)}:{chance.randrange(3)}"
        timestamp = chance.randrange(1, 6)
        match chance.randrange(8):
            case 0:
                yield wire.delete_column(row, column, timestamp=timestamp)
            case 1:
                yield wire.delete_version(row, column, timestamp=timestamp)
            case 2:
                yield wire.delete_family(row, chance.choice(families), timestamp=timestamp)
            case 3:
                yield wire.delete_family_version(row, chance.choice(families), timestamp)
            case 4:
                yield wire.put(row, {column: chance.randbytes(9)}, timestamp=timestamp, ttl_ms=86_400_000)
            case 5:
                yield wire.put(row, {column: chance.randbytes(9)}, timestamp=timestamp, tags=[(100, chance.randbytes(3))])
            case _:
                yield wire.put(row, {column: chance.randbytes(chance.randrange(200))}, timestamp=timestamp)


def counted(chance: random.Random, count: int) -> Iterator[Mutation]:
    """Yield increments and appends, whose timestamps the source makes."""
    for _ in range(count):
        row = f"row{chance.randrange(ROWS):02}"
        yield wire.increment(row, {"f:count": 1}) if chance.random() < 0.5 else wire.append(row, {"g:log": b"x"})


def target_of(client: JavaClient, table: str) -> dict[bytes, TargetTable]:
    starts = tuple(sorted(region.start_key for region in client.regions(table)))
    return {table.encode(): TargetTable(tuple(family.encode() for family in FAMILIES), starts)}


def now() -> int:
    return int(time.time() * 1000)


def closed_wals(cluster: StandaloneCluster, folder: Path, since: int) -> list[str]:
    """Return copies of the closed WALs that began after `since` (ms). WALs of earlier tests may be broken."""
    root = Path(cluster.address.wal_root.removeprefix("file://"))
    names = {url: parse_wal_name(url.rpartition("/")[2]) for url in copies_of_closed_wals(root, folder)}
    return [url for url, name in names.items() if name.timestamp >= since and not name.is_meta]


def edits_of(url: str, table: str) -> Iterator[Edits]:
    rules = FilterRules(uuid.uuid4(), uuid.uuid4(), PeerTables(replicate_all=False, table_families={table.encode(): frozenset()}))
    with open_wal(url) as file:
        for batch in read_wal_batches(file, url, 0, wal_batch_bytes=20_000, partial_tail="error"):
            kept = filter_batch(batch, rules, url)
            yield Edits(batch, kept, np.flatnonzero(kept.cells), url)


def write_files(runs: Sequence[SortedRun], folder: Path, settings: FileSettings) -> int:
    """Write one file per store to folder/<family>/. Returns how many."""
    by_store: dict[int, list[MemoryFile]] = {}
    for run in runs:
        by_store.setdefault(run.store, []).append(MemoryFile(run.data.data))
    for store, held in by_store.items():
        path = folder / FAMILIES[store % len(FAMILIES)] / uuid.uuid4().hex
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            assert write_file(file.write, merge_runs(held, memory_bytes=1 << 20), settings, Origin(1_700_000_000_000, "test"))
    return len(by_store)


@pytest.fixture
def loaded(standalone_pair, java_client, managed_peer, unique, tmp_path) -> Callable[[Load], None]:
    """`loaded(load)`: source and peer cluster are equal after `load(peer_cluster, table, wals)`, whatever they contained
    before."""

    def check(load: Load) -> None:
        source, peer_cluster = java_client(standalone_pair.source.address), java_client(standalone_pair.peer_cluster.address)
        table, chance = unique("hfiles"), random.Random(11)
        for client, splits in ((source, SOURCE_SPLITS), (peer_cluster, PEER_CLUSTER_SPLITS)):
            client.create_table(table, dict.fromkeys(FAMILIES, GLOBAL), splits, versions=1_000)
            client.switch_compaction(table, False)
            for family in FAMILIES:
                client.alter_family(table, family, {"KEEP_DELETED_CELLS": "TRUE"})
        since = now()
        # the peer keeps the WALs, and rolls them
        managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)
        early = list(repeated(chance, 300))
        source.write(table, early, one_by_one=True)
        peer_cluster.write(table, early, one_by_one=True)
        for _ in range(3):
            source.write(table, repeated(chance, 500))
            source.write(table, repeated(chance, 100), one_by_one=True)
            source.write(table, counted(chance, 60), one_by_one=True)
            source.roll_wals()
        (first, _) = sorted(source.regions(table), key=lambda region: region.start_key)
        source.split_region(first.encoded_name, b"row15")
        source.write(table, repeated(chance, 500), one_by_one=True)
        source.roll_wals()
        load(peer_cluster, table, closed_wals(standalone_pair.source, tmp_path / "wals", since))
        for raw in (True, False):
            compared = source.compare(table, peer_cluster, raw=raw)
            assert compared.same, compared.examples
            assert compared.left > ROWS

    return check


@pytest.mark.parametrize("settings", [FileSettings(), SETTINGS], ids=["plain", "encoded and compressed"])
def test_one_load_leaves_what_the_source_has_whatever_the_order_of_wals(loaded, tmp_path: Path, settings: FileSettings) -> None:
    def load(peer_cluster: JavaClient, table: str, wals: list[str]) -> None:
        target = target_of(peer_cluster, table)
        runs = [run for url in wals for run in runs_of(edits_of(url, table), target, memory_bytes=5_000)]
        random.Random(5).shuffle(runs)
        for attempt in range(2):  # loading twice is harmless
            folder = tmp_path / f"load{attempt}"
            assert write_files(runs, folder, settings) == len(FAMILIES) * (1 + len(PEER_CLUSTER_SPLITS))
            peer_cluster.load_files(table, folder.as_uri())

    loaded(load)


def test_loads_one_after_the_other_leave_what_the_source_has(loaded, tmp_path: Path) -> None:
    def load(peer_cluster: JavaClient, table: str, wals: list[str]) -> None:
        target = target_of(peer_cluster, table)
        loads = 0
        for number, url in enumerate(sorted(wals, key=lambda url: int(url.rpartition(".")[2]))):
            runs = runs_of(edits_of(url, table), target)
            if runs:
                write_files(runs, tmp_path / f"load{number}", FileSettings())
                peer_cluster.load_files(table, (tmp_path / f"load{number}").as_uri())
                loads += 1
        assert loads >= 4

    loaded(load)


def dropped_and_created(client: JavaClient, table: str) -> None:
    client.drop_table(table)
    client.create_table(table, dict.fromkeys(FAMILIES, GLOBAL))


@pytest.mark.parametrize("begin_anew", [JavaClient.empty_table, dropped_and_created], ids=lambda way: way.__name__)
def test_a_key_that_was_written_before_and_after_its_table_began_anew_is_refused(
    standalone_pair, java_client, managed_peer, unique, tmp_path: Path, begin_anew: Callable[[JavaClient, str], None]
) -> None:
    """The earlier edits have the larger sequence ids."""
    source, table = java_client(standalone_pair.source.address), unique("hfiles")
    source.create_table(table, dict.fromkeys(FAMILIES, GLOBAL))
    since = now()
    managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)
    source.write(table, (wire.put("row", {"f:0": b"old"}, timestamp=1) for _ in range(50)), one_by_one=True)
    begin_anew(source, table)
    source.write(table, [wire.put("row", {"f:0": b"new"}, timestamp=1)])
    source.roll_wals()
    target = target_of(source, table)
    wals = closed_wals(standalone_pair.source, tmp_path / "wals", since)
    runs = [run for url in wals for run in runs_of(edits_of(url, table), target)]
    with pytest.raises(OrderUnknown, match="row row, column f:0: "):
        write_files(runs, tmp_path / "files", FileSettings())
