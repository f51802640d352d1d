"""Files as real as an encoder of the tests makes them, broken in every way: what is read of them is right as far as they are."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.unit.wal.compressing import GZ, LZ4, NONE, SNAPPY, ZSTD, Encoder, compress
from tests.unit.wal.encoder import DELETE, PUT, TRAILER, Cell, Entry, encode_entry, encode_header, encode_tags, entry
from tests.unit.wal.memory_file import MemoryFile
from tests.unit.wal.sealed import MASTER_KEY, encode_sealed, sealed_positions
from walferry.crypto.provider import KeyProvider
from walferry.wal.arrow import decode_window
from walferry.wal.errors import WalError
from walferry.wal.header import TAIL_BYTES, trailer_start
from walferry.wal.reader import read_windows

CODECS = (None, GZ, NONE, SNAPPY, LZ4, ZSTD)
WINDOWS = (50, 700, 1 << 20)
PLAIN, SEALED = "plain", "sealed"
KEYS = KeyProvider("jceks:///no/such/store?passwordEnv=NONE", ["master"])
KEYS._keys = {"master": MASTER_KEY}  # as read from a store
BYTES = (0, 1, 0x7F, 0x80, 0xFF)


@dataclass(frozen=True)
class File:
    """A sound file: the offset after each entry, and each entry's cells as an uncompressed WAL has them."""

    data: bytes
    ends: list[int]
    cells: list[bytes]


def files(rng: random.Random, count: int) -> list[File]:
    """Plain, encrypted and compressed ones, in turns."""
    kinds = {0: PLAIN, 4: SEALED}
    return [_file(rng, kinds.get(n % 7) or Encoder(tags=n % 2 == 0, codec=CODECS[n % 6])) for n in range(count)]


def _file(rng: random.Random, kind: Encoder | str) -> File:
    written = [_entry(rng) for _ in range(rng.randint(1, 8))]
    if isinstance(kind, Encoder):
        data, offsets = compress(written, kind)
    elif kind == SEALED:
        data, offsets = encode_sealed(written), sealed_positions(written)
    else:
        parts = [encode_header(), *map(encode_entry, written)]
        offsets = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
        data = b"".join(parts) + TRAILER
    return File(data, offsets[1:], [e.cell_bytes() for e in written])


def _entry(rng: random.Random) -> Entry:
    made = entry(
        *(
            Cell(
                row=b"row%d" % rng.randrange(5),
                family=rng.choice([b"f", b"g", b""]),
                qualifier=b"q" * rng.randrange(4),
                timestamp=rng.randrange(1 << 40),
                type=rng.choice([PUT, DELETE]),
                value=rng.randbytes(rng.randrange(30)) * rng.choice([0, 1, 9]),
                tags=encode_tags([(rng.randrange(5), rng.randbytes(rng.randrange(6))) for _ in range(rng.randrange(3))]),
            )
            for _ in range(rng.randrange(5))
        ),
        sequence_id=rng.randrange(1 << 30),
    )
    if rng.random() < 0.5:
        made.key.scopes.add(family=b"f", scope_type=1)
    return made


def mutated(rng: random.Random, file: File, other: File) -> tuple[bytes, int]:
    """A broken copy, and up to which offset it is as it was."""
    data, kind = file.data, rng.randrange(4)
    at = rng.randrange(len(data))
    if kind == 0:  # one to three bytes are others
        broken, places = bytearray(data), [rng.randrange(len(data)) for _ in range(rng.randint(1, 3))]
        for place in places:
            broken[place] = rng.choice([*BYTES, rng.randrange(256), broken[place] ^ 1 << rng.randrange(8)])
        return bytes(broken), min(places)
    if kind == 1:
        return data[:at], at
    if kind == 2:  # some bytes are gone, or some are there twice
        other_end = rng.randrange(len(data))
        return data[:at] + data[other_end:], at
    begin = rng.randrange(len(other.data))
    return data[:at] + other.data[begin : begin + rng.randrange(60)] + data[at:], at


def check(data: bytes, sound: int, file: File, window_bytes: int, partial_tail: str) -> bool:
    """Read a broken file; whether that ended with an error. Entries that end before offset `sound` are all there, and right."""
    cells: list[bytes] = []
    failed = False
    try:
        for window in read_windows(
            MemoryFile(data), "wal", 0, window_bytes=window_bytes, partial_tail=partial_tail,  # type: ignore[arg-type]
            unwrap_key=KEYS,
        ):  # fmt: skip
            buf, index = window.buf.tobytes(), window.index
            cells += [buf[start:end] for start, end in zip(index.cells_start, index.cells_end, strict=True)]
            for batch in decode_window(window, "wal"):
                batch.validate()
    except WalError:
        failed = True
    trailer = trailer_start(data[-TAIL_BYTES:], len(data))  # it is looked at first: one that claims too much ends the entries
    whole = sum(end <= min(sound, len(data) if trailer is None else trailer) for end in file.ends)
    assert cells[:whole] == file.cells[:whole], f"{len(cells)} entries were read, {whole} are sound"
    return failed


def fuzz(seed: int, count: int) -> tuple[int, int]:
    """Read `count` broken files; how many these were, and how many ended with an error."""
    rng = random.Random(seed)
    failed, sound = 0, files(rng, 60)
    for n in range(count):
        if n % 2000 == 1999:
            sound = files(rng, 60)
        file = rng.choice(sound)
        data, upto = mutated(rng, file, rng.choice(sound))
        try:
            failed += check(data, upto, file, rng.choice(WINDOWS), rng.choice(["error", "stop"]))
        except Exception as e:
            raise AssertionError(f"file {n} of seed {seed} ({len(data)} bytes, sound up to {upto}): {e!r}\n{data!r}") from e
    return count, failed
