"""Compressed files, and the reader's results for them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from google.protobuf.message import DecodeError
from hypothesis import strategies as st

from tests.unit.hbase.wal.compressing import GZ, LZ4, NONE, SNAPPY, ZSTD, Encoder, compress
from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, encode_tags, entry
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.strategies import entries
from walferry.base.protos.hbase_pb2 import WALKey
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.wal_batches import PartialTail

CODECS = {"no codec": None, "GZ": GZ, "NONE": NONE, "SNAPPY": SNAPPY, "LZ4": LZ4, "ZSTD": ZSTD}
codecs = st.sampled_from(list(CODECS.values()))
rng = random.Random(5)
WORDS = [bytes(rng.randrange(256) for _ in range(n % 7 + 1)) for n in range(12)]
words = st.sampled_from(WORDS)
# Few different rows, families, qualifiers and tags, so that most are in the dictionaries.
repeating_cells = st.builds(
    Cell,
    row=words,
    family=words,
    qualifier=st.one_of(words, st.just(b"")),
    timestamp=st.integers(0, 1 << 40),
    type=st.just(PUT),
    value=st.one_of(st.binary(max_size=50), st.builds(lambda w, n: w * n, words, st.integers(0, 200))),
    tags=st.lists(st.tuples(st.integers(0, 3), words), max_size=4).map(encode_tags),
)
repeating = st.builds(
    lambda cells, region, table: entry(*cells, region=region, table=table),
    st.lists(repeating_cells, max_size=6),
    st.sampled_from([b"r1", b"r2"]),
    st.sampled_from([b"t", b"ns:u"]),
)
written = st.lists(st.one_of(repeating, entries()), max_size=12)


@dataclass
class Read:
    """What a reader returned: keys, cells' bytes, positions before and after each entry, and the error that ended the reading."""

    entries: list[tuple[WALKey | None, bytes]]
    starts: list[int]
    ends: list[int]
    error: WalError | None = None


def read(data: bytes, position: int = 0, wal_batch_bytes: int = 1 << 20, partial_tail: PartialTail = "error") -> Read:
    found = Read([], [], [])
    try:
        for batch in read_wal_batches(
            MemoryFile(data), "wal", position, wal_batch_bytes=wal_batch_bytes, partial_tail=partial_tail
        ):
            index, buf = batch.index, batch.buf.tobytes()
            assert len(index)
            for i in range(len(index)):
                key = _key(buf[index.key_start[i] : index.key_end[i]])
                found.entries.append((key, buf[index.cells_start[i] : index.cells_end[i]]))
            found.starts += batch.positions.tolist()
            found.ends += batch.next_positions.tolist()
    except WalError as e:
        found.error = e
    return found


def _key(data: bytes) -> WALKey | None:
    """Parse a key, or return None if fields are broken that the reader does not look at."""
    try:
        return WALKey.FromString(data)
    except DecodeError:
        return None


def plain(written: Iterable[Entry]) -> list[tuple[WALKey, bytes]]:
    return [(e.key, e.cell_bytes()) for e in written]


SAMPLE = [
    entry(Cell(b"row", b"f", b"q", 1, PUT, b"value" * 20, encode_tags([(8, b"ttl"), (9, b"acl"), (8, b"ttl")]))),
    entry(Cell(b"row", b"f", b"q", 2, PUT, b"", encode_tags([(9, b"acl")])), Cell(b"row2", b"g", b"", 2, PUT, b"x" * 300)),
    entry(sequence_id=3),
    entry(Cell(b"row", b"g", b"q", 4, PUT, b"value"), table=b"ns:u"),
]
SAMPLE[1].key.scopes.add(family=b"f", scope_type=1)
SAMPLE[1].key.extended_attributes.add(key="k", value=b"t")
SOME_QUICKLY = [pytest.param(c, marks=pytest.mark.slow) if c in ("NONE", "LZ4", "SNAPPY", "ZSTD") else c for c in CODECS]
SAMPLES = {name: compress(SAMPLE, Encoder(tags=True, codec=codec)) for name, codec in CODECS.items()}
