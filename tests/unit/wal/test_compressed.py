"""Compressed files give the entries that were written to them, from any position and in windows of any size."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wal.compressing import GZ, LZ4, NONE, SNAPPY, ZSTD, Encoder, compress
from tests.unit.wal.encoder import PUT, Cell, Entry, encode_tags, encode_varint, entry
from tests.unit.wal.memory_file import MemoryFile
from tests.unit.wal.small_buffers import small_buffers
from tests.unit.wal.strategies import entries
from walferry.protos.hbase_pb2 import WALKey
from walferry.wal.codecs.compressed import Expanded, Expander
from walferry.wal.errors import (
    WalCorruptError,
    WalError,
    WalOverrunError,
    WalPositionError,
    WalTruncatedError,
)
from walferry.wal.reader import read_windows
from walferry.wal.windows import PartialTail

CODECS = {"no codec": None, "GZ": GZ, "NONE": NONE, "SNAPPY": SNAPPY, "LZ4": LZ4, "ZSTD": ZSTD}
codecs = st.sampled_from(list(CODECS.values()))
rng = random.Random(5)
WORDS = [bytes(rng.randrange(256) for _ in range(n % 7 + 1)) for n in range(12)]
words = st.sampled_from(WORDS)
# Few different rows, families, qualifiers and tags, so that most are in the dictionaries.
repeating_cells = st.builds(
    Cell,
    row=words,
    family=words,
    qualifier=st.one_of(words, st.just(b"")),
    timestamp=st.integers(0, 1 << 40),
    type=st.just(PUT),
    value=st.one_of(st.binary(max_size=50), st.builds(lambda w, n: w * n, words, st.integers(0, 200))),
    tags=st.lists(st.tuples(st.integers(0, 3), words), max_size=4).map(encode_tags),
)
repeating = st.builds(
    lambda cells, region, table: entry(*cells, region=region, table=table),
    st.lists(repeating_cells, max_size=6),
    st.sampled_from([b"r1", b"r2"]),
    st.sampled_from([b"t", b"ns:u"]),
)
written = st.lists(st.one_of(repeating, entries()), max_size=12)


@dataclass
class Read:
    """What a reader returned: keys, cells' bytes, positions before and after each entry, and the error that ended the reading."""

    entries: list[tuple[WALKey | None, bytes]]
    starts: list[int]
    ends: list[int]
    error: WalError | None = None


def read(data: bytes, position: int = 0, window_bytes: int = 1 << 20, partial_tail: PartialTail = "error") -> Read:
    found = Read([], [], [])
    try:
        for window in read_windows(MemoryFile(data), "wal", position, window_bytes=window_bytes, partial_tail=partial_tail):
            index, buf = window.index, window.buf.tobytes()
            assert len(index)
            for i in range(len(index)):
                key = _key(buf[index.key_start[i] : index.key_end[i]])
                found.entries.append((key, buf[index.cells_start[i] : index.cells_end[i]]))
            found.starts += window.positions.tolist()
            found.ends += window.next_positions.tolist()
    except WalError as e:
        found.error = e
    return found


def _key(data: bytes) -> WALKey | None:
    """Parse a key, or return None if fields are broken that the reader does not look at."""
    try:
        return WALKey.FromString(data)
    except DecodeError:
        return None


def plain(written: Iterable[Entry]) -> list[tuple[WALKey, bytes]]:
    return [(e.key, e.cell_bytes()) for e in written]


@pytest.mark.slow
@given(written, st.booleans(), codecs, st.sampled_from([1, 40, 200, 1 << 20]), st.sampled_from([5, 1 << 18]))
def test_what_was_written_is_read(
    written: list[Entry], tags: bool, codec: int | None, window_bytes: int, chunk: int
) -> None:
    data, offsets = compress(written, Encoder(tags=tags, codec=codec, chunk=chunk))
    found = read(data, window_bytes=window_bytes)
    assert found.error is None
    assert found.entries == plain(written)
    assert (found.starts, found.ends) == (offsets[:-1], offsets[1:])


@pytest.mark.slow
@given(written, st.booleans(), codecs, st.sampled_from([40, 1 << 20]), st.data())
def test_reading_from_a_position_gives_what_follows_it(
    written: list[Entry], tags: bool, codec: int | None, window_bytes: int, data: st.DataObject
) -> None:
    file, offsets = compress(written, Encoder(tags=tags, codec=codec))
    first = data.draw(st.integers(0, len(written)))
    found = read(file, offsets[first], window_bytes)
    assert found.error is None
    assert found.entries == plain(written[first:])
    assert found.starts == offsets[first:-1]


SAMPLE = [
    entry(Cell(b"row", b"f", b"q", 1, PUT, b"value" * 20, encode_tags([(8, b"ttl"), (9, b"acl"), (8, b"ttl")]))),
    entry(Cell(b"row", b"f", b"q", 2, PUT, b"", encode_tags([(9, b"acl")])), Cell(b"row2", b"g", b"", 2, PUT, b"x" * 300)),
    entry(sequence_id=3),
    entry(Cell(b"row", b"g", b"q", 4, PUT, b"value"), table=b"ns:u"),
]
SAMPLE[1].key.scopes.add(family=b"f", scope_type=1)
SAMPLE[1].key.extended_attributes.add(key="k", value=b"t")
SOME_QUICKLY = [pytest.param(c, marks=pytest.mark.slow) if c in ("NONE", "LZ4", "SNAPPY", "ZSTD") else c for c in CODECS]
SAMPLES = {name: compress(SAMPLE, Encoder(tags=True, codec=codec)) for name, codec in CODECS.items()}


@pytest.mark.parametrize("codec", SOME_QUICKLY)
def test_a_position_that_is_not_an_entry_s_start_is_refused(codec: str) -> None:
    data, offsets = SAMPLES[codec]
    for position in range(1, len(data) - 8):
        found = read(data, position)
        if position in offsets:
            assert found.error is None
        else:
            assert isinstance(found.error, WalPositionError), position
            assert found.entries == []


@pytest.mark.parametrize("codec", SOME_QUICKLY)
@pytest.mark.parametrize("window_bytes", [7, pytest.param(1 << 20, marks=pytest.mark.slow)])
def test_a_file_that_ends_anywhere_gives_its_whole_entries(codec: str, window_bytes: int) -> None:
    data, offsets = SAMPLES[codec]
    for length in range(offsets[0], len(data)):
        whole = sum(end <= length for end in offsets[1:])
        found = read(data[:length], window_bytes=window_bytes)
        assert found.entries == plain(SAMPLE[:whole]), length
        if length in offsets or length > offsets[-1]:
            assert found.error is None, length
        else:
            assert isinstance(found.error, WalTruncatedError), length
            assert found.error.offset == offsets[whole]
        stopped = read(data[:length], window_bytes=window_bytes, partial_tail="stop")
        assert (stopped.entries, stopped.error) == (plain(SAMPLE[:whole]), None)


@pytest.mark.parametrize("codec", SOME_QUICKLY)
@pytest.mark.parametrize(
    ("window_bytes", "buffer", "wrong_bytes"),
    [
        (64, 300, ("flip",)),
        pytest.param(64, 300, (0, 1, 0x7F, 0x80, 0xFF), marks=pytest.mark.slow),
        pytest.param(1 << 20, 1 << 20, (0, 1, 0x7F, 0x80, 0xFF, "flip"), marks=pytest.mark.slow),
    ],
)
def test_everything_before_a_wrong_byte_is_right(
    codec: str, window_bytes: int, buffer: int, wrong_bytes: tuple[Any, ...]
) -> None:
    data, offsets = SAMPLES[codec]
    errors = 0
    for at in range(offsets[0], offsets[-1]):
        for wrong in wrong_bytes:
            broken = bytearray(data)
            broken[at] = data[at] ^ 1 if wrong == "flip" else wrong
            with small_buffers(buffer, buffer):
                found = read(bytes(broken), window_bytes=window_bytes)
            before = sum(end <= at for end in offsets[1:])
            assert found.entries[:before] == plain(SAMPLE[:before]), (at, wrong)
            errors += found.error is not None
    assert errors > 100


def test_an_index_without_an_entry_is_reported_with_its_offset() -> None:
    data, offsets = SAMPLES["no codec"]
    at = data.index(b"\x00\x00", offsets[1] + 30)  # the row's
    broken = data[:at] + b"\x12\x34" + data[at + 2 :]
    found = read(broken)
    assert isinstance(found.error, WalCorruptError)
    assert "names an entry that its dictionary does not have" in str(found.error)
    assert f"begins at byte {offsets[1]}" in str(found.error)
    assert found.entries == plain(SAMPLE[:1])


def test_a_cell_count_that_lies_is_an_error() -> None:
    lying = entry(Cell(b"r", b"f", b"q", 1, PUT, b"v"))
    lying.key.following_kv_count = 3
    data, offsets = compress([*SAMPLE, lying], Encoder(tags=True, codec=None))
    found = read(data)
    assert isinstance(found.error, WalOverrunError)
    assert found.error.offset == offsets[-2]
    assert found.entries == plain(SAMPLE)


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_entries_that_the_scan_finds_elsewhere_are_not_handed_out(
    missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, _ = SAMPLES["GZ"]
    flush = Expander._flush

    def flush_without_one(self: Expander) -> Expanded:
        whole = flush(self)
        rows = (np.delete(row, missing) for row in (whole.start, whole.file_start, whole.file_end))
        return Expanded(whole.buf, *rows)

    monkeypatch.setattr(Expander, "_flush", flush_without_one)
    found = read(data)
    assert isinstance(found.error, WalCorruptError)
    assert found.entries == plain(SAMPLE[: max(missing - 1, 0)])


def test_a_cell_count_that_is_not_a_varint_is_ignored() -> None:
    """The reader of the expanded key sees it the same way."""
    file, _ = compress(SAMPLE, Encoder(tags=True, codec=None), trailer=b"")
    key = b"\x0a\x02\x00\x00" b"\x12\x02\x00\x00" b"\x18\x05\x20\x06" b"\x3a\x01x"  # field 7 as bytes
    found = read(file + encode_varint(len(key)) + key)
    assert found.error is None
    assert [cells for _, cells in found.entries] == [e.cell_bytes() for e in SAMPLE] + [b""]


def with_attributes(values: Iterable[bytes]) -> Entry:
    made = entry(Cell(b"row", b"f", b"q", 1, PUT, b"value"))
    for value in values:
        made.key.extended_attributes.add(key="k", value=value)
    return made


def test_attributes_that_refer_to_a_long_one_of_the_same_key_are_expanded() -> None:
    many = [*SAMPLE, with_attributes([b"long" * 2500] * 1000), *SAMPLE]
    data, _ = compress(many, Encoder(tags=True, codec=None))
    assert len(data) < 30_000
    found = read(data)
    assert (found.error, found.entries) == (None, plain(many))


@pytest.mark.parametrize("uses", [2_000, 30_000])
def test_a_key_that_would_become_longer_than_a_key_can_be_is_an_error(uses: int) -> None:
    data, _ = compress(SAMPLE, Encoder(tags=True, codec=None), trailer=b"")
    fields = b"\xff" + encode_varint(10_000) + bytes(10_000), b"\x00\x02"
    first, again = (b"\x12" + encode_varint(len(field)) + field for field in fields)
    key = b"".join(b"\x62" + encode_varint(len(attribute)) + attribute for attribute in (first, *[again] * uses))
    found = read(data + encode_varint(len(key)) + key)
    assert isinstance(found.error, WalCorruptError)
    assert found.entries == plain(SAMPLE)


@pytest.mark.parametrize("field", [b"\x0a\x02\x00\x00", b"\x12\x02\x00\x00"], ids=["region", "table"])
@pytest.mark.parametrize("times", [2, 1000])
def test_a_key_with_a_region_or_table_more_than_once_is_an_error(field: bytes, times: int) -> None:
    data, _ = compress(SAMPLE, Encoder(tags=True, codec=None), trailer=b"")
    key = b"\x18\x05\x20\x06" + field * times
    found = read(data + encode_varint(len(key)) + key)
    assert isinstance(found.error, WalCorruptError)
    assert "a field of the WALKey is malformed" in found.error.reason
    assert found.entries == plain(SAMPLE)


@pytest.mark.parametrize("message", [b"\x32\x08" + b"\x0a\x02\x00\x00" * 2, b"\x62\x08" + b"\x12\x02\x00\x00" * 2])
def test_a_scope_or_attribute_with_two_names_or_values_is_an_error(message: bytes) -> None:
    data, _ = compress(SAMPLE, Encoder(tags=True, codec=None), trailer=b"")
    key = b"\x0a\x02\x00\x00" b"\x12\x02\x00\x00" b"\x18\x05\x20\x06" + message
    found = read(data + encode_varint(len(key)) + key)
    assert isinstance(found.error, WalCorruptError)
    assert "a field of the WALKey is malformed" in found.error.reason
    assert found.entries == plain(SAMPLE)


def test_long_attributes_take_only_the_memory_of_their_bytes() -> None:
    long = [with_attributes([rng.randbytes(24_000), rng.randbytes(24_000)]) for _ in range(10)]
    data, _ = compress(long, Encoder(tags=True, codec=None))
    assert (found := read(data)).error is None
    assert found.entries == plain(long)
    tracemalloc.start()
    try:
        for _ in read_windows(MemoryFile(data), "wal", 0, partial_tail="error"):
            pass
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("arena", [100, 2000, 1 << 20])
def test_an_entry_that_takes_the_place_of_one_of_another_length_is_read(arena: int) -> None:
    choose = random.Random(arena)
    qualifiers = [choose.randbytes(choose.choice([1, 5, 40, 200])) + b"%d" % i for i in range(300)]  # of which 127 are kept
    many = [
        entry(*(Cell(b"row", b"f", choose.choice(qualifiers[n // 3 : n // 3 + 150]), 1, PUT, b"") for _ in range(4)))
        for n in range(450)
    ]
    data, _ = compress(many, Encoder(tags=True, codec=None))
    with small_buffers(arena):
        found = read(data)
    assert (found.error, found.entries) == (None, plain(many))


def test_dictionaries_take_a_quarter_more_than_their_contents() -> None:
    filler = random.Random(1).randbytes(1 << 20)
    sizes = [600, 1800, 1200]  # rows of different lengths replace each other
    rows = (b"%d" % i + filler[i : i + sizes[i % 3]] for i in range(36_000))
    data, _ = compress((entry(Cell(row, b"f", b"q", 1, PUT, b"")) for row in rows), Encoder(tags=True, codec=None))
    live = 32_767 * 1200
    tracemalloc.start()
    try:
        with small_buffers(1 << 20, 1 << 20):
            windows = read_windows(MemoryFile(data), "wal", 0, window_bytes=1 << 20, partial_tail="error")
            count = sum(len(window.index) for window in windows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 36_000
    assert live < peak < live * 5 // 4 + (14 << 20), f"{peak >> 20} MB for {live >> 20} MB"


@pytest.mark.slow
@pytest.mark.parametrize("window_bytes", [100_000, 8 << 20])
def test_dictionaries_that_are_full_reuse_the_index_that_was_touched_longest_ago(window_bytes: int) -> None:
    rng = random.Random(window_bytes)
    rows = [b"row%d" % i for i in range(50_000)]
    entries_ = []
    for i in range(4000):
        # Mostly new rows, tags and qualifiers, and some that were evicted long ago or used a moment ago.
        chosen = [rng.choice(rows[max(0, i * 12 - 40_000) : i * 12 + 12] or rows) for _ in range(25)]
        cells = [
            Cell(row, b"f%d" % rng.randrange(140), b"q%d" % rng.randrange(300), 1, PUT, row, tags)
            for row in chosen
            for tags in [encode_tags([(1, row), (2, b"t" + row)])]
        ]
        entries_.append(entry(*cells, region=b"region%d" % rng.randrange(40_000), table=b"t%d" % (i % 3)))
    data, offsets = compress(entries_, Encoder(tags=True, codec=None))
    found = read(data, window_bytes=window_bytes)
    assert found.error is None
    assert found.entries == plain(entries_)
    assert read(data, offsets[3000]).entries == plain(entries_[3000:])


@pytest.mark.slow
def test_a_cell_of_a_hundred_megabytes_is_read() -> None:
    big = entry(Cell(b"row", b"f", b"q", 1, PUT, bytes(100 << 20)))
    data, _ = compress([*SAMPLE, big, *SAMPLE], Encoder(tags=True, codec=SNAPPY))
    assert len(data) < 10 << 20
    found = read(data)
    assert found.error is None
    assert found.entries == plain([*SAMPLE, big, *SAMPLE])
