"""Breaks realistic files in every way, and checks that everything undamaged in them is read correctly.

All entries before the damage must be found and be right. So must each later entry that is found where one was and whose bytes are
undamaged. In a compressed file, only the parts of later entries count that do not depend on the dictionaries, which may be
damaged. And nothing may come from uninitialized memory.
"""

from __future__ import annotations

import itertools
import random
import struct
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from tests.unit.hbase.wal.compressing import GZ, LZ4, NONE, SNAPPY, ZSTD, Encoder, compress
from tests.unit.hbase.wal.encoder import (
    DELETE,
    MAXIMUM,
    MINIMUM,
    PUT,
    TRAILER,
    Cell,
    Entry,
    encode_entry,
    encode_header,
    encode_tags,
    entry,
)
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.sealed import MASTER_KEY, encode_sealed, sealed_positions
from tests.unit.hbase.wal.small_buffers import filled_buffers, small_buffers
from walferry.hbase.crypto.provider import KeyProvider
from walferry.hbase.wal.arrow import decode_wal_batch
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.header import TAIL_BYTES, trailer_start
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.wal_batches import PartialTail

CODECS = (None, GZ, NONE, SNAPPY, LZ4, ZSTD)
WAL_BATCHES = (50, 700, 1 << 20)
PLAIN, SEALED = "plain", "sealed"
KEYS = KeyProvider("jceks:///no/such/store?passwordEnv=NONE", ["master"])
KEYS._keys = {"master": MASTER_KEY}  # as if read from a store
BYTES = (0, 1, 0x7F, 0x80, 0xFF)


@dataclass(frozen=True)
class File:
    """A sound file: the offsets of each entry and of the last one's end, and each entry's uncompressed cells."""

    data: bytes
    offsets: list[int]
    cells: list[bytes]
    compressed: bool


@dataclass(frozen=True)
class Piece:
    """An undamaged piece of a broken file: its bytes `begin` to `end` were at `begin + shift` in the sound file."""

    begin: int
    end: int
    shift: int


@dataclass(frozen=True)
class Read:
    """What a reader returned: each entry's offsets and cells, and the error that ended the reading."""

    entries: list[tuple[int, int, bytes]]
    error: WalError | None


def files(rng: random.Random, count: int) -> list[File]:
    """Make plain, encrypted and compressed files in turn."""
    kinds = {0: PLAIN, 4: SEALED}
    return [_file(rng, kinds.get(n % 7) or Encoder(tags=n % 2 == 0, codec=CODECS[n % 6])) for n in range(count)]


def _file(rng: random.Random, kind: Encoder | str) -> File:
    count, rows = rng.choice([*[(rng.randint(1, 8), 5)] * 4, (rng.randint(30, 60), 1000)])
    written = [_entry(rng, rows) for _ in range(count)]
    if isinstance(kind, Encoder):
        data, offsets = compress(written, kind)
    elif kind == SEALED:
        data, offsets = encode_sealed(written), sealed_positions(written)
    else:
        parts = [encode_header(), *map(encode_entry, written)]
        offsets = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
        data = b"".join(parts) + TRAILER
    return File(data, offsets, [e.cell_bytes() for e in written], isinstance(kind, Encoder))


def _entry(rng: random.Random, rows: int) -> Entry:
    made = entry(
        *(
            Cell(
                row=b"row%d" % rng.randrange(rows),
                family=rng.choice([b"f", b"g", b""]),
                qualifier=b"q" * rng.randrange(4),
                timestamp=rng.randrange(1 << 40),
                type=rng.choice([PUT, PUT, DELETE, DELETE, MAXIMUM, MINIMUM]),
                value=rng.randbytes(rng.randrange(30)) * rng.choice([0, 1, 9]),
                tags=encode_tags([(rng.randrange(5), rng.randbytes(rng.randrange(6))) for _ in range(rng.randrange(3))]),
            )
            for _ in range(rng.randrange(5))
        ),
        sequence_id=rng.randrange(1 << 30),
    )
    if rng.random() < 0.5:
        made.key.scopes.add(family=b"f", scope_type=1)
    for _ in range(rng.choice([0, 0, 1, 3])):
        made.key.extended_attributes.add(key="k", value=rng.choice([b"value", rng.randbytes(rng.randint(1, 400))]))
    return made


def mutated(rng: random.Random, file: File, other: File) -> tuple[bytes, list[Piece]]:
    """Make a broken copy. Returns it with its undamaged pieces, the first of which begins with the file."""
    data, kind = file.data, rng.randrange(4)
    at = rng.randrange(len(data))
    if kind == 0:  # one to three bytes change
        broken, places = bytearray(data), sorted(rng.sample(range(len(data)), rng.randint(1, 3)))
        for place in places:
            broken[place] = rng.choice([*BYTES, rng.randrange(256), broken[place] ^ 1 << rng.randrange(8)])
        edges = zip([0, *(place + 1 for place in places)], [*places, len(data)], strict=True)
        return bytes(broken), [Piece(begin, end, 0) for begin, end in edges]
    if kind == 1:
        return data[:at], [Piece(0, at, 0)]
    if kind == 2:  # some bytes are lost or doubled
        other_end = rng.randrange(len(data))
        return data[:at] + data[other_end:], [Piece(0, at, 0), Piece(at, at + len(data) - other_end, other_end - at)]
    begin = rng.randrange(len(other.data))
    spliced = other.data[begin : begin + rng.randrange(60)]
    broken_length = len(data) + len(spliced)
    return data[:at] + spliced + data[at:], [Piece(0, at, 0), Piece(at + len(spliced), broken_length, -len(spliced))]


def read(data: bytes, wal_batch_bytes: int, partial_tail: PartialTail) -> Read:
    entries: list[tuple[int, int, bytes]] = []
    try:
        for wal_batch in read_wal_batches(
            MemoryFile(data), "wal", 0, wal_batch_bytes=wal_batch_bytes, partial_tail=partial_tail, unwrap_key=KEYS
        ):
            buf, index = wal_batch.buf.tobytes(), wal_batch.index
            cells = (buf[start:end] for start, end in zip(index.cells_start, index.cells_end, strict=True))
            entries += zip(wal_batch.positions.tolist(), wal_batch.next_positions.tolist(), cells, strict=True)
            with suppress(WalError):  # it looks into keys, unlike reading
                for batch in decode_wal_batch(wal_batch, "wal"):
                    batch.validate()
    except WalError as e:
        return Read(entries, e)
    return Read(entries, None)


def check(found: Read, data: bytes, pieces: list[Piece], file: File) -> None:
    """Check what was read of a broken file, as the module's docstring says."""
    sound, entries = pieces[0].end, found.entries
    trailer = trailer_start(data[-TAIL_BYTES:], len(data))  # examined first: a trailer that claims too much ends the entries
    whole = sum(end <= min(sound, len(data) if trailer is None else trailer) for end in file.offsets[1:])
    expected = list(zip(file.offsets, file.offsets[1:], file.cells, strict=False))
    assert entries[:whole] == expected[:whole], f"{len(entries)} entries were read, {whole} are sound"
    for (_, end, _), (start, _, _) in itertools.pairwise(entries):
        assert start == end, "entries lie one behind the other"
    if found.error and entries:
        assert found.error.offset >= entries[-1][1], "the error lies in or before an entry that was handed out"
    if sound < file.offsets[0]:
        return  # with another header the bytes have another meaning
    originals = {(start, end): cells for start, end, cells in expected}
    for start, end, cells in entries[whole:]:
        for piece in pieces:
            original = originals.get((start + piece.shift, end + piece.shift))
            if original is not None and piece.begin <= start and end <= piece.end:
                part = _independent if file.compressed else bytes
                assert part(cells) == part(original), f"the entry from {start} to {end} is undamaged"


def _independent(cells: bytes) -> list[tuple[int, bytes, bytes]]:
    """The parts of each cell that a compressed file has outside the dictionaries: its key's length, timestamp and type, value."""
    found = []
    pos = 0
    while pos < len(cells):
        length, key_len, value_len = struct.unpack_from(">iii", cells, pos)
        value = pos + 12 + key_len
        found.append((key_len, cells[value - 9 : value], cells[value : value + value_len]))
        pos += 4 + length
    return found


def fuzz(seed: int, count: int) -> tuple[int, int]:
    """Read `count` broken files, half of them with small buffers. Returns how many were read and how many ended with an error."""
    rng = random.Random(seed)
    failed, sound = 0, files(rng, 60)
    for n in range(count):
        if n % 2000 == 1999:
            sound = files(rng, 60)
        file = rng.choice(sound)
        data, pieces = mutated(rng, file, rng.choice(sound))
        tail: PartialTail = rng.choice(["error", "stop"])
        wal_batch_bytes = rng.choice(WAL_BATCHES)
        try:
            with small_buffers(rng.choice([100, 400]), rng.choice([200, 1000])) if n % 2 else nullcontext():
                with filled_buffers(0x55):
                    found = read(data, wal_batch_bytes, tail)
                check(found, data, pieces, file)
                if n % 2 and file.compressed:
                    with filled_buffers(0xAA):
                        assert read(data, wal_batch_bytes, tail).entries == found.entries, "what was read was never written"
        except Exception as e:
            raise AssertionError(f"file {n} of seed {seed} ({len(data)} bytes): {e!r}\n{pieces}\n{data!r}") from e
        failed += found.error is not None
    return count, failed
