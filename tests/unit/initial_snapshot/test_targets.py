"""An initial snapshot makes the peer cluster's table with the source's settings that are safe there, and names the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.protos import hbase_pb2 as pb
from walferry.initial_snapshot import targets
from walferry.initial_snapshot.targets import (
    FAMILY_ATTRIBUTES,
    MAX_REPORTED,
    OF_EACH_CLUSTER,
    TABLE_ATTRIBUTES,
    portable,
    reported,
)

DOCS = Path(__file__).resolve().parents[3] / "docs" / "initial-snapshot.md"
JAR = b"hdfs://source-nn:8020/user/tenant/x.jar|evil.Observer|1001|"


def pairs(settings: dict[str, bytes]) -> list[pb.BytesBytesPair]:
    return [pb.BytesBytesPair(first=name.encode(), second=value) for name, value in settings.items()]


def table(of_table: dict[str, bytes] | None = None, **of_families: dict[str, bytes]) -> pb.TableSchema:
    families = [pb.ColumnFamilySchema(name=name.encode(), attributes=pairs(settings)) for name, settings in of_families.items()]
    name = pb.TableName(namespace=b"tenant", qualifier=b"t")
    return pb.TableSchema(table_name=name, attributes=pairs(of_table or {}), column_families=families)


def test_a_coprocessor_of_the_source_is_not_loaded_by_the_peer_cluster() -> None:
    original = table({"coprocessor$1": JAR, "COPROCESSOR$2": JAR, "MAX_FILESIZE": b"5"}, f={"TTL": b"5"})
    made, left = portable(original)
    assert made == table({"MAX_FILESIZE": b"5"}, f={"TTL": b"5"})
    assert left == ("coprocessor$1", "COPROCESSOR$2")
    assert b"evil" not in made.SerializeToString()


@pytest.mark.parametrize("data", [b"\x22\x09\x0a\x04evil\x12\x01v", b"\x7a\x04evil"], ids=["configuration", "unknown"])
def test_what_has_another_place_in_the_message_does_not_travel_either(data: bytes) -> None:
    original = pb.TableSchema.FromString(table(f={}).SerializeToString() + data)
    original.column_families[0].MergeFromString(data)
    original.column_families[0].configuration.add(name="hbase.hstore.engine.class", value="evil.Engine")
    original.table_name.MergeFromString(data)
    made, left = portable(original)
    assert b"evil" not in made.SerializeToString()
    assert "hbase.hstore.engine.class of family f" in left
    assert made.table_name.qualifier == b"t"


def test_a_family_keeps_how_its_cells_are_kept_but_not_the_source_s_keys() -> None:
    original = table(
        f={"ENCRYPTION": b"AES", "ENCRYPTION_KEY": b"wrapped", "TTL": b"5"}, g={"VERSIONS": b"6", "STORAGE_POLICY": b"HOT"}
    )
    made, left = portable(original)
    assert made == table(f={"ENCRYPTION": b"AES", "TTL": b"5"}, g={"VERSIONS": b"6"})
    assert left == ("STORAGE_POLICY of family g",)


def test_edits_that_the_peer_cluster_acknowledges_are_not_lost_by_a_setting_of_the_source() -> None:
    _, left = portable(table({"DURABILITY": b"SKIP_WAL", "READONLY": b"true", "IS_META": b"false", "OWNER": b"tenant"}))
    assert left == ("DURABILITY", "READONLY")


@given(
    st.dictionaries(st.text(max_size=30), st.binary(), max_size=5), st.dictionaries(st.text(max_size=30), st.binary(), max_size=5)
)
def test_each_setting_travels_or_is_named(of_table: dict[str, bytes], of_family: dict[str, bytes]) -> None:
    made, left = portable(table(of_table, f=of_family))
    assert {pair.first.decode() for pair in made.attributes} == of_table.keys() & TABLE_ATTRIBUTES
    assert {pair.first.decode() for pair in made.column_families[0].attributes} == of_family.keys() & FAMILY_ATTRIBUTES
    named = [*of_table.keys() - TABLE_ATTRIBUTES - OF_EACH_CLUSTER]
    named += [f"{name} of family f" for name in of_family.keys() - FAMILY_ATTRIBUTES - OF_EACH_CLUSTER]
    assert sorted(left) == sorted(named)


def test_names_of_settings_are_told_as_one_line_that_ends() -> None:
    assert reported(["a\nb", "\x1b[2J"]) == r"a\u000ab, \u001b[2J"
    assert reported([*"x" * (MAX_REPORTED + 3)]).endswith("x, and 3 more")


def test_the_master_of_the_peer_cluster_gets_only_what_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[pb.TableSchema] = []
    monkeypatch.setattr(targets, "create_namespace", lambda master, name: None)
    monkeypatch.setattr(targets, "create_table", lambda master, schema, keys: got.append(schema) or True)
    monkeypatch.setattr(targets, "has_namespace", lambda master, name: True)
    master: Any = None
    made = targets.make_target(master, table({"coprocessor$1": JAR}, f={}), [])
    assert (made.made, made.left) == (True, ("coprocessor$1",))
    assert got == [table(f={})]


@pytest.mark.parametrize(("begin", "known"), [("of a table", TABLE_ATTRIBUTES), ("of a family", FAMILY_ATTRIBUTES)])
def test_the_documentation_names_what_travels(begin: str, known: frozenset[str]) -> None:
    (row,) = [line for line in DOCS.read_text().splitlines() if line.startswith(f"| {begin} |")]
    assert set(row.split("|")[2].replace("`", "").replace(" ", "").split(",")) == known
