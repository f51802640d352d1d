"""If HBase's own reader refuses an entry's cells, or the WALKey before them, that is a problem, and never waited for."""

import struct

import pytest

from tests.unit.hbase.wal.compressing import GZ, Encoder, compress
from tests.unit.hbase.wal.decoding import decode_until_error
from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, encode_entry, encode_tags, encode_varint, encode_wal, entry
from tests.unit.hbase.wal.scanned import PUT_CELL, TAGGED, key_bytes, scan, with_key
from tests.unit.hbase.wal.sealed import WAL_KEY, encode_sealed
from tests.unit.hbase.wal.strategies import TYPE_NAMES
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.problems import MAX_ENTRY_BYTES, MAX_KEY_BYTES, Problem


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
