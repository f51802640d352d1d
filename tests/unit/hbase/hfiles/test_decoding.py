"""Cells in data blocks are found, whatever their encoding, and broken blocks are refused."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from tests.unit.hbase.hfiles.models import random_cells, stored
from tests.unit.hbase.hfiles.writing import CELLS, SETTINGS, write
from tests.unit.hbase.wal.encoder import Cell
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.hfiles.decoding import Cells, Follows, cells_of, joined
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.opened import DATA_MAGICS, Block, open_hfile
from walferry.hbase.hfiles.settings import FileSettings

DATA, ENCODED = DATA_MAGICS


def untagged(cell: Cell) -> bytes:
    return stored(cell)[: -2 - len(cell.tags)]


def contents(found: Cells) -> list[bytes]:
    """The decoded cells."""
    cells = []
    for start in found.starts.tolist():
        key_len, val_len = struct.unpack_from(">ii", found.data.data, start)
        cells.append(found.data[start : start + 8 + key_len + val_len].tobytes())
    return cells


def decoded(blocks: Sequence[Block], follows: Follows) -> Cells:
    return joined([cells_of(block, follows) for block in blocks])


def blocks_of(cells: Sequence[Cell], settings: FileSettings) -> list[Block]:
    return list(open_hfile(MemoryFile(write(cells, settings)[0]), "x").data_blocks())


@settings(deadline=None)
@given(CELLS, SETTINGS)
def test_the_cells_of_a_file_are_those_that_were_written(cells: list[Cell], settings: FileSettings) -> None:
    found = decoded(blocks_of(cells, settings), Follows(True))
    assert contents(found) == [untagged(cell) for cell in cells]
    assert [found.row(i) for i in range(len(found))] == [cell.row for cell in cells]


@pytest.mark.parametrize("encoding", Encoding)
def test_many_cells_are_found_across_blocks(encoding: Encoding) -> None:
    cells = random_cells(11, 5_000)
    blocks = blocks_of(cells, FileSettings(block_bytes=3_000, encoding=encoding))
    assert len(blocks) > 50
    assert contents(decoded(blocks, Follows(True))) == [untagged(cell) for cell in cells]
    assert contents(decoded([], Follows(True))) == []


def vlong(number: int) -> bytes:
    """Hadoop's WritableUtils.writeVLong."""
    if -112 <= number <= 127:
        return struct.pack("b", number)
    size, base = number if number >= 0 else ~number, -112 if number >= 0 else -120
    data = size.to_bytes((size.bit_length() + 7) // 8)
    return struct.pack("b", base - len(data)) + data


NUMBERS = [0, 127, 128, -112, -113, 255, 256, 1 << 31, (1 << 63) - 1, -(1 << 63)]


@pytest.mark.parametrize("tags", [True, False])
def test_sequence_ids_of_any_length_are_passed_over(tags: bool) -> None:
    cells = random_cells(2, len(NUMBERS))[: len(NUMBERS)]
    plain = [stored(cell) if tags else untagged(cell) for cell in cells]
    block = b"".join(data + vlong(number) for data, number in zip(plain, NUMBERS, strict=True))
    follows = Follows(tags, True)
    assert contents(decoded([Block(DATA, block)], follows)) == [untagged(cell) for cell in cells]


@pytest.mark.parametrize("encoding", Encoding)
def test_a_broken_block_is_refused_or_has_other_cells_and_nothing_worse(encoding: Encoding) -> None:
    (block,) = blocks_of(random_cells(3, 24, value=20), FileSettings(encoding=encoding))
    dice = random.Random(4)
    refused = 0
    for at in range(len(block.data)):
        broken = bytearray(block.data)
        broken[at] = dice.randrange(256)
        for data in (bytes(broken), block.data[:at]):
            for follows in (Follows(True), Follows(), Follows(True, True)):
                try:
                    found = decoded([Block(block.magic, data)], follows)
                except ValueError:
                    refused += 1
                else:
                    assert all(0 <= start < len(found.data) for start in found.starts.tolist())
                    contents(found)
    assert refused > len(block.data)


def test_memory_that_a_block_only_claims_to_need_is_not_kept() -> None:
    cells = random_cells(3, 20)
    (block,) = blocks_of(cells, FileSettings(encoding=Encoding.FAST_DIFF))
    claims = block.data[:2] + struct.pack(">i", 200 << 20) + block.data[6:]
    assert len(cells_of(Block(block.magic, claims), Follows(True)).data) == sum(len(stored(cell)) for cell in cells)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (b"\0\x05" + bytes(20), "5 is not a valid Encoding"),
        (b"\0\4", "too short"),
        (b"\0\7" + struct.pack(">ii", 0, 999), "broken"),
        (b"\0\4" + struct.pack(">i", -1), "has -1 bytes"),
        (b"\0\4" + struct.pack(">i", 1 << 30), "has 1,073,741,824 bytes"),
        (b"\0\4" + struct.pack(">i", 10) + b"\0\x20\x05\0" + bytes(40), "FAST_DIFF is broken"),
    ],
)
def test_what_is_wrong_with_an_encoded_block_is_told(block: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decoded([Block(ENCODED, block)], Follows())
