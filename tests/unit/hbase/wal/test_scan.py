"""The compiled scan finds all entries, and no bytes mislead it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import Entry, encode_entry, encode_varint, entry
from tests.unit.hbase.wal.scanned import PUT_CELL, scan
from tests.unit.hbase.wal.strategies import entries
from walferry.base.protos.hbase_pb2 import WALKey


@given(st.lists(entries(), max_size=8))
def test_every_entry_is_found_with_its_key_and_its_cells(written: list[Entry]) -> None:
    data = b"".join(map(encode_entry, written))
    found = scan(data)
    assert found.fault is None
    assert found.consumed == found.need == len(data)
    index = found.index
    assert len(index) == len(written)
    for i, e in enumerate(written):
        key = data[index.key_start[i] : index.key_end[i]]
        assert WALKey.FromString(key) == e.key
        assert data[index.cells_start[i] : index.cells_end[i]] == e.cell_bytes()
        assert data[index.entry_start[i] : index.key_start[i]] == encode_varint(len(key))
        assert index.cell_count[i] == len(e.cells)
        assert int(index.sequence_id[i]) % (1 << 64) == e.key.log_sequence_number
        assert int(index.write_time[i]) % (1 << 64) == e.key.write_time
        assert index.cluster_id_count[i] == len(e.key.cluster_ids)
        for start, length, name in (
            (index.region_start, index.region_len, e.key.encoded_region_name),
            (index.table_start, index.table_len, e.key.table_name),
        ):
            assert data[start[i] : start[i] + length[i]] == name


def test_entries_of_a_region_have_one_hash_and_other_regions_other_ones() -> None:
    regions = [b"%032x" % i for i in range(1000)] + [b"1588230740", b"", b"a", b"a" * 9]
    data = b"".join(encode_entry(entry(PUT_CELL, region=region)) for region in regions + regions)
    hashes = scan(data).index.region_hash
    assert (hashes[: len(regions)] == hashes[len(regions) :]).all()
    assert len(set(hashes.tolist())) == len(regions)
    senders = np.bincount((hashes[:1000] % 8).astype(np.int64), minlength=8)
    assert senders.min() > 80  # 125 on average: the senders are filled evenly


def test_more_entries_than_expected_for_the_size_are_found_too() -> None:
    data = encode_entry(entry(region=b"", table=b"")) * 5000  # entries without cells have 10 bytes each
    assert len(scan(data).index) == 5000


@given(st.lists(entries(), min_size=1, max_size=4), st.data())
def test_a_range_gives_the_entries_that_lie_wholly_in_it(written: list[Entry], data: st.DataObject) -> None:
    sizes = [len(encode_entry(e)) for e in written]
    starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    first = data.draw(st.integers(0, len(written)))
    end = data.draw(st.integers(starts[first], starts[-1]))
    found = scan(b"".join(map(encode_entry, written)), starts[first], end)
    expected = [start for start in starts[first:-1] if start + sizes[starts.index(start)] <= end]
    assert found.fault is None
    assert found.index.entry_start.tolist() == expected
    assert found.consumed == max(b for b in starts if b <= end and b >= starts[first])
    assert found.need == found.consumed if found.consumed == end else end < found.need <= min(b for b in starts if b > end)


def test_a_range_outside_the_buffer_is_refused() -> None:
    for start, end in ((-1, 2), (0, 4), (3, 2)):
        with pytest.raises(ValueError, match="not within a buffer of 3 bytes"):
            scan(b"abc", start, end)


@given(st.binary(max_size=400))
def test_any_bytes_end_the_scan_within_their_range(data: bytes) -> None:
    found = scan(data)
    assert 0 <= found.consumed <= len(data)
    assert found.fault is None or found.consumed <= found.fault.offset <= len(data)
    assert found.index.cells_end.tolist() == [*found.index.entry_start[1:], found.consumed][: len(found.index)]
