"""The findings about the peer cluster, from schemas and hbase:meta as the peer cluster sends them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.hfiles.blocks import Compression
from walferry.hbase.hfiles.bloom import Bloom
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.names import ServerName, table_text
from walferry.hbase.rpc.errors import AccessDenied
from walferry.hbase.rpc.master import table_message
from walferry.hbase.tables.regions import Region, TableInMeta
from walferry.replication.filters.rules import PeerTables
from walferry.shipping.bulkload import targets as module
from walferry.shipping.bulkload.fitness import OwnPeers
from walferry.shipping.bulkload.targets import MAX_REASON_CHARS, Targets, read_targets

EVERYTHING = PeerTables()
SOURCE_ID = UUID(int=1)
REGIONS = (Region(b"t,,1.a.", b"", b"", ServerName("h", 1, 1)),)


def family(name: str, configuration: dict[str, str] | None = None, **attributes: str) -> pb.ColumnFamilySchema:
    return pb.ColumnFamilySchema(
        name=name.encode(),
        attributes=[pb.BytesBytesPair(first=key.encode(), second=value.encode()) for key, value in attributes.items()],
        configuration=[pb.NameStringPair(name=key, value=value) for key, value in (configuration or {}).items()],
    )


def schema(name: str, *families: pb.ColumnFamilySchema, **attributes: str) -> pb.TableSchema:
    found = pb.TableSchema(table_name=table_message(name), column_families=families or [family("f")])
    for key, value in attributes.items():
        found.attributes.add(first=key.encode(), second=value.encode())
    return found


@dataclass
class PeerCluster:
    """A peer cluster's hbase:meta and its master in one. `without_schema` are tables that only hbase:meta has."""

    schemas: Sequence[pb.TableSchema]
    without_schema: Sequence[str] = ()
    regions: tuple[Region, ...] = REGIONS
    zk: object = None
    nodes: object = None
    looks: int = 0
    asked: list[str] = field(default_factory=list)

    def all_tables(self, wanted: Callable[[str], bool]) -> dict[str, TableInMeta]:
        self.looks += 1
        names = [*(table_text(each.table_name) for each in self.schemas), *self.without_schema]
        return {table: TableInMeta(self.regions) for table in names if wanted(table)}

    def call(self, method: str, request: pb.GetTableDescriptorsRequest, _: object) -> pb.GetTableDescriptorsResponse:
        self.looks += 1
        self.asked = [table_text(name) for name in request.table_names]
        return pb.GetTableDescriptorsResponse(
            table_schema=[each for each in self.schemas if table_text(each.table_name) in self.asked]
        )


@pytest.fixture(autouse=True)
def no_own_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_own_peers", lambda master, source_id: OwnPeers({}))


def read(peer_cluster: PeerCluster, wants: PeerTables = EVERYTHING) -> Targets:
    return read_targets(peer_cluster, peer_cluster, wants, SOURCE_ID)  # type: ignore[arg-type]


def test_a_fit_table_has_its_regions_and_how_its_families_are_written():
    chosen = family("f", COMPRESSION="snappy", DATA_BLOCK_ENCODING="fast_diff", BLOOMFILTER="rowcol", BLOCKSIZE="5000")
    found = read(PeerCluster([schema("ns:t", chosen, family("g"))]))
    assert (found.unfit, found.notes) == ({}, ())
    target = found.tables[b"ns:t"]
    assert target.regions == REGIONS
    assert target.families == {
        b"f": FileSettings(5000, Compression.SNAPPY, Encoding.FAST_DIFF, Bloom.ROWCOL),
        b"g": FileSettings(),
    }
    assert pickle.loads(pickle.dumps(target)) == target


def test_a_setting_that_files_do_not_follow_is_noted():
    found = read(PeerCluster([schema("t", family("f", COMPRESSION="ZSTD"))]))
    assert found.tables[b"t"].families == {b"f": FileSettings()}
    assert found.notes == (
        "family f of table t: files are not written with COMPRESSION=ZSTD; the next compaction at the peer cluster does it",
    )


@pytest.mark.parametrize(
    "made",
    [
        schema("t", family("f", {"RowPrefixBloomFilter.prefix_length": "7"}, BLOOMFILTER="ROWPREFIX_FIXED_LENGTH")),
        schema("t", family("f", BLOOMFILTER="ROWPREFIX_FIXED_LENGTH"), **{"RowPrefixBloomFilter.prefix_length": "7"}),
    ],
    ids=["of the family", "of the table"],
)
def test_the_length_of_a_prefix_is_part_of_the_configuration(made):
    assert read(PeerCluster([made])).tables[b"t"].families[b"f"].prefix_len == 7


def test_unfit_tables_are_left_out_with_the_reason_in_one_line():
    found = read(PeerCluster([
        schema("fit"), schema("mob", family("e"), family("f", IS_MOB="true")), schema("shut", READONLY="true"),
        schema("bloom", family("f", BLOOMFILTER="CUCKOO\n")), schema("long", **{"coprocessor$1": "x\n" * 9999}),
    ]))  # fmt: skip
    assert list(found.tables) == [b"fit"]
    assert sorted(found.unfit) == [b"bloom", b"long", b"mob", b"shut"]
    assert found.unfit[b"mob"].startswith("family f is a MOB family")
    assert "BLOOMFILTER is 'CUCKOO\\n', but one of NONE, ROW" in found.unfit[b"bloom"]
    assert all("\n" not in reason and len(reason) <= MAX_REASON_CHARS for reason in found.unfit.values())


def test_only_tables_and_families_that_the_peer_gets_are_looked_at():
    peer_cluster = PeerCluster(
        [schema("t", family("f"), family("g", IS_MOB="true")), schema("u"), schema("other")], ["hbase:acl"]
    )
    chosen = {b"t": frozenset({b"f"}), b"u": frozenset({b"h"}), b"missing": frozenset[bytes]()}
    found = read(peer_cluster, PeerTables(replicate_all=False, table_families=chosen))
    assert {name: list(target.families) for name, target in found.tables.items()} == {b"t": [b"f"]}
    assert found.unfit == {}
    assert peer_cluster.asked == ["t", "u"]


def test_hbases_own_replicated_tables_go_by_rpc_and_their_schemas_are_not_asked_for():
    peer_cluster = PeerCluster([schema("t")], ["hbase:meta", "hbase:acl", "hbase:labels", "hbase:namespace"])
    found = read(peer_cluster)
    assert list(found.tables) == [b"t"]
    assert peer_cluster.asked == ["t"]
    assert sorted(found.unfit) == [b"hbase:acl", b"hbase:labels"]


def test_a_table_that_is_dropped_meanwhile_is_in_neither():
    found = read(PeerCluster([schema("t")], ["dropped"]))
    assert (list(found.tables), found.unfit) == ([b"t"], {})


def test_a_thousand_tables_take_one_look_at_meta_and_one_at_the_master():
    peer_cluster = PeerCluster([schema(f"t{i}") for i in range(1000)])
    assert len(read(peer_cluster).tables) == 1000
    assert peer_cluster.looks == 2


def test_a_user_who_may_not_read_a_schema_is_told(monkeypatch):
    def refuse(*_: object) -> None:
        raise AccessDenied("h:1", "org.apache.hadoop.hbase.security.AccessDeniedException", "user=w, scope=t, ADMIN|CREATE")

    monkeypatch.setattr(PeerCluster, "call", refuse)
    with pytest.raises(AccessDenied, match=r"scope=t, ADMIN\|CREATE"):
        read(PeerCluster([schema("t")]))


def test_a_table_with_a_border_that_no_row_can_have_is_unfit() -> None:
    """Its meta may say anything; the other tables are loaded all the same."""
    long = b"r" * 40_000
    odd = (Region(b"t,,1.a.", b"", long, ServerName("h", 1, 1)), Region(b"t,r,1.b.", long, b"", ServerName("h", 1, 1)))
    found = read(PeerCluster([schema("t")], regions=odd))
    assert not found.tables
    assert "a row is too long" in found.unfit[b"t"]
