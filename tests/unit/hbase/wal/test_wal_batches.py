"""A batch is cut at any offset."""

from tests.unit.hbase.wal.encoder import encode_wal
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.samples import SAMPLE
from walferry.hbase.wal.reader import read_wal_batches


def test_a_batch_up_to_an_offset_has_the_entries_that_end_there_or_before() -> None:
    data = encode_wal(SAMPLE)
    (batch,) = read_wal_batches(MemoryFile(data), "f", 0, partial_tail="error")
    ends = batch.next_positions.tolist()
    assert [len(batch.until(offset).index) for offset in (0, ends[0] - 1, ends[0], ends[2] + 1, ends[-1])] == [
        0,
        0,
        1,
        3,
        len(ends),
    ]
    assert batch.until(ends[1]).next_positions.tolist() == ends[:2]
