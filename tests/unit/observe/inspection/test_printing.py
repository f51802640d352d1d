"""The output about cells shows the file's content, and cannot control a terminal."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import Entry
from tests.unit.hbase.wal.strategies import entries
from tests.unit.observe.inspection.printed import expected_json, printed, printed_json
from walferry.observe.inspection import printing
from walferry.observe.inspection.layouts import json_layout, text_layout
from walferry.observe.inspection.selection import Selection

EVERYTHING = Selection()
FILES = st.lists(entries(), max_size=4)


@given(FILES, st.sampled_from([100, 3000, 1 << 20]), st.sampled_from([500, 1 << 20]))
def test_json_says_what_is_in_the_file(written: list[Entry], out_bytes: int, wal_batch_bytes: int) -> None:
    with patch.object(printing, "OUT_BYTES", out_bytes):
        assert printed_json(written, EVERYTHING, wal_batch_bytes=wal_batch_bytes) == expected_json(written)


@given(FILES, st.booleans())
def test_nothing_printed_could_control_a_terminal(written: list[Entry], values: bool) -> None:
    for layout in (text_layout, json_layout):
        assert all(" " <= char <= "~" or char == "\n" for char in printed(written, EVERYTHING, layout, values=values))
