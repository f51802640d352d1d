"""A file was cut off only if neither another entry nor the trailer begins in its unfinished end.

Otherwise it is damaged, and nothing is dropped silently.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import numpy as np
import pytest

from tests.unit.hbase.wal.compressing import GZ, LZ4, NONE, SNAPPY, ZSTD, Encoder, compress
from tests.unit.hbase.wal.encoder import PUT, TRAILER, Cell, Entry, encode_entry, encode_header, encode_varint, entry
from tests.unit.hbase.wal.fuzzing import KEYS
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.samples import SAMPLE, SAMPLE_BYTES, SAMPLE_STARTS, read
from tests.unit.hbase.wal.sealed import encode_sealed
from walferry.hbase.wal.errors import WalCorruptError, WalError, WalPositionError, WalTornError, WalTruncatedError
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.torn import NONE as NOWHERE
from walferry.hbase.wal.torn import KeyHints, find_entry

COUNT = 60
FLIPS = 100
_random = random.Random(9)
ENTRIES = [
    entry(*(Cell(b"row%06d-%d" % (i, j), b"f", b"q%d" % j, 1, PUT, _random.randbytes(100)) for j in range(3)), sequence_id=i + 1)
    for i in range(COUNT)
]


def written(kind: str, entries: Sequence[Entry] = ENTRIES) -> bytes:
    """A file with these entries that was not closed."""
    codecs = {"dictionaries": None, "NONE": NONE, "GZ": GZ, "SNAPPY": SNAPPY, "LZ4": LZ4, "ZSTD": ZSTD}
    if kind == "plain":
        return b"".join([encode_header(), *map(encode_entry, entries)])
    if kind == "encrypted":
        return encode_sealed(entries, trailer=b"")
    return compress(entries, Encoder(tags=False, codec=codecs[kind]), trailer=b"")[0]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plain", "encrypted", "dictionaries", "NONE", "GZ", "SNAPPY", "LZ4", "ZSTD"])
def test_no_flipped_bit_makes_a_file_end_early_without_an_error(kind: str) -> None:
    sound = written(kind)
    flips = random.Random(kind)
    for _ in range(FLIPS):
        data = bytearray(sound)
        at = flips.randrange(100, len(data))
        data[at] ^= 1 << flips.randrange(8)
        found = 0
        try:
            for batch in read_wal_batches(MemoryFile(bytes(data)), "wal", 0, partial_tail="stop", unwrap_key=KEYS):
                found += len(batch.index)
        except WalError:
            continue
        assert found >= COUNT - 1, at


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plain", "encrypted", "dictionaries", "NONE", "GZ", "SNAPPY", "LZ4", "ZSTD"])
def test_no_flipped_bit_makes_an_entry_of_a_closed_file_look_cut_off_while_others_follow(kind: str) -> None:
    sound = written(kind) + TRAILER
    flips = random.Random(kind)
    for _ in range(3 * FLIPS):
        data = bytearray(sound)
        at = flips.randrange(100, len(data) - len(TRAILER))
        data[at] ^= 1 << flips.randrange(8)
        found = 0
        try:
            for batch in read_wal_batches(MemoryFile(bytes(data)), "wal", 0, partial_tail="error", unwrap_key=KEYS):
                found += len(batch.index)
        except WalTornError:
            assert found >= COUNT - 1, at
        except WalError:
            continue


def test_values_full_of_bytes_that_begin_a_key_are_not_entries() -> None:
    for noise in (b"\x0a" * 5000, b"\x0a\x02ab\x12\x01t\x18\x01" * 500, random.Random(1).randbytes(1 << 20)):
        torn = encode_entry(entry(Cell(b"row", b"f", b"q", 1, PUT, noise)))
        for keys in (KeyHints(), KeyHints(plain_cells=True), KeyHints(compressed=True, regions=5, tables=5)):
            assert find_entry(np.frombuffer(torn, np.uint8), 16, keys) == NOWHERE


def item(name: bytes, text: bytes) -> bytes:
    """A message after its length, which begins with two texts and two numbers like a WALKey."""
    fields = b"\x0a%c%b\x12%c%b\x18\x07\x20\x09" % (len(name), name, len(text), text)
    return encode_varint(len(fields)) + fields


ORDER = b"".join(b"\x0a" + item(b"a%d" % i, b"some item") for i in range(3))
LIKE_A_REGION = item(b"0123456789abcdef" * 2, b"table")


@pytest.mark.parametrize("kind", ["plain", "encrypted", "dictionaries", "NONE", "GZ", "SNAPPY"])
@pytest.mark.parametrize("value", [ORDER, item(b"ab", b"cd"), item(b"\0\7", b"\0\7"), LIKE_A_REGION * 3])
def test_messages_in_an_entry_that_was_cut_off_are_not_entries(kind: str, value: bytes) -> None:
    before = entry(Cell(b"row", b"f", b"q", 1, PUT, b"v"))
    torn = entry(*(Cell(b"row%d" % i, b"f", b"q", 1, PUT, value) for i in range(20)))
    sound = written(kind, [before, torn])
    for cut in range(1, 200, 7):
        batches = read_wal_batches(MemoryFile(sound[:-cut]), "wal", 0, partial_tail="stop", unwrap_key=KEYS)
        assert sum(len(batch.index) for batch in batches) == 1


@pytest.mark.parametrize("families", [1, 80, 1000])
def test_keys_of_tables_with_very_many_families_show_damage_too(families: int) -> None:
    entries = [entry(Cell(b"row%d" % i, b"f", b"q", 1, PUT, b"v")) for i in range(5)]
    for e in entries:
        for family in range(families):
            e.key.scopes.add(family=b"family%d" % family, scope_type=1)
    data = bytearray(written("plain", entries))
    cell = data.index(entries[1].cells[0].encode())
    data[cell : cell + 12] = struct.pack(">iii", 1_000_000 + 25, 17, 1_000_000)
    with pytest.raises(WalCorruptError, match="another one begins at byte"):
        list(read_wal_batches(MemoryFile(bytes(data)), "wal", 0, partial_tail="stop"))


@pytest.mark.parametrize("kind", ["plain", "dictionaries"])
def test_a_header_with_a_damaged_length_does_not_make_a_file_empty(kind: str) -> None:
    data = bytearray(written(kind, ENTRIES[:1]))
    data[4] |= 0x80
    with pytest.raises(WalCorruptError):
        list(read_wal_batches(MemoryFile(bytes(data)), "wal", 0, partial_tail="stop"))


def test_a_position_after_a_cut_header_is_refused() -> None:
    with pytest.raises(WalPositionError, match="ends at byte 40"):
        list(read_wal_batches(MemoryFile(written("plain")[:40]), "wal", 500, partial_tail="stop"))


def test_an_entry_that_runs_into_the_trailer_is_damage_even_where_a_partial_tail_is_welcome() -> None:
    for length in range(SAMPLE_STARTS[-2] + 1, SAMPLE_STARTS[-1]):
        if length + len(TRAILER) - SAMPLE_STARTS[-1] in (0, 1):
            continue  # a whole entry, whose value ends like a trailer, perhaps with a byte of another one
        found = read(SAMPLE_BYTES[:length] + TRAILER, partial_tail="stop")
        assert isinstance(found.error, WalCorruptError)
        assert found.entries == list(map(encode_entry, SAMPLE[:-1]))


def test_the_error_names_the_damaged_entry_and_the_one_that_shows_it() -> None:
    whole = [encode_entry(e) for e in ENTRIES[:3]]
    head = encode_header()
    second = len(head) + len(whole[0])
    longer = bytearray(whole[1])
    at = whole[1].index(ENTRIES[1].cells[-1].encode()) + 8
    longer[at - 8 : at + 4] = struct.pack(">iii", 20_000 + 30, 22, 20_000)  # like the beginning of a cell with a longer value
    with pytest.raises(WalCorruptError, match=f"another one begins at byte {second + len(longer)}") as error:
        list(read_wal_batches(MemoryFile(head + whole[0] + bytes(longer) + whole[2]), "wal", 0, partial_tail="stop"))
    assert error.value.offset == second


def test_an_entry_is_found_across_two_reads_of_a_long_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walferry.hbase.wal.torn.WAL_BATCH_BYTES", 64)
    torn = encode_entry(entry(Cell(b"row", b"f", b"q", 1, PUT, bytes(3000))))
    for padding in range(64):
        data = encode_header() + torn[: 1000 + padding]
        with pytest.raises(WalTruncatedError):
            list(read_wal_batches(MemoryFile(data), "wal", 0, partial_tail="error"))
        with pytest.raises(WalCorruptError, match=f"another one begins at byte {len(data)}"):
            list(read_wal_batches(MemoryFile(data + encode_entry(ENTRIES[0])), "wal", 0, partial_tail="error"))
