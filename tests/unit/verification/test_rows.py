"""Rows that differ, as text."""

from __future__ import annotations

from tests.unit.hbase.wal.encoder import PUT, Cell
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.tables.rows import index_rows
from walferry.verification.outcome import Sample
from walferry.verification.rows import compare_rows


def sample_of(key: bytes, column: bytes = b"a", value: bytes = b"v") -> Sample:
    """What is shown of a row that has another value at the peer cluster."""
    ours, theirs = (index_rows(Cell(key, b"f", column, 5, PUT, each).encode(), 1) for each in (value, b"other"))
    return compare_rows([ours], [theirs], 1).samples[key]


def test_a_row_is_shown_as_hbase_s_shell_does_and_can_be_typed_in_again():
    key = b"r\x00\xff\x1b[31m\\<b>\"'`"
    sample = sample_of(key, b"\x07", b"\n")
    assert sample.row == "r\\x00\\xFF\\x1B[31m\\x5C\\x3Cb\\x3E\\x22\\x27\\x60"
    assert from_binary_text(sample.row) == key
    assert sample.detail.endswith("values of f:\\x07/5/Put: \\x0A at the source, other at the peer cluster")


def test_long_keys_and_values_are_cut():
    sample = sample_of(b"k" * 1000, value=b"v" * 1000)
    assert sample.row == "k" * 200 + "…"
    assert "v" * 50 + "… at the source" in sample.detail
