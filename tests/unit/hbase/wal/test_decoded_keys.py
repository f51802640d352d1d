"""Of WALKeys, the cluster ids and the names are decoded, and one that cannot be is named."""

import pytest

from tests.unit.hbase.wal.decoding import decode, decode_until_error
from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, encode_wal, entry
from tests.unit.hbase.wal.samples import SAMPLE
from tests.unit.hbase.wal.strategies import positions, rows
from walferry.hbase.wal.errors import WalCorruptError


def broken_entries() -> list[tuple[str, Entry]]:
    not_text, other_region, bad_id = (entry(Cell(b"row", b"f", b"q", 1, PUT, b"v")) for _ in range(3))
    not_text.key.table_name = b"t\xff"
    other_region.key.encoded_region_name = b"\x80"
    bad_id.key.cluster_ids.add(least_sig_bits=1)
    return [("UTF-8", not_text), ("UTF-8", other_region), ("cluster id", bad_id)]


@pytest.mark.parametrize(("reason", "broken"), broken_entries())
def test_a_key_that_cannot_be_decoded_is_named_after_the_cells_before_it(reason: str, broken: Entry) -> None:
    written = [*SAMPLE, broken, *SAMPLE]
    found, error = decode_until_error(encode_wal(written))
    assert isinstance(error, WalCorruptError)
    assert reason in error.reason
    assert error.offset == positions(written)[len(SAMPLE)]
    assert found == rows(SAMPLE)


def test_a_cluster_id_in_the_old_field_counts_like_the_others() -> None:
    old = entry(Cell(b"row", b"f", b"q", 1, PUT, b"v"))
    old.key.cluster_id.least_sig_bits, old.key.cluster_id.most_sig_bits = 2, 1
    old.key.cluster_ids.add(least_sig_bits=(1 << 64) - 1, most_sig_bits=1 << 63)
    ids = ["00000000-0000-0001-0000-000000000002", "80000000-0000-0000-ffff-ffffffffffff"]
    assert decode(encode_wal([old]))[0]["cluster_ids"] == ids
