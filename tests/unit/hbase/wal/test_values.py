"""A broken value, or one with bytes after it, is reported by its number, and those before it are there."""

from __future__ import annotations

import gzip
import struct
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import zstandard

from tests.unit.hbase.wal.compressing import GZ, LZ4, NONE, SNAPPY, ZSTD
from tests.unit.hbase.wal.stored_values import FRAME_WITHOUT_SIZE, PLAIN_FRAME, compressed, decompress, stored_as, written
from walferry.hbase.wal.codecs.values import BadValue, decompress_values


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
    "GZ by Java 8": (GZ, bytes.fromhex("1f8b080000000000000003000000000000000000")),
    "GZ, stored": (GZ, bytes.fromhex("1f8b08000000000000ff010000ffff0000000000000000")),
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


def test_no_two_threads_share_a_decompressor_of_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many WALs are searched side by side. In one decompressor their values would become each other's, or end the process."""
    real, users = zstandard.ZstdDecompressor, dict[int, set[int]]()

    class Watched:
        def __init__(self) -> None:
            self._real = real()

        def __getattr__(self, name: str) -> Any:
            users.setdefault(id(self), set()).add(threading.get_ident())
            return getattr(self._real, name)

    monkeypatch.setattr(zstandard, "ZstdDecompressor", Watched)
    together = threading.Barrier(2, timeout=30)

    # Frames in one call, and blocks one by one. Made before, as two threads must not share the tests' compressor either.
    written_as = {value: [compressed(value, how) for how in ("frame", "many blocks")] for value in (b"one" * 500, b"other" * 500)}

    def read(value: bytes) -> None:
        together.wait()
        for frames in written_as[value]:
            stored = np.frombuffer(frames, np.uint8)
            out, table = np.empty(len(value), np.uint8), np.array([[0], [len(stored)], [0], [len(value)]], np.int64)
            decompress_values(ZSTD, stored, out, table)
            assert out.tobytes() == value
        together.wait()  # so that this thread's number is not the other's

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(read, written_as)) == [None, None]
    assert sorted(map(len, users.values())) == [1, 1]
