"""Some entries of all kinds, and the reader's results for files with them."""

from dataclasses import dataclass
from uuid import UUID

from tests.unit.hbase.wal.encoder import DELETE_FAMILY, PUT, Cell, Entry, encode_tags, encode_wal, entry
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.strategies import positions
from walferry.hbase.wal.errors import WalError, WalPositionError
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.wal_batches import PartialTail


def sample() -> list[Entry]:
    """Some entries of all kinds, small enough to try every one of their bytes."""
    replicated = entry(Cell(b"row2", b"f", b"", 3, DELETE_FAMILY, b""), region=b"r2", sequence_id=300)
    uuid = UUID(int=1 << 100 | 7)
    replicated.key.cluster_ids.add(least_sig_bits=uuid.int & (1 << 64) - 1, most_sig_bits=uuid.int >> 64)
    replicated.key.scopes.add(family=b"f", scope_type=1)
    return [
        entry(Cell(b"row", b"f", b"q", 1, PUT, b"value"), Cell(b"row", b"f", b"q2", 1, PUT, b"", encode_tags([(8, b"ttl")]))),
        entry(sequence_id=2),
        replicated,
        entry(Cell(b"r", b"f", b"q", 4, PUT, bytes(range(200))), write_time=1700000000000),
    ]


SAMPLE = sample()
SAMPLE_STARTS = positions(SAMPLE)
SAMPLE_BYTES = encode_wal(SAMPLE)


@dataclass
class Read:
    """What a reader returned: each entry's bytes, the positions before and after it, and the error that ended the reading."""

    entries: list[bytes]
    starts: list[int]
    ends: list[int]
    error: WalError | None = None


def read(data: bytes, position: int = 0, wal_batch_bytes: int = 8 << 20, partial_tail: PartialTail = "error") -> Read:
    found = Read([], [], [])
    try:
        for batch in read_wal_batches(
            MemoryFile(data), "wal", position, wal_batch_bytes=wal_batch_bytes, partial_tail=partial_tail
        ):
            assert len(batch.index)
            for start, end in zip(batch.index.entry_start, batch.index.cells_end, strict=True):
                found.entries.append(batch.buf[start:end].tobytes())
            found.starts += batch.positions.tolist()
            found.ends += batch.next_positions.tolist()
    except WalError as e:
        found.error = e
    if found.error is not None and not isinstance(found.error, WalPositionError):
        assert 0 <= found.error.offset <= len(data)
    assert found.ends[:-1] == found.starts[1:]
    assert found.entries == [data[a:b] for a, b in zip(found.starts, found.ends, strict=True)]
    return found
