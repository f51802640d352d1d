"""The forms of cells as text, and their fields as JSON."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import DELETE_COLUMN, PUT, Cell, Entry, encode_tags, entry
from tests.unit.hbase.wal.strategies import entries, positions
from tests.unit.observe.inspection.printed import URL, expected_json, printed, printed_json
from walferry.observe.inspection.layouts import text_layout
from walferry.observe.inspection.selection import Selection

EVERYTHING = Selection()
FILES = st.lists(entries(), max_size=4)


@given(FILES)
def test_json_without_values_has_all_other_fields(written: list[Entry]) -> None:
    expected = [{name: cell[name] for name in cell if name != "value"} for cell in expected_json(written)]
    assert printed_json(written, EVERYTHING, values=False) == expected


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
