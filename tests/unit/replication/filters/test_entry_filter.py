"""The filters do the same as a plain implementation of HBase's filter chain over decoded messages."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.growth import LINEAR, growth
from tests.unit.hbase.wal.compressing import Encoder, compress
from tests.unit.hbase.wal.encoder import Cell, Entry, encode_entry, encode_wal
from tests.unit.hbase.wal.memory_file import MemoryFile
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.scan import scan_entries
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters import entry_filter as filters
from walferry.replication.filters.entry_filter import FilterRules, Reason, distinct_tables, filter_batch, table_name, uuid_field
from walferry.replication.sinks.hbase.shipment import assemble

SOURCE, PEER_CLUSTER, OTHER = uuid.UUID(int=1 << 127 | 5), uuid.UUID(int=(1 << 64) - 1), uuid.UUID(int=77)
RULES = FilterRules(SOURCE, PEER_CLUSTER)
GLOBAL = pb.REPLICATION_SCOPE_GLOBAL
MARK = np.frombuffer(uuid_field(SOURCE), np.uint8)


def batch_of(*entries: Entry, base: int = 1000) -> WalBatch:
    data = np.frombuffer(b"".join(map(encode_entry, entries)), np.uint8)
    scan = scan_entries(data, 0, len(data))
    assert scan.fault is None
    assert len(scan.index) == len(entries)
    return WalBatch(data, base, scan.index)


def put(family: bytes = b"f", row: bytes = b"row", value: bytes = b"value", qualifier: bytes = b"q") -> Cell:
    return Cell(row, family, qualifier, 1, 4, value, b"")


def entry(*cells: Cell, table: bytes = b"t", scopes: dict[bytes, int] | None = None, ids: tuple[uuid.UUID, ...] = ()) -> Entry:
    key = pb.WALKey(encoded_region_name=b"r" * 32, table_name=table, log_sequence_number=1, write_time=2)
    key.following_kv_count = len(cells)
    for family, scope in ({b"f": GLOBAL} if scopes is None else scopes).items():
        key.scopes.add(family=family, scope_type=scope)
    for i in ids:
        key.cluster_ids.add(least_sig_bits=i.int & (2**64 - 1), most_sig_bits=i.int >> 64)
    return Entry(key, cells)


def request_of(batch: WalBatch, rules: FilterRules = RULES) -> tuple[pb.ReplicateWALEntryRequest, bytes]:
    kept = filter_batch(batch, rules, "wal")
    chosen = np.flatnonzero(kept.cells)
    if not chosen.size:
        return pb.ReplicateWALEntryRequest(), b""
    shipment = assemble(batch, kept, chosen, MARK)
    request = pb.ReplicateWALEntryRequest.FromString(b"".join(e.tobytes() for e in shipment.entries))
    assert shipment.entry_count == len(request.entry)
    assert shipment.cell_count == sum(e.associated_cell_count for e in request.entry)
    return request, b"".join(c.tobytes() for c in shipment.cells)


def reasons(batch: WalBatch, rules: FilterRules = RULES) -> list[Reason]:
    return [Reason(r) for r in filter_batch(batch, rules, "wal").reason]


def test_entries_that_the_peer_cluster_has_consumed_are_dropped():
    assert reasons(batch_of(entry(put(), ids=(OTHER, PEER_CLUSTER)), entry(put(), ids=(OTHER,)))) == [
        Reason.FROM_PEER_CLUSTER,
        Reason.SHIPPED,
    ]


def test_the_old_single_cluster_id_counts_too():
    e = entry(put())
    e.key.cluster_id.least_sig_bits, e.key.cluster_id.most_sig_bits = PEER_CLUSTER.int & (2**64 - 1), PEER_CLUSTER.int >> 64
    assert reasons(batch_of(e)) == [Reason.FROM_PEER_CLUSTER]


@pytest.mark.parametrize("scope", [pb.REPLICATION_SCOPE_LOCAL, pb.REPLICATION_SCOPE_SERIAL])
def test_only_global_families_are_shipped(scope):
    e = entry(put(b"f"), put(b"l", value=b"secret"), put(b"f", value=b"more"), scopes={b"f": GLOBAL, b"l": scope})
    request, cells = request_of(batch_of(e))
    assert request.entry[0].associated_cell_count == 2
    assert cells == put(b"f").encode() + put(b"f", value=b"more").encode()


def test_an_entry_without_scopes_is_dropped():
    assert reasons(batch_of(entry(put(), scopes={}), entry(put(b"g")))) == [Reason.NOT_GLOBAL, Reason.NOT_GLOBAL]


@pytest.mark.parametrize("scopes", [{}, {b"f": GLOBAL}, {b"METAFAMILY": GLOBAL, b"f": GLOBAL}])
@pytest.mark.parametrize(
    ("qualifier", "reason"),
    [
        (b"HBASE::BULK_LOAD", Reason.BULK_LOAD),
        (b"HBASE::COMPACTION", Reason.COMPACTION),
        (b"HBASE::FLUSH", Reason.FLUSH),
        (b"HBASE::REGION_EVENT", Reason.REGION_EVENT),
        (b"HBASE::REGION_EVENT::REGION_OPEN", Reason.REGION_EVENT),
        (b"HBASE::REGION_EVENT::REGION_CLOSE", Reason.REGION_EVENT),
        (b"HBASE::REPLICATION_MARKER", Reason.REPLICATION_MARKER),
    ],
)
def test_a_marker_is_never_shipped_whatever_its_scopes_and_is_named(qualifier, reason, scopes):
    assert reasons(batch_of(entry(put(b"METAFAMILY", qualifier=qualifier), scopes=scopes))) == [reason]


@pytest.mark.parametrize("qualifier", [b"", b"HBASE::", b"HBASE::FLUSHED", b"HBASE::BULK_LOAD2", b"hbase::flush"])
def test_an_unknown_marker_is_an_ordinary_edit(qualifier):
    edit = put(b"METAFAMILY", qualifier=qualifier)
    assert reasons(batch_of(entry(edit), entry(edit, scopes={b"METAFAMILY": GLOBAL}))) == [Reason.NOT_GLOBAL, Reason.SHIPPED]


def test_a_marker_s_qualifier_in_another_family_is_an_ordinary_edit():
    assert reasons(batch_of(entry(put(b"f", qualifier=b"HBASE::FLUSH")))) == [Reason.SHIPPED]


def test_edits_beside_a_marker_are_shipped_without_it():
    e = entry(put(row=b"a"), put(b"METAFAMILY", qualifier=b"HBASE::FLUSH"), put(row=b"b"), put(b"l"))
    request, cells = request_of(batch_of(e))
    assert cells == put(row=b"a").encode() + put(row=b"b").encode()
    assert request.entry[0].associated_cell_count == 2


def test_rows_are_counted_as_hbase_counts_operations():
    batch = batch_of(entry(put(row=b"a"), put(row=b"a"), put(row=b"b"), put(row=b"a")), entry(put(row=b"")))
    assert list(filter_batch(batch, RULES, "wal").rows) == [3, 1]


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("families", [1024, 1025, 20_000])
def test_a_table_may_have_any_number_of_replicated_families(families, compressed):
    """HBase writes the scopes of all of a table's families into each of its keys, in the order of their names."""
    scopes = {b"f%05d" % i: GLOBAL for i in range(families)}
    wide = entry(*(put(f, value=f) for f in [*scopes, b"local", *reversed(scopes), b"g"]), scopes=scopes)
    data = compress([wide, entry(put())], Encoder(tags=False, codec=None))[0] if compressed else encode_wal([wide, entry(put())])
    batches = list(read_wal_batches(MemoryFile(data), "wal", 0, partial_tail="error"))
    assert [cells for batch in batches for cells in filter_batch(batch, RULES, "wal").cells.tolist()] == [2 * families, 1]


def test_families_are_found_in_whatever_order_a_key_names_them():
    names = [b"g", b"f", b"ff", b"", b"a"]
    batch = batch_of(entry(*map(put, [*names, b"b", b"fg"]), scopes=dict.fromkeys(names, GLOBAL)))
    assert filter_batch(batch, RULES, "wal").cells.tolist() == [len(names)]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "kept"), [(b"000000", True), (b"x00000", False)])
def test_many_families_in_whatever_order_take_time_in_proportion(family: bytes, kept: bool):
    def filtering(count: int) -> Callable[[], None]:
        names = [b"%06d" % i for i in range(count)]
        wide = batch_of(entry(*[put(family, qualifier=b"")] * count, scopes=dict.fromkeys(reversed(names), GLOBAL)))

        def filtered() -> None:
            assert filter_batch(wide, RULES, "wal").cells.tolist() == [count if kept else 0]

        return filtered

    assert growth(filtering, 60_000) < LINEAR


@pytest.mark.slow
def test_many_tables_take_time_in_proportion():
    def distinguishing(count: int) -> Callable[[], None]:
        names = [b"%05d" % i for i in range(count)]
        batch = batch_of(*(entry(put(), table=name) for name in [*names, *reversed(names)]))

        def distinguish() -> None:
            table_of, first_of = distinct_tables(batch)
            assert len(first_of) == len(names)
            assert [table_name(batch, int(first_of[table])) for table in table_of[::1000]] == [*names, *reversed(names)][::1000]

        return distinguish

    assert growth(distinguishing, 30_000) < LINEAR


def test_tables_whose_hashes_fall_together_may_have_several_numbers(monkeypatch):
    monkeypatch.setattr(filters, "_number_tables", together(filters._number_tables))
    names = [b"%05d" % (i % 300) for i in range(900)]
    batch = batch_of(*(entry(put(), table=name) for name in names))
    table_of, first_of = distinct_tables(batch)
    assert len(first_of) > 300
    assert [table_name(batch, int(first_of[table])) for table in table_of] == names


def together(number: Any) -> Any:
    """Number tables with so few places that the names meet."""

    def numbered(buf: Any, start: Any, length: Any, slots: Any, *more: Any) -> int:
        return int(number(buf, start, length, slots[:64], *more))

    return numbered


def test_malformed_scopes_are_reported_with_file_and_offset():
    e = entry(put())
    batch = batch_of(e, e)
    data = batch.buf.copy()
    at = int(batch.index.key_start[1])
    scopes = data[at:].tobytes().index(b"\x0a\x01f") + at  # the FamilyScope's family: tag, length
    data[scopes + 1] = 100
    with pytest.raises(WalCorruptError, match=f"some/wal at byte {batch.entry_offset(1)}:"):
        filter_batch(WalBatch(data, batch.base, batch.index), RULES, "some/wal")


names = st.sampled_from([b"t", b"u", b"ns:t", b"hbase:meta", b"hbase:acl"])
families = st.sampled_from([b"f", b"g", b"", b"METAFAMILY", b"ff"])
qualifiers = st.binary(max_size=4) | st.sampled_from([b"HBASE::FLUSH", b"HBASE::COMPACTION", b"HBASE::REGION_EVENT::x"])
cells_ = st.builds(put, families, st.binary(max_size=3), st.binary(max_size=20), qualifiers)
entries_ = st.builds(
    lambda cells, table, scopes, ids: entry(*cells, table=table, scopes=scopes, ids=tuple(ids)),
    st.lists(cells_, max_size=6),
    names,
    st.dictionaries(families, st.sampled_from([0, 1, 2]), max_size=4),
    st.lists(st.sampled_from([SOURCE, PEER_CLUSTER, OTHER]), max_size=3),
)


def is_marker(cell: Cell) -> bool:
    return cell.family == b"METAFAMILY" and cell.qualifier.startswith(b"HBASE::")


@settings(max_examples=3 * settings().max_examples)
@given(st.lists(entries_, min_size=1, max_size=12))
def test_the_compiled_filter_does_what_a_plain_one_over_messages_does(entries):
    want_entries, want_cells = [], b""
    for e in entries:
        if e.key.table_name == b"hbase:meta":
            continue
        global_families = {s.family for s in e.key.scopes if s.scope_type == GLOBAL}
        ids = [uuid.UUID(int=i.most_sig_bits << 64 | i.least_sig_bits) for i in e.key.cluster_ids]
        cells = [c for c in e.cells if c.family in global_families and not is_marker(c)]
        if not cells or PEER_CLUSTER in ids:
            continue
        key = pb.WALKey.FromString(e.key.SerializeToString())
        if SOURCE not in ids:
            key.MergeFromString(uuid_field(SOURCE))
        want_entries.append((key, len(cells)))
        want_cells += b"".join(c.encode() for c in cells)
    request, cells = request_of(batch_of(*entries))
    assert [(e.key, e.associated_cell_count) for e in request.entry] == want_entries
    assert cells == want_cells


@pytest.mark.slow
def test_no_kernel_reaches_outside_of_its_buffer_whatever_is_in_it(tmp_path):
    env = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),  # otherwise kernels compiled without checks would be used
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "tests.unit.replication.filters.bounds_checked"]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert (run.returncode, run.stdout) == (0, "within bounds\n"), run.stderr
