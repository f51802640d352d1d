"""Decoding to Arrow: the same cells, in batches of bounded size."""

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wal.compressing import GZ, Encoder, compress
from tests.unit.wal.encoder import PUT, Cell, Entry, encode_wal, entry
from tests.unit.wal.memory_file import MemoryFile
from tests.unit.wal.sealed import WAL_KEY, encode_sealed
from tests.unit.wal.strategies import TYPE_NAMES, entries, positions, rows
from tests.unit.wal.test_reader import SAMPLE, SAMPLE_BYTES, SAMPLE_STARTS
from walferry.wal import arrow
from walferry.wal.arrow import SCHEMA, read_batches
from walferry.wal.errors import WalCorruptError, WalError


def decode_until_error(data: bytes, position: int = 0, **options: Any) -> tuple[list[dict[str, Any]], WalError | None]:
    found: list[dict[str, Any]] = []
    try:
        for batch in read_batches(MemoryFile(data), "wal", position, **options):
            batch.validate(full=True)
            assert batch.schema.equals(SCHEMA)
            assert batch.num_rows
            found += batch.to_pylist()
    except WalError as e:
        return found, e
    return found, None


def decode(data: bytes, position: int = 0, **options: Any) -> list[dict[str, Any]]:
    found, error = decode_until_error(data, position, **options)
    assert error is None
    return found


def test_the_documented_columns_are_those_of_the_schema() -> None:
    assert arrow.__doc__ is not None
    documented = re.findall(r"^    (\w+) +(string|int64|binary|list<string>)", arrow.__doc__, re.M)
    assert [name for name, _ in documented] == SCHEMA.names
    for name, kind in documented:
        assert str(SCHEMA.field(name).type).replace("element: string not null", "string") == kind
        assert not SCHEMA.field(name).nullable


@given(st.lists(entries(), max_size=6), st.integers(1, 3000), st.integers(1, 3000))
def test_the_cells_read_are_the_cells_written(written: list[Entry], window_bytes: int, batch_bytes: int) -> None:
    assert decode(encode_wal(written), window_bytes=window_bytes, batch_bytes=batch_bytes) == rows(written)


def encoded_as(kind: str, written: list[Entry]) -> bytes:
    if kind == "compressed":
        return compress(written, Encoder(tags=True, codec=GZ))[0]
    return encode_wal(written) if kind == "plain" else encode_sealed(written)


@pytest.mark.parametrize("kind", ["plain", "compressed", "encrypted"])
def test_a_cell_of_any_type_that_hbase_s_reader_takes_is_decoded_and_one_of_another_is_an_error(kind: str) -> None:
    for code in range(256):
        written = [entry(Cell(b"row", b"f", b"q", 1, t, b"value")) for t in (PUT, code, PUT)]
        found, error = decode_until_error(encoded_as(kind, written), unwrap_key=lambda _: WAL_KEY)
        if code in TYPE_NAMES:
            assert error is None
            assert [row["type"] for row in found] == ["Put", TYPE_NAMES[code], "Put"]
            assert {row["value"] for row in found} == {b"value"}
        else:
            assert isinstance(error, WalCorruptError)
            assert "the cell's type is none of HBase's" in error.reason
            assert [row["type"] for row in found] == ["Put"]


def test_reading_from_a_position_gives_the_cells_from_there_on() -> None:
    for i, start in enumerate(SAMPLE_STARTS):
        assert decode(SAMPLE_BYTES, start) == [row for row in rows(SAMPLE) if row["key_offset"] >= SAMPLE_STARTS[i]]


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=60), st.integers(1, 5000))
def test_no_batch_is_larger_than_asked_for_unless_it_is_one_row(lengths: list[int], batch_bytes: int) -> None:
    written = [entry(*(Cell(b"row", b"f", b"q", 1, PUT, b"v" * n) for n in lengths))]
    written[0].key.cluster_ids.add(least_sig_bits=1, most_sig_bits=2)
    batches = list(read_batches(MemoryFile(encode_wal(written)), "wal", batch_bytes=batch_bytes))
    assert [len(v) for b in batches for v in b["value"].to_pylist()] == lengths
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        one_more_offset = 9 * 4  # Arrow's arrays of offsets have one element more than there are rows
        assert batch.num_rows == 1 or batch.nbytes <= batch_bytes + one_more_offset
        assert following is None or batch.num_rows == 1 or batch.nbytes + following.slice(0, 1).nbytes > batch_bytes * 0.8


def test_a_value_of_five_megabytes_is_a_batch_of_its_own() -> None:
    big = bytes(range(256)) * 20_000
    written = [entry(Cell(b"row", b"f", b"q", 1, PUT, v), sequence_id=i) for i, v in enumerate((b"a", big, b"b"))]
    batches = list(read_batches(MemoryFile(encode_wal(written)), "wal", batch_bytes=1 << 20, window_bytes=1 << 20))
    assert [b["value"].to_pylist() for b in batches] == [[b"a"], [big], [b"b"]]


@pytest.mark.parametrize("batch_bytes", [0, -1, arrow.MAX_BATCH_BYTES + 1])
def test_a_batch_that_arrow_could_not_hold_is_refused(batch_bytes: int) -> None:
    with pytest.raises(ValueError, match="a batch may have"):
        next(read_batches(MemoryFile(SAMPLE_BYTES), "wal", batch_bytes=batch_bytes))


def broken_entries() -> list[tuple[str, Entry]]:
    not_text, other_region, bad_id = (entry(Cell(b"row", b"f", b"q", 1, PUT, b"v")) for _ in range(3))
    not_text.key.table_name = b"t\xff"
    other_region.key.encoded_region_name = b"\x80"
    bad_id.key.cluster_ids.add(least_sig_bits=1)
    return [("UTF-8", not_text), ("UTF-8", other_region), ("cluster id", bad_id)]


@pytest.mark.parametrize(("reason", "broken"), broken_entries())
def test_a_key_that_cannot_be_decoded_is_named_after_the_cells_before_it(reason: str, broken: Entry) -> None:
    written = [*SAMPLE, broken, *SAMPLE]
    found, error = decode_until_error(encode_wal(written))
    assert isinstance(error, WalCorruptError)
    assert reason in error.reason
    assert error.offset == positions(written)[len(SAMPLE)]
    assert found == rows(SAMPLE)


def test_a_cluster_id_in_the_old_field_counts_like_the_others() -> None:
    old = entry(Cell(b"row", b"f", b"q", 1, PUT, b"v"))
    old.key.cluster_id.least_sig_bits, old.key.cluster_id.most_sig_bits = 2, 1
    old.key.cluster_ids.add(least_sig_bits=(1 << 64) - 1, most_sig_bits=1 << 63)
    ids = ["00000000-0000-0001-0000-000000000002", "80000000-0000-0000-ffff-ffffffffffff"]
    assert decode(encode_wal([old]))[0]["cluster_ids"] == ids


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_with_any_byte_flipped_the_cells_before_it_are_right(flip: int) -> None:
    expected = rows(SAMPLE)
    for at in range(SAMPLE_STARTS[0], SAMPLE_STARTS[-1]):
        broken = bytearray(SAMPLE_BYTES)
        broken[at] ^= flip
        found, error = decode_until_error(bytes(broken))
        assert error is None or error.offset >= max((row["next_offset"] for row in found), default=0)
        untouched = [row for row in expected if row["next_offset"] <= at]
        assert found[: len(untouched)] == untouched


def test_batches_are_tables_that_arrow_can_write(tmp_path: Any) -> None:
    batches = list(read_batches(MemoryFile(SAMPLE_BYTES), "wal"))
    table = pa.Table.from_batches(batches)
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as out:
        out.write_table(table)
    assert pa.ipc.open_file(tmp_path / "t.arrow").read_all().to_pylist() == rows(SAMPLE)
