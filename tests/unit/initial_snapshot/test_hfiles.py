"""The metadata of an HFile's copy, whatever its codec."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa
import pytest

from tests.unit.hbase.hfiles.test_opened import BLOOM, COMPRESS, ENTRIES, hfile
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.hfiles.errors import UnreadableHFile
from walferry.hbase.hfiles.opened import INFO_MAGIC, TRAILER_BYTES, HFileInfo, read_info, read_information, read_trailer
from walferry.hbase.wal.header import ValueCodec
from walferry.initial_snapshot.hfiles import info_without_numbers


def copied(file: MemoryFile) -> MemoryFile:
    info = info_without_numbers(file, "file:/x", "task 1")
    return MemoryFile(file.data[: info.start] + info.block + file.data[info.end :])


def entries_of(file: MemoryFile) -> dict[bytes, bytes]:
    return {entry.first: entry.second for entry in read_information(file, read_trailer(file)).message.map_entry}


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
