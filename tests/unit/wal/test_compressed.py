"""Compressed files give the entries that were written to them, from any position, in windows of any size, as far as they go."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import zstandard
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wal.compressing import GZ, LZ4, NONE, SNAPPY, ZSTD, Encoder, compress
from tests.unit.wal.encoder import DELETE, DELETE_FAMILY, PUT, Cell, Entry, encode_header, encode_tags, encode_varint, entry
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
    WalUnsupportedError,
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
    """What a reader gave: keys, cells' bytes, positions before and after each entry; and the error that ended it."""

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
    """None for one of which fields that nobody looks at are broken."""
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


@given(written, st.booleans(), codecs, st.sampled_from([40, 1 << 20]), st.data())
def test_reading_from_a_position_gives_what_lies_behind_it(
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
SOME_QUICKLY = [pytest.param(c, marks=pytest.mark.slow) if c in ("NONE", "LZ4", "SNAPPY") else c for c in CODECS]
SAMPLES = {name: compress(SAMPLE, Encoder(tags=True, codec=codec)) for name, codec in CODECS.items()}


@pytest.mark.parametrize("codec", SOME_QUICKLY)
def test_a_position_that_is_no_entry_s_start_is_refused(codec: str) -> None:
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
def test_whichever_byte_is_wrong_what_lies_before_it_is_right(
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


def test_an_index_that_no_entry_has_is_named_with_where_it_stands() -> None:
    data, offsets = SAMPLES["no codec"]
    at = data.index(b"\x00\x00", offsets[1] + 30)  # the row's
    broken = data[:at] + b"\x12\x34" + data[at + 2 :]
    found = read(broken)
    assert isinstance(found.error, WalCorruptError)
    assert "names an entry that its dictionary does not have" in str(found.error)
    assert f"begins at byte {offsets[1]}" in str(found.error)
    assert found.entries == plain(SAMPLE[:1])


def test_a_value_that_does_not_decompress_is_named_and_what_lies_before_it_is_read() -> None:
    data, offsets = SAMPLES["GZ"]
    at = data.index(b"\x1f\x8b", data.index(b"\x1f\x8b", offsets[1]) + 1)  # the first is of an empty value, which is skipped
    found = read(data[:at] + b"\x00" + data[at + 1 :])
    assert isinstance(found.error, WalCorruptError)
    assert "a value cannot be decompressed" in str(found.error)
    assert f"begins at byte {offsets[1]}" in str(found.error)
    assert found.entries == plain(SAMPLE[:1])


class Lying(Encoder):
    """Stores another length before value number `which`, moved by `by` bytes."""

    def __init__(self, which: int, by: int, **options: Any) -> None:
        super().__init__(**options)
        self._left, self._by = which, by

    def value(self, value: bytes) -> bytes:
        stored = super().value(value)
        self._left -= 1
        if self._left != -1 or self._codec is None:
            return stored
        begin = next(i for i in range(10) if stored[i] < 0x80) + 1
        length = max(len(stored) - begin + self._by, 0)
        return encode_varint(length) + stored[begin:]


DELETES = [
    entry(*(Cell(b"row%d" % (i % 5), b"f", b"q", i, DELETE, b"") for _ in range(i % 3)), sequence_id=i)
    if i % 2
    else entry(Cell(b"row%d" % i, b"f", b"q", i, PUT, b"value %d" % i), Cell(b"row%d" % i, b"f", b"", i, DELETE_FAMILY, b""))
    for i in range(40)
]


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "no codec"])
@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("values", [(1,), pytest.param((0, 7, 20), marks=pytest.mark.slow)])
def test_a_stored_length_that_is_too_long_swallows_no_entry(codec: str, tags: bool, values: tuple[int, ...]) -> None:
    """Whatever it takes along, be it just as many bytes as the entries behind it have."""
    options = {"tags": tags, "codec": CODECS[codec]}
    _, offsets = compress(DELETES, Encoder(**options))
    ends = [b - a for i, a in enumerate(offsets) for b in offsets[i + 1 : i + 4]]
    sound, _ = compress(DELETES, Encoder(**options))
    for which in values:
        for by in sorted({*range(-8, 9), *(end + shift for end in ends for shift in (-4, 0))}):
            data, _ = compress(DELETES, Lying(which, by, **options))
            found = read(data)
            if data != sound:
                assert found.error is not None, (which, by)
                assert found.entries == plain(DELETES)[: len(found.entries)]
            else:
                assert found.entries == plain(DELETES)


@given(written, st.booleans(), codecs.filter(bool), st.integers(0, 20), st.integers(-20, 400), st.sampled_from([40, 1 << 20]))
def test_another_stored_length_gives_an_error_or_the_same_entries(
    written: list[Entry], tags: bool, codec: int, which: int, by: int, window_bytes: int
) -> None:
    found = read(compress(written, Lying(which, by, tags=tags, codec=codec))[0], window_bytes=window_bytes)
    assert found.entries == plain(written)[: len(found.entries)]
    assert found.error or len(found.entries) == len(written)


@pytest.mark.parametrize("window_bytes", [60, 1 << 20])
def test_a_broken_empty_value_is_its_entry_s_own(window_bytes: int) -> None:
    """It may lie where the next entry begins once it is expanded."""
    written = [entry(Cell(b"row%d" % i, b"f", b"q", i, DELETE, b""), sequence_id=i + 1) for i in range(6)]
    _, offsets = compress(written, Encoder(tags=False, codec=GZ))
    data, _ = compress(written, Lying(2, 1, tags=False, codec=GZ))
    found = read(data, window_bytes=window_bytes)
    assert isinstance(found.error, WalCorruptError)
    assert f"begins at byte {offsets[2]}" in str(found.error)
    assert found.entries == plain(written[:2])
    broken = bytearray(compress(written, Encoder(tags=False, codec=GZ))[0])
    broken[offsets[3] - 5] ^= 0xFF  # in the third one's
    assert f"begins at byte {offsets[2]}" in str(read(bytes(broken), window_bytes=window_bytes).error)
    assert read(bytes(broken), offsets[3], window_bytes).entries == plain(written[3:])


def test_a_cell_count_that_lies_is_an_error() -> None:
    lying = entry(Cell(b"r", b"f", b"q", 1, PUT, b"v"))
    lying.key.following_kv_count = 3
    data, offsets = compress([*SAMPLE, lying], Encoder(tags=True, codec=None))
    found = read(data)
    assert isinstance(found.error, WalOverrunError)
    assert found.error.offset == offsets[-2]
    assert found.entries == plain(SAMPLE)


def test_values_of_an_algorithm_that_cannot_be_read_are_named() -> None:
    header = Encoder(tags=True, codec=8).header
    with pytest.raises(WalUnsupportedError, match="by number 8 of HBase's algorithms, which cannot be read; these can: GZ"):
        list(read_windows(MemoryFile(encode_header(header)), "wal", 0, partial_tail="error"))


MANY = [
    entry(
        Cell(b"row%d" % i * (i % 9 + 1), b"f", b"q%d" % (i % 150), i, PUT, b"value %d " % i * 9, encode_tags([(1, b"t%d" % i)])),
        Cell(b"row%d" % i, b"g", b"q", i, PUT, b"another %d " % i * 9),
        sequence_id=i,
    )
    for i in range(80)
]


@pytest.mark.parametrize("codec", ["GZ", "SNAPPY", "LZ4", "ZSTD"])
@pytest.mark.parametrize(("arena", "out"), [(300, 1 << 20), (1 << 20, 500), (300, 500)])
def test_a_broken_value_ends_the_reading_whatever_else_its_pass_stops_for(codec: str, arena: int, out: int) -> None:
    data, offsets = compress(MANY, Encoder(tags=False, codec=CODECS[codec]))
    with small_buffers(arena, out):
        assert read(data).entries == plain(MANY)
    for broken in range(0, len(MANY), 7):
        stored = Encoder(tags=False, codec=CODECS[codec]).value(MANY[broken].cells[1].value)
        spoilt = bytearray(data)
        spoilt[offsets[broken + 1] - len(stored) + 1] ^= 0x55  # of gzip's magic, or of the length that blocks begin with
        for window_bytes in (700, 1 << 20):
            with small_buffers(arena, out):
                found = read(bytes(spoilt), window_bytes=window_bytes)
            assert isinstance(found.error, WalCorruptError)
            assert f"begins at byte {offsets[broken]}" in str(found.error)
            assert found.entries == plain(MANY[:broken])
            assert found.ends == offsets[1 : broken + 1]


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_entries_that_are_found_elsewhere_than_they_were_put_are_not_handed_out(
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


def test_a_cell_count_that_is_no_number_is_none() -> None:
    """As for whoever reads the key once it is expanded."""
    file, _ = compress(SAMPLE, Encoder(tags=True, codec=None), trailer=b"")
    key = b"\x0a\x02\x00\x00" b"\x12\x02\x00\x00" b"\x18\x05\x20\x06" b"\x3a\x01x"  # field 7 as bytes
    found = read(file + encode_varint(len(key)) + key)
    assert found.error is None
    assert [cells for _, cells in found.entries] == [e.cell_bytes() for e in SAMPLE] + [b""]


class WithDictionary(Encoder):
    """As HBase with hbase.io.compress.zstd.dictionary, from value number `first` of the file on."""

    def __init__(self, *, framed: bool, first: int = 0) -> None:
        super().__init__(tags=True, codec=ZSTD)
        trained = zstandard.train_dictionary(2048, [b"value%08d-%d" % (i, i * i) * 3 for i in range(2000)])
        self._compressor = zstandard.ZstdCompressor(dict_data=trained)
        self._framed, self._first, self._values = framed, first, 0

    def value(self, value: bytes) -> bytes:
        self._values += 1
        if self._values <= self._first:
            return super().value(value)
        frame = self._compressor.compress(value)
        data = struct.pack(">ii", len(value), len(frame)) + frame if self._framed else frame
        return encode_varint(len(data)) + data


@pytest.mark.parametrize("framed", [True, False])
def test_values_that_need_a_dictionary_are_no_damage(framed: bool) -> None:
    data, offsets = compress(SAMPLE, WithDictionary(framed=framed))
    found = read(data)
    assert isinstance(found.error, WalUnsupportedError)
    assert "hbase.io.compress.zstd.dictionary" in found.error.reason
    assert offsets[0] < found.error.offset < offsets[1]
    assert found.entries == []


@pytest.mark.parametrize("out", [500, 1 << 20])
def test_a_value_that_claims_to_need_a_dictionary_after_others_that_did_not_is_damage(out: int) -> None:
    data, offsets = compress(MANY, WithDictionary(framed=True, first=80))
    with small_buffers(out=out):
        found = read(data)
    assert isinstance(found.error, WalCorruptError)
    assert f"begins at byte {offsets[40]}" in str(found.error)
    assert found.entries == plain(MANY[:40])


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


def test_long_attributes_take_memory_for_what_they_are() -> None:
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


def test_dictionaries_take_a_quarter_more_than_what_is_in_them() -> None:
    filler = random.Random(1).randbytes(1 << 20)
    sizes = [600, 1800, 1200]  # as rows of different lengths take each other's place
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
        # Mostly new rows, tags and qualifiers, with some of those that are long gone, or were used a moment ago.
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


@pytest.mark.parametrize("window_bytes", [300, 1 << 20])
def test_a_broken_value_before_the_position_is_passed(window_bytes: int) -> None:
    """As the error's advice says: an operator may move the position past what is lost."""
    entries = [entry(Cell(b"row%d" % i, b"f", b"q", 1, PUT, b"value %d " % i * 30), sequence_id=i + 1) for i in range(8)]
    data, offsets = compress(entries, Encoder(tags=False, codec=GZ))
    broken = bytearray(data)
    broken[data.index(b"\x1f\x8b", offsets[3])] ^= 0xFF
    for position in offsets[:4]:
        assert isinstance(read(bytes(broken), position, window_bytes).error, WalCorruptError)
    for i in range(4, 8):
        found = read(bytes(broken), offsets[i], window_bytes)
        assert found.error is None
        assert found.entries == read(data, offsets[i], window_bytes).entries
        assert len(found.entries) == 8 - i
