"""Which cells are wanted."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, entry
from tests.unit.observe.inspection.printed import expected_json, printed_json
from walferry.observe.inspection.selection import Selection

ROWS = st.sampled_from([b"", b"a", b"aa", b"ab", b"a\x00", b"b"])
TABLES = st.sampled_from([b"t", b"tt", b"ns:t"])
REGIONS = st.sampled_from([b"", b"1", b"12"])
NUMBERS = st.integers(0, 3)
CELLS = st.builds(Cell, row=ROWS, family=st.just(b"f"), qualifier=ROWS, timestamp=NUMBERS, type=st.just(PUT), value=ROWS)
ENTRIES = st.builds(
    lambda cells, **key: entry(*cells, **key),
    st.lists(CELLS, max_size=3), region=REGIONS, table=TABLES, sequence_id=NUMBERS, write_time=NUMBERS,
)  # fmt: skip
OPTIONAL_NUMBERS = st.none() | NUMBERS
SELECTIONS = st.builds(
    Selection,
    row=st.none() | ROWS,
    tables=st.lists(TABLES, max_size=2).map(tuple),
    region=st.none() | REGIONS,
    sequence_id=OPTIONAL_NUMBERS,
    written_from=OPTIONAL_NUMBERS,
    written_before=OPTIONAL_NUMBERS,
) | st.builds(Selection, row_prefix=ROWS)


@given(st.lists(ENTRIES, max_size=8), SELECTIONS)
def test_a_cell_is_chosen_if_everything_fits(written: list[Entry], selection: Selection) -> None:
    def wanted(row: dict[str, Any]) -> bool:
        return (
            selection.row in (None, row["row"])
            and row["row"].startswith(selection.row_prefix)
            and (not selection.tables or row["table"].encode() in selection.tables)
            and selection.region in (None, row["region"].encode())
            and selection.sequence_id in (None, row["sequence_id"])
            and (selection.written_from is None or row["write_time"] >= selection.written_from)
            and (selection.written_before is None or row["write_time"] < selection.written_before)
        )

    assert printed_json(written, selection) == expected_json(written, wanted)
