"""Cells as text and as JSON."""

from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.inspection.printed import URL, expected_json, printed, printed_json
from tests.unit.wal.encoder import DELETE_COLUMN, PUT, Cell, Entry, encode_tags, entry
from tests.unit.wal.strategies import entries, positions
from walferry.inspection import printing
from walferry.inspection.layouts import json_layout, text_layout
from walferry.inspection.selection import Selection

EVERYTHING = Selection()
FILES = st.lists(entries(), max_size=4)


@given(FILES, st.sampled_from([100, 3000, 1 << 20]), st.sampled_from([500, 1 << 20]))
def test_json_says_what_is_in_the_file(written: list[Entry], out_bytes: int, window_bytes: int) -> None:
    with patch.object(printing, "OUT_BYTES", out_bytes):
        assert printed_json(written, EVERYTHING, window_bytes=window_bytes) == expected_json(written)


@given(FILES)
def test_json_without_values_has_all_other_fields(written: list[Entry]) -> None:
    expected = [{name: cell[name] for name in cell if name != "value"} for cell in expected_json(written)]
    assert printed_json(written, EVERYTHING, values=False) == expected


@given(FILES, st.booleans())
def test_nothing_printed_could_control_a_terminal(written: list[Entry], values: bool) -> None:
    for layout in (text_layout, json_layout):
        assert all(" " <= char <= "~" or char == "\n" for char in printed(written, EVERYTHING, layout, values=values))


@given(FILES)
def test_text_has_a_line_for_each_cell_under_its_entry(written: list[Entry]) -> None:
    lines = printed(written, EVERYTHING, text_layout, values=False).splitlines()
    cells = expected_json(written)
    assert [line for line in lines if line.startswith("row=")] == [
        f"row={c['row']}, column={c['family']}:{c['qualifier']}, timestamp={c['timestamp']}, type={c['type']}" for c in cells
    ]
    assert sum(line.startswith("Sequence=") for line in lines) == len({cell["position"] for cell in cells})


def test_text_is_laid_out_like_wal_pretty_printer_s() -> None:
    cells = (
        Cell(b"r\x00", b"f", b"q", 5, PUT, b"\x1b[31m", encode_tags([(8, b"\x01"), (-3, b'"')])),
        Cell(b"r", b"f", b"", 6, DELETE_COLUMN, b""),
    )
    written = entry(*cells, region=b"abc", table=b"ns:t", sequence_id=7, write_time=1_700_000_000_123)
    written.key.cluster_ids.add(least_sig_bits=5, most_sig_bits=7)
    other = entry(cells[1])
    second = positions([written, other])[1]
    assert printed([written, other], EVERYTHING, text_layout) == (
        f"WAL {URL}, written by host,16020,17\n"
        "Sequence=7, table=ns:t, region=abc, at write timestamp=2023-11-14T22:13:20.123Z, position=88\n"
        "    replicated from: 00000000-0000-0007-0000-000000000005\n"
        "row=r\\x00, column=f:q, timestamp=5, type=Put\n"
        '    tag: 8:\\x01, -3:"\n'
        "    value: \\x1B[31m\n"
        "row=r, column=f:, timestamp=6, type=DeleteColumn\n"
        "    value: \n"
        f"Sequence=1, table=t, region={'0123456789abcdef' * 2}, at write timestamp=1970-01-01T00:00:00.002Z, position={second}\n"
        "row=r, column=f:, timestamp=6, type=DeleteColumn\n"
        "    value: \n"
    )


@given(st.integers(0, 253_402_300_799_999))
def test_write_times_are_those_of_the_calendar(millis: int) -> None:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    assert f"timestamp={time.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}, " in _at(millis)


@pytest.mark.parametrize("millis", [-(1 << 63), -1, 253_402_300_800_000, (1 << 63) - 1])
def test_a_write_time_that_is_not_in_the_calendar_is_a_number(millis: int) -> None:
    assert f"at write timestamp={millis}, " in _at(millis)


def _at(millis: int) -> str:
    written = entry(Cell(b"r", b"f", b"q", 1, PUT, b""), write_time=millis % (1 << 64))
    return printed([written], EVERYTHING, text_layout)
