"""Cells become columns of bounded size."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import PUT, Cell, encode_wal, entry
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.hbase.wal.arrow import read_batches


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=60), st.integers(1, 5000))
def test_no_batch_is_larger_than_asked_for_unless_it_is_one_row(lengths: list[int], batch_bytes: int) -> None:
    written = [entry(*(Cell(b"row", b"f", b"q", 1, PUT, b"v" * n) for n in lengths))]
    written[0].key.cluster_ids.add(least_sig_bits=1, most_sig_bits=2)
    batches = list(read_batches(MemoryFile(encode_wal(written)), "wal", batch_bytes=batch_bytes))
    assert [len(v) for b in batches for v in b["value"].to_pylist()] == lengths
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        one_more_offset = 9 * 4  # Arrow's arrays of offsets have one element more than there are rows
        assert batch.num_rows == 1 or batch.nbytes <= batch_bytes + one_more_offset
        assert following is None or batch.num_rows == 1 or batch.nbytes + following.slice(0, 1).nbytes > batch_bytes * 0.8


def test_a_value_of_five_megabytes_is_a_batch_of_its_own() -> None:
    big = bytes(range(256)) * 20_000
    written = [entry(Cell(b"row", b"f", b"q", 1, PUT, v), sequence_id=i) for i, v in enumerate((b"a", big, b"b"))]
    batches = list(read_batches(MemoryFile(encode_wal(written)), "wal", batch_bytes=1 << 20, wal_batch_bytes=1 << 20))
    assert [b["value"].to_pylist() for b in batches] == [[b"a"], [big], [b"b"]]
