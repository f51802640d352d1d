"""Batches of any size give the entries of a compressed file, from any position, and wherever it ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.compressed_samples import SAMPLE, SAMPLES, SOME_QUICKLY, codecs, plain, read, written
from tests.unit.hbase.wal.compressing import Encoder, compress
from tests.unit.hbase.wal.encoder import Entry
from walferry.hbase.wal.codecs.compressed import Expanded, Expander
from walferry.hbase.wal.errors import WalCorruptError, WalPositionError, WalTruncatedError


@pytest.mark.slow
@given(written, st.booleans(), codecs, st.sampled_from([1, 40, 200, 1 << 20]), st.sampled_from([5, 1 << 18]))
def test_what_was_written_is_read(written: list[Entry], tags: bool, codec: int | None, wal_batch_bytes: int, chunk: int) -> None:
    data, offsets = compress(written, Encoder(tags=tags, codec=codec, chunk=chunk))
    found = read(data, wal_batch_bytes=wal_batch_bytes)
    assert found.error is None
    assert found.entries == plain(written)
    assert (found.starts, found.ends) == (offsets[:-1], offsets[1:])


@pytest.mark.slow
@given(written, st.booleans(), codecs, st.sampled_from([40, 1 << 20]), st.data())
def test_reading_from_a_position_gives_what_follows_it(
    written: list[Entry], tags: bool, codec: int | None, wal_batch_bytes: int, data: st.DataObject
) -> None:
    file, offsets = compress(written, Encoder(tags=tags, codec=codec))
    first = data.draw(st.integers(0, len(written)))
    found = read(file, offsets[first], wal_batch_bytes)
    assert found.error is None
    assert found.entries == plain(written[first:])
    assert found.starts == offsets[first:-1]


@pytest.mark.long
@pytest.mark.parametrize("codec", SOME_QUICKLY)
def test_a_position_that_is_not_an_entry_s_start_is_refused(codec: str) -> None:
    data, offsets = SAMPLES[codec]
    for position in range(1, len(data) - 8):
        found = read(data, position)
        if position in offsets:
            assert found.error is None
        else:
            assert isinstance(found.error, WalPositionError), position
            assert found.entries == []


@pytest.mark.long
@pytest.mark.parametrize("codec", SOME_QUICKLY)
@pytest.mark.parametrize("wal_batch_bytes", [7, pytest.param(1 << 20, marks=pytest.mark.slow)])
def test_a_file_that_ends_anywhere_gives_its_whole_entries(codec: str, wal_batch_bytes: int) -> None:
    data, offsets = SAMPLES[codec]
    for length in range(offsets[0], len(data)):
        whole = sum(end <= length for end in offsets[1:])
        found = read(data[:length], wal_batch_bytes=wal_batch_bytes)
        assert found.entries == plain(SAMPLE[:whole]), length
        if length in offsets or length > offsets[-1]:
            assert found.error is None, length
        else:
            assert isinstance(found.error, WalTruncatedError), length
            assert found.error.offset == offsets[whole]
        stopped = read(data[:length], wal_batch_bytes=wal_batch_bytes, partial_tail="stop")
        assert (stopped.entries, stopped.error) == (plain(SAMPLE[:whole]), None)


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_entries_that_the_scan_finds_elsewhere_are_not_handed_out(missing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = SAMPLES["GZ"]
    flush = Expander._flush

    def flush_without_one(self: Expander) -> Expanded:
        whole = flush(self)
        rows = (np.delete(row, missing) for row in (whole.start, whole.file_start, whole.file_end))
        return Expanded(whole.buf, *rows)

    monkeypatch.setattr(Expander, "_flush", flush_without_one)
    found = read(data)
    assert isinstance(found.error, WalCorruptError)
    assert found.entries == plain(SAMPLE[: max(missing - 1, 0)])
