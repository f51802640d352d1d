"""Which tables and families are copied."""

from __future__ import annotations

import pytest

from walferry.base.protos import hbase_pb2 as pb
from walferry.load.copied_tables import choose
from walferry.load.errors import CopyRefused
from walferry.replication.filters.rules import PeerTables


def schema(table: str, **families: dict[str, str]) -> pb.TableSchema:
    found = pb.TableSchema(table_name=pb.TableName(namespace=b"default", qualifier=table.encode()))
    for name, attributes in families.items():
        family = found.column_families.add(name=name.encode())
        for first, second in attributes.items():
            family.attributes.add(first=first.encode(), second=second.encode())
    return found


WANTED = {"REPLICATION_SCOPE": "1"}
SCHEMAS = {
    "a": schema("a", f=WANTED, g=WANTED, l={"REPLICATION_SCOPE": "0"}, none={}),
    "b": schema("b", f=WANTED),
    "local": schema("local", f={}),
}


def names(chosen):
    return {table.name: table.families for table in chosen}


def test_by_default_all_families_that_the_peer_gets_are_copied():
    assert names(choose(SCHEMAS, PeerTables())) == {"a": (b"f", b"g"), "b": (b"f",)}
    only = PeerTables(replicate_all=False, table_families={b"a": frozenset({b"g"})})
    assert names(choose(SCHEMAS, only)) == {"a": (b"g",)}
    but = PeerTables(exclude_table_families={b"a": frozenset({b"g"}), b"b": frozenset()})
    assert names(choose(SCHEMAS, but)) == {"a": (b"f",)}


def test_tables_that_are_asked_for_are_there_and_the_peer_gets_them():
    assert names(choose(SCHEMAS, PeerTables(), ["b"])) == {"b": (b"f",)}
    with pytest.raises(CopyRefused, match="there is no table nowhere at the source"):
        choose(SCHEMAS, PeerTables(), ["b", "nowhere"])
    with pytest.raises(CopyRefused, match="gets no family of table local"):
        choose(SCHEMAS, PeerTables(), ["local"])
    with pytest.raises(CopyRefused, match="replicates no table"):
        choose({"local": SCHEMAS["local"]}, PeerTables())


def test_a_table_of_which_the_peer_gets_only_some_rows_is_not_copied():
    schemas, tenants = {**SCHEMAS, "SYSTEM.CATALOG": schema("SYSTEM.CATALOG", f=WANTED)}, PeerTables(tenants_only=True)
    assert names(choose(schemas, tenants)) == {"a": (b"f", b"g"), "b": (b"f",)}
    assert "SYSTEM.CATALOG" in names(choose(schemas, PeerTables()))
    with pytest.raises(CopyRefused, match=r"a filter of the peer chooses rows of table SYSTEM\.CATALOG"):
        choose(schemas, tenants, ["a", "SYSTEM.CATALOG"])


def test_what_cannot_be_copied_as_files_is_known_beforehand():
    mob, encrypted = ({**WANTED, name: value} for name, value in (("IS_MOB", "true"), ("ENCRYPTION", "AES")))
    chosen = choose({"m": schema("m", f=mob), "e": schema("e", f=encrypted), "n": schema("n", f=WANTED, m={"IS_MOB": "true"})},
                    PeerTables())  # fmt: skip
    assert [bool(table.why_scan) for table in chosen] == [True, True, False]
    with pytest.raises(CopyRefused, match="family f of table v has NEW_VERSION_BEHAVIOR"):
        choose({"v": schema("v", f={**WANTED, "NEW_VERSION_BEHAVIOR": "true"})}, PeerTables())
