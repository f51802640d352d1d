"""The metadata and the blocks of an HFile, whatever its codec. The cluster tests read HBase's own files."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.growth import LINEAR, growth
from tests.unit.hbase.hfiles.models import random_cells
from tests.unit.hbase.hfiles.reading import read
from tests.unit.hbase.hfiles.writing import write
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.hfiles.blocks import Compression
from walferry.hbase.hfiles.decoding import Follows, cells_of
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.errors import UnreadableHFile
from walferry.hbase.hfiles.opened import (
    DATA_MAGICS,
    INFO_MAGIC,
    TRAILER_BYTES,
    TRAILER_MAGIC,
    UNREADABLE,
    Block,
    HFile,
    HFileInfo,
    decompressed,
    open_hfile,
    read_info,
)
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.wal.header import ValueCodec

BLOOM = b"BLMFMET2" + b"b" * 50
ENTRIES = {b"MAX_SEQ_ID_KEY": (77).to_bytes(8), b"hfile.MAX_TAGS_LEN": (0).to_bytes(4), b"other": b"x" * 300}


def delimited(message: bytes) -> bytes:
    length, left = b"", len(message)
    while left > 0x7F:
        length, left = length + bytes([left & 0x7F | 0x80]), left >> 7
    return length + bytes([left]) + message


def framed(block: bytes, raw: int) -> bytes:
    return struct.pack(">ii", raw, len(block)) + block


COMPRESS = {
    ValueCodec.NONE: lambda data: data,
    ValueCodec.GZ: gzip.compress,
    ValueCodec.SNAPPY: lambda data: framed(pa.compress(data, "snappy", asbytes=True), len(data)),
    ValueCodec.LZ4: lambda data: framed(pa.compress(data, "lz4_raw", asbytes=True), len(data)),
    ValueCodec.ZSTD: lambda data: framed(pa.compress(data, "zstd", asbytes=True), len(data)),
}


def hfile(entries: dict[bytes, bytes], codec: ValueCodec = ValueCodec.NONE, **trailer: object) -> MemoryFile:
    info = pb.FileInfoProto()
    for first, second in entries.items():
        info.map_entry.add(first=first, second=second)
    raw = b"PBUF" + delimited(info.SerializeToString())
    data = COMPRESS[codec](raw)
    block = struct.pack(">8siiqBii", INFO_MAGIC, len(data) + 8, len(raw), -1, 1, 16384, 33 + len(data)) + data + b"checksum"
    block += BLOOM
    body = b"DATABLK*" + b"d" * 100
    end = pb.FileTrailerProto(file_info_offset=len(body), entry_count=5, compression_codec=codec, **trailer)  # type: ignore[arg-type]
    last = TRAILER_MAGIC + delimited(end.SerializeToString())
    return MemoryFile(body + block + last + b"\0" * (TRAILER_BYTES - len(last) - 4) + b"\3\0\0\3")


@pytest.mark.parametrize("codec", COMPRESS)
def test_the_sequence_id_and_tags_are_read_through_every_codec(codec):
    assert read_info(hfile(ENTRIES, codec), "file:/x", "x") == HFileInfo(77, has_tags=False, cells=5)
    tagged = hfile(ENTRIES | {b"hfile.MAX_TAGS_LEN": (9).to_bytes(4)}, codec)
    assert read_info(tagged, "file:/x", "x") == HFileInfo(77, has_tags=True, cells=5)


def test_a_plain_frame_of_zstd_is_read_too(monkeypatch):
    monkeypatch.setitem(COMPRESS, ValueCodec.ZSTD, lambda data: pa.compress(data, "zstd", asbytes=True))
    assert read_info(hfile(ENTRIES, ValueCodec.ZSTD), "file:/x", "x").sequence_id == 77


def test_a_bulk_loaded_file_has_the_sequence_id_of_its_load():
    assert read_info(hfile(ENTRIES), "file:/x", "0123abcd_SeqId_5_").sequence_id == 5
    assert read_info(hfile({}), "file:/x", "0123abcd").sequence_id == -1


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (MemoryFile(b""), "no trailer"),
        (MemoryFile(b"x" * 5000), "no trailer"),
        (hfile(ENTRIES, encryption_key=b"key"), "encrypted"),
        (MemoryFile(hfile(ENTRIES).data.replace(INFO_MAGIC, b"FILEINF9")), "no file info"),
        (MemoryFile(hfile(ENTRIES).data.replace(b"PBUF", b"PBAF")), "not in protobuf"),
        (MemoryFile(hfile(ENTRIES, ValueCodec.GZ).data.replace(b"\x1f\x8b", b"\x1f\x8c")), "incorrect header"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_worse_happens(file, why):
    with pytest.raises(UnreadableHFile, match=f"the metadata of hdfs://nn/x cannot be read: .*{why}"):
        read_info(file, "hdfs://nn/x", "x")


def test_no_cut_and_no_flipped_byte_of_a_file_is_worse_than_unreadable():
    whole = hfile(ENTRIES, ValueCodec.SNAPPY).data
    for at in range(100, len(whole) - TRAILER_BYTES + 40):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        for data in (bytes(broken), whole[:at]):
            try:
                read_info(MemoryFile(data), "x", "x")
            except UnreadableHFile:
                continue


def test_a_file_info_that_unpacks_to_more_than_it_says_is_not_unpacked(monkeypatch):
    monkeypatch.setitem(COMPRESS, ValueCodec.GZ, lambda data: gzip.compress(data + b"\0" * (32 << 20)))
    file = hfile(ENTRIES, ValueCodec.GZ)
    tracemalloc.start()
    with pytest.raises(UnreadableHFile, match="more than the"):
        read_info(file, "x", "x")
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(("before", "why"), [(b"", "10,000 entries"), (b"\x10\x01", "else than entries")])
def test_a_file_info_of_very_many_entries_is_not_parsed(before, why, monkeypatch):
    """Packed, these are 5 KB; parsed, they took a hundred MB."""
    empty = pb.FileInfoProto(map_entry=[pb.BytesBytesPair(first=b"", second=b"")]).SerializeToString()
    raw = b"PBUF" + delimited(before + empty * 500_000)
    monkeypatch.setitem(COMPRESS, ValueCodec.NONE, lambda data: raw)
    file = hfile({})
    tracemalloc.start()
    with pytest.raises(UnreadableHFile, match=why):
        read_info(file, "x", "x")
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@pytest.mark.slow
def test_a_file_info_in_very_many_blocks_takes_time_in_proportion(monkeypatch):
    def framed_singly(data: bytes) -> bytes:
        byte = framed(pa.compress(b"P", "snappy", asbytes=True), 1)
        return byte * len(data)

    monkeypatch.setitem(COMPRESS, ValueCodec.SNAPPY, framed_singly)

    def reading(size: int) -> Callable[[], None]:
        file = hfile({b"x": b"x" * size}, ValueCodec.SNAPPY)

        def read() -> None:
            with pytest.raises(UnreadableHFile, match="not in protobuf"):
                read_info(file, "x", "x")

        return read

    assert growth(reading, 400_000) < LINEAR


@pytest.mark.parametrize("codec", [ValueCodec.SNAPPY, ValueCodec.LZ4, ValueCodec.ZSTD])
def test_a_block_that_hadoop_has_compressed_in_parts_is_refused(codec: ValueCodec) -> None:
    """Its codecs do so with more than 256 kB. Arrow decompresses the first part, and leaves the rest of the memory as it is."""
    name = {ValueCodec.SNAPPY: "snappy", ValueCodec.LZ4: "lz4_raw", ValueCodec.ZSTD: "zstd"}[codec]
    data = bytes(range(256)) * 2_000
    parts = [pa.compress(data[start : start + 218_421], name, asbytes=True) for start in range(0, len(data), 218_421)]
    unit = struct.pack(">i", len(data)) + b"".join(struct.pack(">i", len(part)) + part for part in parts)
    with pytest.raises(UNREADABLE):
        decompressed(unit, len(data), codec)
    whole = pa.compress(data, name, asbytes=True)
    assert decompressed(framed(whole, len(data)), len(data), codec) == data


def test_a_block_of_another_kind_among_the_data_is_refused() -> None:
    data, _ = write(random_cells(3, 60), FileSettings(block_bytes=600))
    file = open_hfile(MemoryFile(data.replace(b"DATABLK*", b"DATABLK?", 2)), "file:/x")
    with pytest.raises(UnreadableHFile, match="file:/x cannot be read: there is no block of data at byte 0"):
        list(file.data_blocks())


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("encoding", Encoding)
def test_data_blocks_are_read_from_a_row_on(encoding: Encoding, compression: Compression) -> None:
    cells = random_cells(5, 4_000)
    data, _ = write(cells, FileSettings(block_bytes=700, encoding=encoding, compression=compression))
    file = open_hfile(MemoryFile(data), "file:/x")
    assert file.cells == len(cells)
    assert (file.has_tags, file.some_tags, file.has_sequence_ids) == (True, True, False)
    every = list(file.data_blocks())
    assert len(every) == len(read(data).data_blocks)
    for at_once in (1, 10_000):
        assert list(file.data_blocks(at_once=at_once)) == every
    firsts = [first_row(block.data, encoding) for block in every]
    for row in [b"", b"a", *(cell.row for cell in cells[::397]), *firsts[::31], b"z"]:
        rest = list(file.data_blocks(row))
        assert rest == every[-len(rest) :]
        assert len(rest) == len(every) or firsts[-len(rest)] <= row, "cells of the row lie in front of the first block"
        assert len(rest) < 3 or firsts[-len(rest) + 2] >= row, "blocks in front of the row are read, too"


def first_row(block: bytes, encoding: Encoding) -> bytes:
    return cells_of(Block(DATA_MAGICS[encoding is not Encoding.NONE], block), Follows(True)).row(0)


def test_an_index_of_several_levels_leads_to_each_row() -> None:
    cells = random_cells(9, 30_000, value=4, tags=False)
    data, _ = write(cells, FileSettings(block_bytes=1))
    file = open_hfile(MemoryFile(data), "file:/x")
    assert file.trailer.num_data_index_levels > 1
    for cell in cells[::1501]:
        first = next(iter(file.data_blocks(cell.row)))
        assert cells_of(first, Follows(True)).row(0) <= cell.row


def test_no_cut_and_no_flipped_byte_of_a_block_is_worse_than_unreadable() -> None:
    whole, _ = write(random_cells(3, 60), FileSettings(block_bytes=600, compression=Compression.SNAPPY))
    for at in range(0, len(whole) - TRAILER_BYTES, 3):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        for data in (bytes(broken), whole[:at] + whole[at + 1 :]):
            try:
                file = open_hfile(MemoryFile(data), "x")
                for row in (b"", b"row-8"):
                    for _ in file.data_blocks(row):
                        pass
            except UnreadableHFile:
                continue


def test_files_of_hbase_1_are_read_unless_their_encoding_is_one_that_hbase_2_does_not_know() -> None:
    file = hfile(ENTRIES)
    of_hbase_1 = MemoryFile(file.data[:-4] + b"\0\0\0\3")
    assert read_info(of_hbase_1, "x", "x") == read_info(file, "x", "x")
    with pytest.raises(UnreadableHFile, match="x cannot be used: its blocks are in the encoding PREFIX_TREE"):
        read_info(hfile({**ENTRIES, b"DATA_BLOCK_ENCODING": b"PREFIX_TREE"}), "x", "x")


@pytest.mark.parametrize(
    ("stored", "name", "number"),
    [
        (struct.pack(">q", 7), "abc", 7),
        (struct.pack(">q", -1), "abc", -1),
        (None, "abc", -1),
        (struct.pack(">q", 7), "abc_SeqId_9_", 9),
        (b"\1" * 9, "abc_SeqId_9_", 9),
        (b"\1" * 9, "abc", None),
        (b"", "abc", None),
        (None, f"abc_SeqId_{'9' * 5000}_", -1),
    ],
)
def test_a_file_s_sequence_id_is_a_number_of_64_bits(stored: bytes | None, name: str, number: int | None) -> None:
    information = {} if stored is None else {b"MAX_SEQ_ID_KEY": stored}
    file = HFile(MemoryFile(b""), "file:/x", pb.FileTrailerProto(), information)
    if number is None:
        with pytest.raises(UnreadableHFile, match="file:/x cannot be read: its sequence id has"):
            file.sequence_id(name)
    else:
        assert file.sequence_id(name) == number
