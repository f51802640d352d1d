"""Many values at a time are decompressed like single ones, and the first broken one is reported by its number."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wal.compressing import GZ, LZ4, NONE, SNAPPY, ZSTD, Encoder
from walferry.wal.codecs.values import BadValue, decompress_values

PLAIN_FRAME = zstandard.ZstdCompressor()
FRAME_WITHOUT_SIZE = zstandard.ZstdCompressor(write_content_size=False)
GAP = 3  # bytes between values in the output, which belong to cells

short = st.binary(max_size=40)
long = st.integers(1, 3000).map(lambda n: b"repeated " * n)
values = st.lists(st.one_of(short, long), max_size=12)


def hadoop_blocks(value: bytes, codec: int, chunk: int) -> bytes:
    data = Encoder(tags=False, codec=codec, chunk=chunk).value(value)
    return data[next(i for i in range(10) if data[i] < 0x80) + 1 :]  # without its length


def compressed(value: bytes, how: str) -> bytes:
    match how:
        case "gzip":
            return gzip.compress(value, mtime=0)
        case "frame":
            return PLAIN_FRAME.compress(value)
        case "frame without its size":
            return FRAME_WITHOUT_SIZE.compress(value)
        case "blocks":
            return hadoop_blocks(value, ZSTD, 1 << 18)
        case "many blocks":
            return hadoop_blocks(value, ZSTD, 100)
        case _:
            raise ValueError(how)


def stored_as(value: bytes, codec: int, how: str) -> bytes:
    if how == "none":
        return value
    if "blocks" in how:
        return hadoop_blocks(value, codec, 100 if how == "many blocks" else 1 << 18)
    return compressed(value, how)


def decompress(codec: int, stored: list[bytes], lengths: list[int]) -> list[bytes]:
    """Decompress, and check that all other bytes of the output stay unchanged. Returns the values."""
    buf = np.frombuffer(b"".join(stored), np.uint8)
    sources = np.cumsum([0, *map(len, stored)])
    targets = GAP + np.cumsum([0, *(length + GAP for length in lengths)])
    out = np.full(targets[-1], 0xAA, np.uint8)
    table = np.array([sources[:-1], np.diff(sources), targets[:-1], lengths], np.int64)
    try:
        decompress_values(codec, buf, out, table)
    finally:
        found = [out[at : at + length].tobytes() for at, length in zip(targets, lengths, strict=False)]
        for at, length in zip(targets, lengths, strict=False):
            out[at : at + length] = 0xAA
        assert (out == 0xAA).all()
        written[:] = found
    return found


written: list[bytes] = []  # by the last call of `decompress`, even if it ended with an error


@given(values)
def test_gzip_members_give_the_values(some: list[bytes]) -> None:
    assert decompress(GZ, [compressed(value, "gzip") for value in some], list(map(len, some))) == some


@given(values, st.data())
def test_zstd_frames_and_blocks_of_any_kind_give_the_values(some: list[bytes], data: st.DataObject) -> None:
    kinds = st.sampled_from(["frame", "frame without its size", "blocks", "many blocks"])
    stored = [compressed(value, data.draw(kinds)) for value in some]
    assert decompress(ZSTD, stored, list(map(len, some))) == some


@pytest.mark.parametrize(
    ("codec", "how"), [(GZ, "gzip"), (ZSTD, "frame"), (ZSTD, "frame without its size"), (ZSTD, "blocks"), (ZSTD, "many blocks")]
)
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "shorter than said", "longer than said"])
@pytest.mark.parametrize("at", [0, 1, 4])
def test_the_first_broken_value_is_named_and_those_before_it_are_there(codec: int, how: str, damage: str, at: int) -> None:
    some = [b"value %d " % i * 20 for i in range(6)]
    stored, lengths = [compressed(value, how) for value in some], list(map(len, some))
    for broken in (at, 5):
        if damage == "cut":
            stored[broken] = stored[broken][:-5]
        elif damage == "flipped":
            stored[broken] = bytes([stored[broken][0] ^ 0x55]) + stored[broken][1:]
        elif damage == "empty":
            stored[broken] = b""
        else:
            lengths[broken] += 1 if damage == "shorter than said" else -1
    with pytest.raises(BadValue) as error:
        decompress(codec, stored, lengths)
    assert error.value.value == at
    assert written[:at] == some[:at]


@pytest.mark.parametrize(("codec", "how"), [(GZ, "gzip"), (ZSTD, "frame without its size"), (ZSTD, "blocks")])
def test_two_wrong_lengths_do_not_cancel_each_other(codec: int, how: str) -> None:
    some = [b"one longer", b"short", b"and so on"]
    lengths = [len(some[0]) - 1, len(some[1]) + 1, len(some[2])]
    with pytest.raises(BadValue) as error:
        decompress(codec, [compressed(value, how) for value in some], lengths)
    assert error.value.value == 0


FORMS = [
    *((GZ, "gzip"), (ZSTD, "frame"), (ZSTD, "frame without its size"), (ZSTD, "blocks"), (ZSTD, "many blocks")),
    *((SNAPPY, "blocks"), (SNAPPY, "many blocks"), (LZ4, "blocks"), (LZ4, "many blocks"), (NONE, "none")),
]


@pytest.mark.parametrize(("codec", "how"), FORMS)
@pytest.mark.parametrize(
    "follows", [b"\0", b"\0" * 4, b"\0" * 8, b"next", gzip.compress(b"", mtime=0), PLAIN_FRAME.compress(b"")]
)
@pytest.mark.parametrize("alone", [True, False])
def test_bytes_that_follow_a_value_are_an_error(codec: int, how: str, follows: bytes, alone: bool) -> None:
    some = [b"value %d " % i * 20 for i in range(1 if alone else 5)]
    stored, lengths = [stored_as(value, codec, how) for value in some], list(map(len, some))
    if how == "many blocks" or (follows == b"\0" * 4 and how == "blocks"):
        follows += b"\0" * 4  # HBase itself ends some with four
    stored[-1] += follows
    with pytest.raises(BadValue) as error:
        decompress(codec, stored, lengths)
    assert error.value.value == len(some) - 1
    assert written[:-1] == some[:-1]


EMPTY = {
    "GZ by Java": (GZ, gzip.compress(b"", mtime=0)),
    "GZ by Java 8": (GZ, bytes.fromhex("1f8b0800000000000000" "0300" "0000000000000000")),
    "GZ, stored": (GZ, bytes.fromhex("1f8b08000000000000ff" "010000ffff" "0000000000000000")),
    "NONE": (NONE, b""),
    "SNAPPY": (SNAPPY, b"\0" * 4),
    "LZ4": (LZ4, b"\0" * 4),
    "ZSTD": (ZSTD, b"\0" * 4),
    "ZSTD frame": (ZSTD, PLAIN_FRAME.compress(b"")),
    "ZSTD frame without its size": (ZSTD, FRAME_WITHOUT_SIZE.compress(b"")),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("follows", [b"", b"\0", b"\0" * 4, b"next", gzip.compress(b"x", mtime=0), PLAIN_FRAME.compress(b"")])
def test_an_empty_value_is_stored_as_one_and_nothing_else(name: str, follows: bytes) -> None:
    codec, empty = EMPTY[name]
    value = b"value" * 9
    full = stored_as(value, codec, {GZ: "gzip", NONE: "none"}.get(codec, "blocks"))
    stored, lengths = [full, empty, full, empty + follows], [len(value), 0, len(value), 0]
    if follows:
        with pytest.raises(BadValue) as error:
            decompress(codec, stored, lengths)
        assert error.value.value == 3
        assert written == [value, b"", value, b""]
    else:
        assert decompress(codec, stored, lengths) == [value, b"", value, b""]


def test_a_frame_that_claims_terabytes_is_refused() -> None:
    frame = bytearray(struct.pack("<IBB", 0xFD2FB528, 0b11000000, 0x58) + struct.pack("<Q", 1 << 42) + b"\x01\x00\x00")
    with pytest.raises(BadValue):
        decompress(ZSTD, [bytes(frame)], [10])


def test_a_gzip_member_is_not_decompressed_beyond_its_cell_s_length() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(BadValue):
            decompress(GZ, [bomb], [10])
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@given(values, st.sampled_from([NONE, SNAPPY, LZ4]), st.sampled_from([50, 1 << 18]))
def test_the_kernels_decompress_values(some: list[bytes], codec: int, chunk: int) -> None:
    stored = [value if codec == NONE else hadoop_blocks(value, codec, chunk) for value in some]
    assert decompress(codec, stored, list(map(len, some))) == some
