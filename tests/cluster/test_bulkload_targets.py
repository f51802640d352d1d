"""A real peer cluster's information about its tables, before edits are loaded as files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

import pytest

from embedded.client import GLOBAL, LOCAL, JavaClient
from walferry.base.zk.client import connected
from walferry.hbase import cluster
from walferry.hbase.hfiles.blocks import Compression
from walferry.hbase.hfiles.bloom import Bloom
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.layout import ZNodes
from walferry.hbase.rpc import master
from walferry.hbase.tables.tables import Tables
from walferry.replication.filters.rules import PeerTables
from walferry.shipping.bulkload.targets import Targets, read_targets

COPROCESSOR = "org.apache.hadoop.hbase.constraint.ConstraintProcessor"  # HBase's own coprocessor with hooks for puts
OF_A_THIRD_CLUSTER = UUID(int=3)
FAMILY = {"COMPRESSION": "gz", "DATA_BLOCK_ENCODING": "FAST_DIFF", "BLOOMFILTER": "rowcol", "BLOCKSIZE": "5000"}


@pytest.fixture
def look(sides) -> Callable[..., Targets]:
    def read(wants: PeerTables, source_id: UUID | None = None) -> Targets:
        nodes = ZNodes()
        if source_id is None:
            with connected(sides.at.quorum) as zk:
                source_id = cluster.cluster_id(zk, sides.at.nodes)
        with (
            connected(sides.peer_hbase.address.quorum) as zk,
            Tables(zk, nodes) as tables,
            master.connect(cluster.master(zk, nodes)) as connection,
        ):
            return read_targets(tables, connection, wants, source_id)

    return read


def chosen(*tables: str) -> PeerTables:
    return PeerTables(replicate_all=False, table_families={table.encode(): frozenset() for table in tables})


@contextmanager
def own_peer(peer_cluster: JavaClient, peer_id: str, cluster_key: str, table: str) -> Iterator[None]:
    """Give the peer cluster its own disabled peer, for one table."""
    peer_cluster.add_peer(peer_id, cluster_key, enabled=False, table_families={table: []})
    try:
        yield
    finally:
        peer_cluster.remove_peer(peer_id)


def test_a_fit_table_is_found_with_its_regions_and_settings(sides, look, unique):
    namespace = unique("ns")
    sides.peer_cluster.create_namespace(namespace)
    table = f"{namespace}:t"
    sides.peer_cluster.create_table(table, {"f": GLOBAL, "g": LOCAL}, [b"c", b"m"])
    sides.peer_cluster.alter_family(table, "f", FAMILY)
    middle = next(region for region in sides.peer_cluster.regions(table) if region.start_key == b"c")
    sides.peer_cluster.split_region(middle.encoded_name, b"f")
    found = look(chosen(table))
    target = found.tables[table.encode()]
    assert (found.unfit, found.notes, len(found.tables)) == ({}, (), 1)
    assert target.families == {b"f": FileSettings(5000, Compression.GZ, Encoding.FAST_DIFF, Bloom.ROWCOL), b"g": FileSettings()}
    regions = sorted(sides.peer_cluster.regions(table), key=lambda region: region.start_key)
    assert [(r.encoded_name, r.start, r.end, str(r.server)) for r in target.regions] == [
        (r.encoded_name, r.start_key, r.end_key, r.server) for r in regions
    ]
    assert [region.start for region in target.regions] == [b"", b"c", b"f", b"m"]


@pytest.mark.parametrize(
    ("of_table", "of_family", "reason"),
    [
        ({"coprocessor$1": f"|{COPROCESSOR}|5|"}, {}, f"it has the coprocessor {COPROCESSOR}, "),
        ({"READONLY": "true"}, {}, "it is read-only"),
        ({}, {"NEW_VERSION_BEHAVIOR": "true"}, "family f has NEW_VERSION_BEHAVIOR"),
        ({}, {"IS_MOB": "true"}, "family f is a MOB family"),
        ({"hbase.table.sanity.checks": "false"}, {"BLOCKSIZE": "100000000"},
         "family f of the peer cluster: BLOCKSIZE is '100000000'"),
    ],
)  # fmt: skip
def test_an_unfit_table_says_why(sides, look, unique, of_table: Mapping[str, str], of_family: Mapping[str, str], reason: str):
    table = unique("t")
    sides.peer_cluster.create_table(table, {"f": GLOBAL})
    sides.peer_cluster.alter_table(table, of_table)
    sides.peer_cluster.alter_family(table, "f", of_family)
    found = look(chosen(table))
    assert found.tables == {}
    assert found.unfit[table.encode()].startswith(reason)


def test_a_disabled_table_is_unfit(sides, look, unique):
    table = unique("t")
    sides.peer_cluster.create_table(table, {"f": GLOBAL})
    sides.peer_cluster.disable_table(table)
    assert look(chosen(table)).unfit == {table.encode(): "it is DISABLED, not ENABLED"}


def test_a_replicated_table_is_unfit_while_a_peer_of_the_peer_cluster_gets_it(sides, look, unique):
    table, local, other, peer_id = unique("t"), unique("t"), unique("t"), unique("own")
    for name in (table, other):
        sides.peer_cluster.create_table(name, {"f": GLOBAL})
    sides.peer_cluster.create_table(local, {"f": LOCAL})
    wants = chosen(table, local, other)
    assert len(look(wants).tables) == 3
    with own_peer(sides.peer_cluster, peer_id, sides.source_cluster.address.cluster_key, table):
        found = look(wants, OF_A_THIRD_CLUSTER)
    assert found.tables.keys() == {local.encode(), other.encode()}
    assert f"its peer {peer_id} takes it" in found.unfit[table.encode()]


def test_a_peer_of_the_peer_cluster_that_leads_back_to_the_source_makes_nothing_unfit(sides, look, unique):
    table = unique("t")
    sides.peer_cluster.create_table(table, {"f": GLOBAL})
    with own_peer(sides.peer_cluster, unique("back"), sides.source_cluster.address.cluster_key, table):
        found = look(chosen(table))
    assert (found.tables.keys(), found.unfit) == ({table.encode()}, {})


def test_a_peer_for_all_tables_looks_at_all_but_hbases_own(sides, look, unique):
    table = unique("t")
    sides.peer_cluster.create_table(table, {"f": LOCAL})
    found = look(PeerTables())
    assert table.encode() in found.tables
    assert not [name for name in (*found.tables, *found.unfit) if name in (b"hbase:meta", b"hbase:namespace")]
    assert b"missing" not in look(chosen("missing")).unfit
