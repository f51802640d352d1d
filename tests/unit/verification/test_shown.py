"""Rows as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.binary_text import from_binary_text
from walferry.verification.job import Options
from walferry.verification.shown import shown


@given(st.binary(max_size=100))
def test_what_is_shown_can_be_typed_in_again_and_holds_nothing_dangerous(data):
    text = shown(data)
    assert from_binary_text(text) == data
    assert text.isascii()
    assert text.isprintable()
    assert not set("<>\"`") & set(text)


def test_long_rows_are_cut():
    assert shown(b"a" * 1000) == "a" * 200 + "…"


def test_options_travel_as_json():
    options = Options(start_row=b"\x00\xff", stop_row=b"b", start_time=5, versions=3, repair=True, recompare_seconds=0.5)
    assert Options.from_json(options.to_json()) == options
