"""Reads HFiles in plain Python, after the format's description, and checks all that it can."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from google.protobuf.proto import parse_length_prefixed

from tests.unit.hbase.hfiles.models import split_stored
from tests.unit.hbase.wal.encoder import Cell
from walferry.base.protos import hbase_pb2 as pb

HEADER = struct.Struct(">8siiqBii")
NONE, GZ, SNAPPY, LZ4 = 2, 1, 3, 4


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@dataclass(frozen=True)
class Block:
    magic: bytes
    offset: int
    disk_bytes: int  # with header and checksums
    data: bytes  # not compressed


@dataclass(frozen=True)
class IndexedKey:
    key: bytes
    offset: int
    disk_bytes: int


@dataclass(frozen=True)
class HFile:
    trailer: pb.FileTrailerProto
    info: dict[bytes, bytes]
    blocks: tuple[Block, ...]  # all of them, as they lie in the file

    def of_kind(self, magic: bytes) -> list[Block]:
        return [block for block in self.blocks if block.magic == magic]

    @property
    def data_blocks(self) -> list[Block]:
        return [block for block in self.blocks if block.magic.startswith(b"DATABLK")]

    @property
    def cells(self) -> list[Cell]:
        return [cell for block in self.data_blocks for cell in cells_of(block)]

    def indexed(self) -> list[IndexedKey]:
        """The data blocks to which the index leads from its root, in order."""
        root = next(block for block in self.blocks if block.offset == self.trailer.load_on_open_data_offset)
        entries = list(root_entries(root.data, self.trailer.data_index_count))
        for _ in range(self.trailer.num_data_index_levels - 1):
            entries = [below for entry in entries for below in non_root_entries(self._at(entry))]
        return entries

    def _at(self, entry: IndexedKey) -> Block:
        block = next(block for block in self.blocks if block.offset == entry.offset)
        assert block.disk_bytes == entry.disk_bytes
        return block


def read(data: bytes, *, slow_checksums: bool = True) -> HFile:
    """The file's parts. CRC32C is only checked if `slow_checksums`."""
    tail = data[-4096:]
    assert tail[:8] == b'TRABLK"$'
    assert tail[-4:] == b"\3\0\0\3"
    trailer = parse_length_prefixed(pb.FileTrailerProto, io.BytesIO(tail[8:]))
    assert trailer is not None
    blocks, at = [], 0
    previous: dict[bytes, int] = {}
    while at < len(data) - 4096:
        blocks.append(_block(data, at, trailer.compression_codec, previous, slow_checksums))
        at += blocks[-1].disk_bytes
    assert at == len(data) - 4096
    (info,) = (block.data for block in blocks if block.offset == trailer.file_info_offset)
    assert info[:4] == b"PBUF"
    message = parse_length_prefixed(pb.FileInfoProto, io.BytesIO(info[4:]))
    assert message is not None
    names = [entry.first for entry in message.map_entry]
    assert names == sorted(names)
    return HFile(trailer, {entry.first: entry.second for entry in message.map_entry}, tuple(blocks))


def _block(data: bytes, at: int, codec: int, previous: dict[bytes, int], slow_checksums: bool) -> Block:
    magic, disk, raw, before, kind, per_checksum, data_end = HEADER.unpack_from(data, at)
    end = at + HEADER.size + disk
    assert per_checksum == 16384
    assert before == previous.get(magic, -1)
    previous[magic] = at
    checked = data[at : at + data_end]
    if kind == 1 or slow_checksums:
        crc = zlib.crc32 if kind == 1 else crc32c
        crcs = [crc(checked[start : start + per_checksum]) for start in range(0, len(checked), per_checksum)]
        assert data[at + data_end : end] == struct.pack(f">{len(crcs)}I", *crcs)
    stored = checked[HEADER.size :]
    unpacked = _unpacked(stored, codec)
    assert len(unpacked) == raw
    return Block(magic, at, end - at, unpacked)


def _unpacked(stored: bytes, codec: int) -> bytes:
    if codec == NONE:
        return stored
    if codec == GZ:
        return zlib.decompress(stored, wbits=31)
    (raw,) = struct.unpack_from(">i", stored)
    parts, at = [], 4
    while at < len(stored):
        (length,) = struct.unpack_from(">i", stored, at)
        block = stored[at + 4 : at + 4 + length]
        left = min(raw - sum(map(len, parts)), 128 << 10)
        parts.append(bytes(pa.decompress(block, left, {SNAPPY: "snappy", LZ4: "lz4_raw"}[codec], asbytes=True)))
        at += 4 + length
    assert sum(map(len, parts)) == raw
    return b"".join(parts)


def root_entries(data: bytes, count: int) -> Iterator[IndexedKey]:
    at = 0
    for _ in range(count):
        offset, disk_bytes = struct.unpack_from(">qi", data, at)
        length, at = _vint(data, at + 12)
        yield IndexedKey(data[at : at + length], offset, disk_bytes)
        at += length


def non_root_entries(block: Block) -> Iterator[IndexedKey]:
    (count,) = struct.unpack_from(">i", block.data)
    starts = struct.unpack_from(f">{count + 1}i", block.data, 4)
    first = 8 + 4 * count
    assert len(block.data) == first + starts[-1]
    for start, end in pairwise(starts):
        offset, disk_bytes = struct.unpack_from(">qi", block.data, first + start)
        yield IndexedKey(block.data[first + start + 12 : first + end], offset, disk_bytes)


def _vint(data: bytes, at: int) -> tuple[int, int]:
    if data[at] < 128:
        return data[at], at + 1
    width = 0x90 - data[at]
    return int.from_bytes(data[at + 1 : at + 1 + width]), at + 1 + width


def murmur(key: bytes, seed: int) -> int:
    """MurmurHash 2.0 with signed last bytes."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    value = seed ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * multiplier & mask
        value = value * multiplier & mask ^ (word ^ word >> 24) * multiplier & mask
    if rest := key[whole:]:
        for i, byte in enumerate(rest):
            value ^= (byte - 256 if byte > 127 else byte) << 8 * i & mask
        value = value * multiplier & mask
    value = (value ^ value >> 13) * multiplier & mask
    return value ^ value >> 15


class BloomFilter:
    """A bloom filter of a file: `key in filter` is never wrongly False."""

    def __init__(self, file: HFile, magic: bytes) -> None:
        (meta,) = file.of_kind(magic)
        head = struct.Struct(">iqiiqqi")
        version, self.size, self.hashes, hash_type, self.keys, self.max_keys, count = head.unpack_from(meta.data)
        assert (version, hash_type) == (3, 1)
        length, at = _vint(meta.data, head.size)
        self.comparator = meta.data[at : at + length]
        self.chunks = list(root_entries(meta.data[at + length :], count))
        self._bits = [next(block.data for block in file.blocks if block.offset == chunk.offset) for chunk in self.chunks]
        assert self.size == sum(map(len, self._bits))

    def __contains__(self, key: bytes) -> bool:
        (chunk,) = [i for i, c in enumerate(self.chunks) if c.key <= key][-1:] or [0]
        return self.may_have(key, chunk)

    def may_have(self, key: bytes, chunk: int) -> bool:
        """Return whether a chunk may have a key."""
        bits = self._bits[chunk]
        first = murmur(key, 0)
        second = murmur(key, first)
        for i in range(self.hashes):
            signed = (first + i * second & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
            bit = abs(signed) % (8 * len(bits))
            if not bits[bit // 8] >> bit % 8 & 1:
                return False
        return True


def cells_of(block: Block) -> list[Cell]:
    """The cells of a data block, decoded."""
    if block.magic == b"DATABLK*":
        return split_stored(block.data)
    encoding, raw = struct.unpack_from(">hi", block.data)
    if encoding == 7:
        return _cells_of_rows(block.data)
    cells = list(_Decoder(block.data[6:]).cells({2: _Decoder.prefix, 3: _Decoder.diff, 4: _Decoder.fast_diff}[encoding]))
    assert raw == sum(8 + 12 + len(c.row + c.family + c.qualifier + c.value) + 2 + len(c.tags) for c in cells)
    return cells


def _cells_of_rows(data: bytes) -> list[Cell]:
    """The cells of a block with an index of its rows."""
    (length,) = struct.unpack_from(">i", data, len(data) - 4)
    (rows,) = struct.unpack_from(">i", data, 2 + length)
    offsets = struct.unpack_from(f">{rows}i", data, 6 + length)
    assert len(data) == 2 + length + 4 + 4 * rows + 4
    cells = data[2 : 2 + length]
    split = [split_stored(cells[start:end]) for start, end in pairwise([*offsets, length])]
    assert all(len({cell.row for cell in row}) == 1 for row in split)
    assert len({row[0].row for row in split}) == rows
    return [cell for row in split for cell in row]


class _Decoder:
    """Decodes a block, whose cells are (key, value) here."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.family = b""

    def cells(self, decode) -> Iterator[Cell]:
        key, value = b"", b""
        if decode is _Decoder.diff:
            self.family = self.take(1 + self.data[0])
        while self.at < len(self.data):
            key, value = decode(self, key, value)
            tags = self.take(self.varint())
            flat = struct.pack(">ii", len(key), len(value)) + key + value + len(tags).to_bytes(2) + tags
            yield from split_stored(flat)

    def prefix(self, key: bytes, value: bytes) -> tuple[bytes, bytes]:
        rest, value_len, common = self.varint(), self.varint(), self.varint()
        return key[:common] + self.take(rest), self.take(value_len)

    def diff(self, key: bytes, value: bytes) -> tuple[bytes, bytes]:
        flags = self.take(1)[0]
        key_len = len(key) if flags & 1 else self.varint()
        value_len = len(value) if flags & 2 else self.varint()
        start = self.row_and_qualifier(key, self.varint(), key_len)
        time = int.from_bytes(self.take((flags >> 4 & 7) + 1), "little") * (-1 if flags & 128 else 1)
        if flags & 8:
            time = int.from_bytes(key[-9:-1]) - time
        kind = key[-1:] if flags & 4 else self.take(1)
        return start + time.to_bytes(8) + kind, self.take(value_len)

    def fast_diff(self, key: bytes, value: bytes) -> tuple[bytes, bytes]:
        flags = self.take(1)[0]
        key_len = len(key) if flags & 8 else self.varint()
        value_len = len(value) if flags & 16 else self.varint()
        common = self.varint()
        if not key:
            return self.take(key_len), self.take(value_len)
        start = self.row_and_qualifier(key, common, key_len)
        time = key[-9:-1][: flags & 7] + self.take(8 - (flags & 7))
        kind = key[-1:] if flags & 32 else self.take(1)
        return start + time + kind, value if flags & 64 else self.take(value_len)

    def row_and_qualifier(self, key: bytes, common: int, key_len: int) -> bytes:
        """The key up to its timestamp."""
        start = key[:common]
        row_len = int.from_bytes(start[:2]) if common >= 2 else None
        if row_len is not None and common >= 2 + row_len:
            return start + self.take(key_len - 9 - common)
        family = self.family if not key else key[2 + int.from_bytes(key[:2]) :][: 1 + key[2 + int.from_bytes(key[:2])]]
        start += self.take(2 - common) if common < 2 else b""
        start += self.take(2 + int.from_bytes(start[:2]) - len(start)) + family
        return start + self.take(key_len - 9 - len(start))

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def take(self, length: int) -> bytes:
        taken = self.data[self.at : self.at + length]
        assert len(taken) == length
        self.at += length
        return taken
