"""The metadata of an HFile, whatever its codec. The cluster tests read HBase's own files."""

from __future__ import annotations

import gzip
import struct
import time
import tracemalloc
import zlib

import pyarrow as pa
import pytest

from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.wal.header import ValueCodec
from walferry.initial_snapshot import hfiles
from walferry.initial_snapshot.hfiles import INFO_MAGIC, TRAILER_BYTES, TRAILER_MAGIC, HFileInfo, info_without_numbers, read_info
from walferry.load.errors import UnreadableHFile

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
def test_a_file_info_in_very_many_blocks_takes_no_long_time(monkeypatch):
    def framed_singly(data: bytes) -> bytes:
        byte = framed(pa.compress(b"P", "snappy", asbytes=True), 1)
        return byte * len(data)

    monkeypatch.setitem(COMPRESS, ValueCodec.SNAPPY, framed_singly)
    file = hfile({b"x": b"x" * 1_000_000}, ValueCodec.SNAPPY)
    began = time.process_time()
    with pytest.raises(UnreadableHFile, match="not in protobuf"):
        read_info(file, "x", "x")
    assert time.process_time() - began < 10


def copied(file: MemoryFile) -> MemoryFile:
    info = info_without_numbers(file, "file:/x", "task 1")
    return MemoryFile(file.data[: info.start] + info.block + file.data[info.end :])


def entries_of(file: MemoryFile) -> dict[bytes, bytes]:
    return {entry.first: entry.second for entry in hfiles._info(file, hfiles._trailer(file)).message.map_entry}


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_copy_has_all_but_the_source_s_numbers_and_counts_as_bulk_loaded(codec):
    file = hfile(ENTRIES | {b"SKIP_RESET_SEQ_ID": b"\xff", b"MAX_MEMSTORE_TS_KEY": b"12345678"}, codec)
    copy = copied(file)
    assert read_info(copy, "x", "0123abcd") == HFileInfo(-1, has_tags=False, cells=5)
    entries = entries_of(copy)
    kept = {name: ENTRIES[name] for name in (b"hfile.MAX_TAGS_LEN", b"other")}
    assert len(entries.pop(b"BULKLOAD_TIMESTAMP")) == 8
    assert entries == kept | {b"MAX_MEMSTORE_TS_KEY": b"12345678", b"BULKLOAD_SOURCE_TASK": b"task 1"}
    assert copy.data.startswith(file.data[: file.data.index(INFO_MAGIC)])
    assert copy.data.endswith(BLOOM + file.data[-TRAILER_BYTES:])


def test_the_checksums_of_a_copy_s_info_are_hbase_s():
    copy = copied(hfile(ENTRIES | {b"long": bytes(range(256)) * 200}))
    block = copy.data[copy.data.index(INFO_MAGIC) : copy.data.index(BLOOM)]
    _, on_disk, _, _, kind, checked, with_header = struct.unpack(">8siiqBii", block[:33])
    assert (kind, checked, 33 + on_disk, len(block)) == (1, 16384, len(block), with_header + 4 * 4)
    parts = [block[start : min(start + checked, with_header)] for start in range(0, with_header, checked)]
    assert block[with_header:] == b"".join(struct.pack(">I", zlib.crc32(part)) for part in parts)


def test_a_plain_frame_of_zstd_stays_one(monkeypatch):
    monkeypatch.setitem(COMPRESS, ValueCodec.ZSTD, lambda data: pa.compress(data, "zstd", asbytes=True))
    copy = copied(hfile(ENTRIES, ValueCodec.ZSTD))
    assert entries_of(copy)[b"other"] == ENTRIES[b"other"]
    assert copy.data[copy.data.index(INFO_MAGIC) + 33 :].startswith(b"\x28\xb5\x2f\xfd")


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (MemoryFile(b"x" * 5000), "no trailer"),
        (MemoryFile(hfile(ENTRIES).data[:-4] + b"\0\0\0\2"), "no checksums"),
        (hfile(ENTRIES | {b"key": b"k" * (128 << 10)}, ValueCodec.SNAPPY), "too many for one block"),
    ],
)
def test_a_file_that_cannot_be_written_so_is_not_copied(file, why):
    with pytest.raises(UnreadableHFile, match=why):
        info_without_numbers(file, "x", "task")


def test_no_cut_and_no_flipped_byte_of_a_file_makes_a_copy_fail_otherwise():
    whole = hfile(ENTRIES, ValueCodec.GZ).data
    for at in range(100, len(whole) - TRAILER_BYTES + 40):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        for data in (bytes(broken), whole[:at]):
            try:
                info_without_numbers(MemoryFile(data), "x", "task")
            except UnreadableHFile:
                continue
