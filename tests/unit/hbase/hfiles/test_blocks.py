"""Checksums are RFC 3720's and zlib's, one for each 16 KB."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.hfiles.reading import crc32c
from walferry.hbase.hfiles.blocks import Checksum, checksums


def of(kind: Checksum, data: bytes) -> list[int]:
    made = checksums(kind, np.frombuffer(data, np.uint8))
    return list(struct.unpack(f">{len(made) // 4}I", made))


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
    ],
)
def test_crc32c_gives_the_checksums_of_its_specification(data: bytes, crc: int) -> None:
    assert of(Checksum.CRC32C, data) == [crc] == [crc32c(data)]


@given(st.binary(max_size=100))
def test_crc32c_is_the_same_bit_by_bit(data: bytes) -> None:
    assert of(Checksum.CRC32C, data) == ([crc32c(data)] if data else [])


@pytest.mark.parametrize("size", [1, 16_383, 16_384, 16_385, 40_000])
def test_there_is_one_checksum_of_each_16_kb(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    parts = [data[start : start + 16_384] for start in range(0, size, 16_384)]
    assert of(Checksum.CRC32, data) == [zlib.crc32(part) for part in parts]
    assert of(Checksum.CRC32C, data) == [crc32c(part) for part in parts]
