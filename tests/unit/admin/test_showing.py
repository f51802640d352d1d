"""Peers in words."""

from __future__ import annotations

from walferry.admin.changing import MAX_SHOWN_CHARS, shown_value
from walferry.admin.showing import typed_columns
from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.peers.settings import LAKE_COLUMNS

MAPPING = (
    '{"table": {"name": "t"}, "rowkey": "k", "columns": {"id": {"cf": "rowkey", "col": "k", "type": "int"},'
    ' "n": {"cf": "f", "col": "q", "type": "int"}}}'
)


def test_the_typed_columns_of_a_lake_s_tables_are_named() -> None:
    assert typed_columns(Peer("p", "", DISABLED, {LAKE_COLUMNS.key: MAPPING})) == ["  typed columns of t: id, n"]
    assert typed_columns(Peer("p", "", DISABLED, {})) == []


def test_a_mapping_that_cannot_be_used_does_not_keep_a_peer_from_being_shown() -> None:
    (line,) = typed_columns(Peer("p", "", DISABLED, {LAKE_COLUMNS.key: "{"}))
    assert line.startswith("  typed columns: peer p")
    assert "not JSON" in line


def test_a_long_value_is_cut_and_is_one_line() -> None:
    assert shown_value("a\n  b") == "a b"
    assert shown_value("x" * 5000) == f"{'x' * MAX_SHOWN_CHARS}… (5,000 characters; `peers show --json` has all)"
