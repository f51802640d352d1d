"""The compiled scan finds all entries, and no bytes mislead it."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wal.encoder import PUT, Cell, Entry, encode_entry, encode_tags, encode_varint, entry
from tests.unit.wal.strategies import TYPE_NAMES, entries
from walferry.protos.hbase_pb2 import WALKey
from walferry.wal.problems import MAX_ENTRY_BYTES, MAX_KEY_BYTES, Problem
from walferry.wal.scan import Scan, scan_entries

PUT_CELL = Cell(b"row", b"f", b"q", 1, PUT, b"value")
TAGGED = Cell(b"row", b"f", b"q", 1, PUT, b"value", encode_tags([(8, b"12345678")]))


def scan(data: bytes, start: int = 0, end: int | None = None) -> Scan:
    return scan_entries(np.frombuffer(data, np.uint8), start, len(data) if end is None else end)


@given(st.lists(entries(), max_size=8))
def test_every_entry_is_found_with_its_key_and_its_cells(written: list[Entry]) -> None:
    data = b"".join(map(encode_entry, written))
    found = scan(data)
    assert found.fault is None
    assert found.consumed == found.need == len(data)
    index = found.index
    assert len(index) == len(written)
    for i, e in enumerate(written):
        key = data[index.key_start[i] : index.key_end[i]]
        assert WALKey.FromString(key) == e.key
        assert data[index.cells_start[i] : index.cells_end[i]] == e.cell_bytes()
        assert data[index.entry_start[i] : index.key_start[i]] == encode_varint(len(key))
        assert index.cell_count[i] == len(e.cells)
        assert int(index.sequence_id[i]) % (1 << 64) == e.key.log_sequence_number
        assert int(index.write_time[i]) % (1 << 64) == e.key.write_time
        assert index.cluster_id_count[i] == len(e.key.cluster_ids)
        for start, length, name in (
            (index.region_start, index.region_len, e.key.encoded_region_name),
            (index.table_start, index.table_len, e.key.table_name),
        ):
            assert data[start[i] : start[i] + length[i]] == name


def test_entries_of_a_region_have_one_hash_and_other_regions_other_ones() -> None:
    regions = [b"%032x" % i for i in range(1000)] + [b"1588230740", b"", b"a", b"a" * 9]
    data = b"".join(encode_entry(entry(PUT_CELL, region=region)) for region in regions + regions)
    hashes = scan(data).index.region_hash
    assert (hashes[: len(regions)] == hashes[len(regions) :]).all()
    assert len(set(hashes.tolist())) == len(regions)
    lanes = np.bincount((hashes[:1000] % 8).astype(np.int64), minlength=8)
    assert lanes.min() > 80  # 125 on average: the lanes are filled evenly


def test_more_entries_than_expected_for_the_size_are_found_too() -> None:
    data = encode_entry(entry(region=b"", table=b"")) * 5000  # entries without cells have 10 bytes each
    assert len(scan(data).index) == 5000


@given(st.lists(entries(), min_size=1, max_size=4), st.data())
def test_a_range_gives_the_entries_that_lie_wholly_in_it(written: list[Entry], data: st.DataObject) -> None:
    sizes = [len(encode_entry(e)) for e in written]
    starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    first = data.draw(st.integers(0, len(written)))
    end = data.draw(st.integers(starts[first], starts[-1]))
    found = scan(b"".join(map(encode_entry, written)), starts[first], end)
    expected = [start for start in starts[first:-1] if start + sizes[starts.index(start)] <= end]
    assert found.fault is None
    assert found.index.entry_start.tolist() == expected
    assert found.consumed == max(b for b in starts if b <= end and b >= starts[first])
    assert found.need == found.consumed if found.consumed == end else end < found.need <= min(b for b in starts if b > end)


def test_a_range_outside_the_buffer_is_refused() -> None:
    for start, end in ((-1, 2), (0, 4), (3, 2)):
        with pytest.raises(ValueError, match="not within a buffer of 3 bytes"):
            scan(b"abc", start, end)


def key_bytes(**changes: object) -> bytes:
    key = entry(PUT_CELL).key
    for name, value in changes.items():
        if value is None:
            key.ClearField(name)
        else:
            setattr(key, name, value)
    return key.SerializePartialToString()


def with_key(key: bytes) -> bytes:
    return encode_varint(len(key)) + key + PUT_CELL.encode()


def with_cell(offset: int, replacement: bytes, cell: Cell = PUT_CELL) -> bytes:
    encoded = bytearray(encode_entry(entry(cell)))
    at = len(encoded) - len(cell.encode()) + offset
    encoded[at : at + len(replacement)] = replacement
    return bytes(encoded)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\0", Problem.BAD_KEY_LENGTH),
        (b"\xff" * 11, Problem.BAD_KEY_LENGTH),
        (encode_varint(MAX_KEY_BYTES + 1), Problem.BAD_KEY_LENGTH),
        (with_key(key_bytes() + b"\x0a\x05abcd"), Problem.BAD_KEY_FIELD),
        (with_key(key_bytes() + b"\x0a" + b"\xff" * 9 + b"\x01"), Problem.BAD_KEY_FIELD),
        (with_key(key_bytes() + b"\x6b"), Problem.BAD_KEY_FIELD),  # a group
        (with_key(key_bytes() + b"\x05"), Problem.BAD_KEY_FIELD),  # field 0
        (with_key(key_bytes() + b"\x69\x01\x02\x03\x04\x05\x06\x07"), Problem.BAD_KEY_FIELD),
        (with_key(key_bytes() + b"\x6d\x01\x02\x03"), Problem.BAD_KEY_FIELD),
        (with_key(key_bytes() + b"\x18\xff"), Problem.BAD_KEY_FIELD),
        (with_key(key_bytes(encoded_region_name=None)), Problem.MISSING_KEY_FIELD),
        (with_key(key_bytes(table_name=None)), Problem.MISSING_KEY_FIELD),
        (with_key(key_bytes(log_sequence_number=None)), Problem.MISSING_KEY_FIELD),
        (with_key(key_bytes(write_time=None)), Problem.MISSING_KEY_FIELD),
        (with_key(key_bytes(following_kv_count=0xFFFFFFFF)), Problem.BAD_CELL_COUNT),
        (with_cell(0, struct.pack(">i", 20)), Problem.BAD_CELL_LENGTHS),
        (with_cell(0, struct.pack(">i", -1)), Problem.BAD_CELL_LENGTHS),
        (with_cell(0, struct.pack(">i", 0x7FFFFFFF)), Problem.BAD_CELL_LENGTHS),
        (with_cell(4, struct.pack(">i", 11)), Problem.BAD_CELL_LENGTHS),
        (with_cell(4, struct.pack(">i", -5)), Problem.BAD_CELL_LENGTHS),
        (with_cell(8, struct.pack(">i", 6)), Problem.BAD_CELL_LENGTHS),
        (with_cell(8, struct.pack(">i", -1)), Problem.BAD_CELL_LENGTHS),
        (with_cell(8, struct.pack(">i", 4)), Problem.BAD_TAGS),
        (with_cell(12, b"\0\6"), Problem.BAD_CELL_KEY),
        (with_cell(12, b"\xff\xff"), Problem.BAD_CELL_KEY),
        (with_cell(17, b"\5"), Problem.BAD_CELL_KEY),
        (with_cell(17, b"\x80"), Problem.BAD_CELL_KEY),
        *((with_cell(28, bytes([code])), Problem.BAD_CELL_TYPE) for code in range(256) if code not in TYPE_NAMES),
        (with_cell(34, b"\0\x0a", TAGGED), Problem.BAD_TAGS),
        (with_cell(36, b"\0\0", TAGGED), Problem.BAD_TAGS),
        (with_cell(36, b"\0\x08", TAGGED), Problem.BAD_TAGS),
        (with_cell(36, b"\0\x0a", TAGGED), Problem.BAD_TAGS),
        (with_cell(20, b"\x80"), Problem.BAD_TIMESTAMP),
        (encode_entry(entry(Cell(b"r" * 0x8000, b"f", b"q", 1, PUT, b""))), Problem.BAD_CELL_KEY),
        (encode_entry(entry(Cell(b"r", b"f", b"q", 1, PUT, b"", encode_tags([(8, b"v" * 0x7FFD)])))), Problem.BAD_CELL_LENGTHS),
    ],
)
def test_impossible_bytes_are_a_problem_and_the_entries_before_them_are_found(data: bytes, code: int) -> None:
    before = encode_entry(entry(TAGGED, PUT_CELL))
    found = scan(before + data)
    assert len(found.index) == 1
    assert found.consumed == len(before)
    assert found.fault is not None
    assert found.fault.problem == code, found.fault.reason
    assert len(before) <= found.fault.offset < len(before + data)
    assert found.fault.reason == code.reason


def test_fields_of_later_releases_are_skipped() -> None:
    extra = b"\x68\x01" + b"\x6a\x03abc" + b"\x6d\x01\x02\x03\x04" + b"\x69" + b"\x01" * 8
    found = scan(with_key(key_bytes() + extra))
    assert found.fault is None
    assert len(found.index) == 1


def test_an_entry_that_could_never_be_whole_is_not_waited_for() -> None:
    announced = with_key(key_bytes(following_kv_count=20_000_000))  # cells of at least 24 bytes
    found = scan(announced)
    assert found.fault is not None
    assert found.fault.problem == Problem.BAD_CELL_COUNT
    sized = MAX_ENTRY_BYTES - 20
    huge = struct.pack(">iii", sized, 12, sized - 20)
    found = scan(encode_varint(len(key_bytes())) + key_bytes(following_kv_count=2) + PUT_CELL.encode() + huge)
    assert found.fault is not None
    assert found.fault.problem == Problem.ENTRY_TOO_LONG


@given(st.binary(max_size=400))
def test_any_bytes_end_the_scan_within_their_range(data: bytes) -> None:
    found = scan(data)
    assert 0 <= found.consumed <= len(data)
    assert found.fault is None or found.consumed <= found.fault.offset <= len(data)
    assert found.index.cells_end.tolist() == [*found.index.entry_start[1:], found.consumed][: len(found.index)]
