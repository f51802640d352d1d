"""A shipment is a request of the entries and cells as they lie in the WAL, each entry marked with the source."""

import numpy as np

from tests.unit.replication.filters.test_entry_filter import MARK, OTHER, RULES, SOURCE, batch_of, entry, put, request_of
from walferry.base.protos import hbase_pb2 as pb
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.sinks.hbase.shipment import assemble, join


def test_a_whole_entry_keeps_its_bytes_and_gets_the_source_s_id():
    e = entry(put(), put(row=b"row2"))
    request, cells = request_of(batch_of(e))
    assert cells == e.cell_bytes()
    (sent,) = request.entry
    assert [i.least_sig_bits for i in sent.key.cluster_ids] == [SOURCE.int & (2**64 - 1)]
    assert [i.most_sig_bits for i in sent.key.cluster_ids] == [SOURCE.int >> 64]
    sent.key.ClearField("cluster_ids")
    assert sent.key == e.key


def test_a_key_that_names_the_source_already_is_not_marked_twice():
    request, _ = request_of(batch_of(entry(put(), ids=(OTHER, SOURCE))))
    assert len(request.entry[0].key.cluster_ids) == 2


def test_joined_shipments_are_one_request_in_order():
    batch = batch_of(*(entry(put(value=bytes([i]))) for i in range(4)))
    kept = filter_batch(batch, RULES, "wal")
    parts = [assemble(batch, kept, np.array(chosen), MARK) for chosen in ([0, 2], [3])]
    joined = join(parts)
    request = pb.ReplicateWALEntryRequest.FromString(b"".join(e.tobytes() for e in joined.entries))
    assert (joined.entry_count, joined.cell_count, joined.row_count) == (len(request.entry), 3, 3)
    assert b"".join(c.tobytes() for c in joined.cells) == b"".join(put(value=bytes([i])).encode() for i in (0, 2, 3))
