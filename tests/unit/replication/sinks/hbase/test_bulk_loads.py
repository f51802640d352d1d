"""Which bulk loads are shipped, in what form, and which of them stop the queue."""

import uuid
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.growth import LINEAR, growth
from tests.unit.hbase.wal.encoder import Cell, Entry
from tests.unit.replication.filters.test_entry_filter import (
    GLOBAL,
    MARK,
    OTHER,
    PEER_CLUSTER,
    RULES,
    SOURCE,
    batch_of,
    entry,
    put,
)
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.wal.errors import WalCorruptError
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits, filter_batch, uuid_field
from walferry.replication.filters.rules import FilterRules, PeerTables, Reason
from walferry.replication.sinks.hbase.bulk_loads import BulkLoadRefused, take_bulk_loads
from walferry.replication.sinks.hbase.shipment import Shipment, assemble
from walferry.replication.source.cluster import SourceCluster

OFF = SourceCluster(quorum="zk:2181", wal_root="hdfs://nn/wals")
SKIP = replace(OFF, skip_bulk_loads=True)
ON = replace(OFF, replication_cluster_id="east", root_dir="hdfs://nn/hbase")
LOCAL, SERIAL = pb.REPLICATION_SCOPE_LOCAL, pb.REPLICATION_SCOPE_SERIAL


def descriptor(
    stores: dict[bytes, list[str]] | None = None,
    table: bytes = b"t",
    ids: tuple[str, ...] = (str(SOURCE),),
    replicate: bool = True,
) -> pb.BulkLoadDescriptor:
    namespace, _, qualifier = table.rpartition(b":")
    d = pb.BulkLoadDescriptor(encoded_region_name=b"r" * 32, bulkload_seq_num=7, cluster_ids=ids, replicate=replicate)
    d.table_name.namespace, d.table_name.qualifier = namespace or b"default", qualifier
    for family, files in ({b"f": ["one_SeqId_7_"]} if stores is None else stores).items():
        d.stores.add(family_name=family, store_home_dir=family.decode(), store_file=files, store_file_size_bytes=9)
    return d


def load_cell(d: pb.BulkLoadDescriptor, tags: bytes = b"") -> Cell:
    return Cell(b"start-key", b"METAFAMILY", b"HBASE::BULK_LOAD", 11, 4, d.SerializePartialToString(), tags)


def load(d: pb.BulkLoadDescriptor | None = None, table: bytes = b"t", **options: object) -> Entry:
    return entry(load_cell(d or descriptor(table=table)), table=table, **options)  # type: ignore[arg-type]


def taken(
    batch: WalBatch, source: SourceCluster = ON, rules: FilterRules = RULES
) -> tuple[dict[int, Shipment], list[Reason], list[int]]:
    kept = filter_batch(batch, rules, "wal")
    shipments = take_bulk_loads(batch, kept, rules, source, "wal")
    return shipments, [Reason(r) for r in kept.reason], [int(c) for c in kept.cells]


def request(shipment: Shipment) -> tuple[pb.ReplicateWALEntryRequest, bytes]:
    sent = pb.ReplicateWALEntryRequest.FromString(b"".join(e.tobytes() for e in shipment.entries))
    return sent, b"".join(c.tobytes() for c in shipment.cells)


def value_of(cell: bytes) -> bytes:
    key_len, value_len = int.from_bytes(cell[4:8]), int.from_bytes(cell[8:12])
    return cell[12 + key_len : 12 + key_len + value_len]


def test_a_bulk_load_is_a_request_of_its_own_that_names_the_source_s_directories():
    e = load(descriptor({b"f": ["a", "b"]}, table=b"ns:t"), table=b"ns:t")
    shipments, reasons, _ = taken(batch_of(entry(put()), e, entry(put())))
    assert list(shipments) == [1]
    assert reasons == [Reason.SHIPPED] * 3
    sent, cells = request(shipments[1])
    assert cells == e.cell_bytes()
    assert sent.replicationClusterId == "east"
    assert sent.sourceBaseNamespaceDirPath == "hdfs://nn/hbase/data"
    assert sent.sourceHFileArchiveDirPath == "hdfs://nn/hbase/archive/data"
    (only,) = sent.entry
    assert only.associated_cell_count == 1
    marked = pb.WALKey.FromString(e.key.SerializeToString() + uuid_field(SOURCE))
    assert only.key == marked
    assert shipments[1].bulk_load is not None
    assert shipments[1].bulk_load.files == (f"ns/t/{'r' * 32}/f/a", f"ns/t/{'r' * 32}/f/b")
    assert shipments[1].bulk_load.names == ("a", "b")
    assert shipments[1].row_count == 3  # as HBase counts: a row, and two files


def test_without_a_root_dir_the_files_are_below_the_wal_root():
    shipments, _, _ = taken(batch_of(load()), replace(ON, root_dir=None))
    assert request(shipments[0])[0].sourceBaseNamespaceDirPath == "hdfs://nn/wals/data"


@pytest.mark.parametrize("source", [ON, OFF, SKIP])
def test_loads_without_scopes_are_counted_and_let_go(source):
    """HBase 2.6.1 refers to files of tables that are not replicated at all."""
    shipments, reasons, cells = taken(batch_of(load(scopes={})), source)
    assert (reasons, cells) == ([Reason.BULK_LOAD], [0])
    assert (shipments[0].entry_count, shipments[0].bulk_load.names) == (0, ("one_SeqId_7_",))
    assert taken(batch_of(load(descriptor({b"f": []}), scopes={})), source)[0] == {}


@pytest.mark.parametrize(
    "cell", [Cell(b"k", b"METAFAMILY", b"HBASE::BULK_LOAD", 11, 4, b"\xff"), load_cell(descriptor({b"f": [".."]}))]
)
def test_a_load_that_nobody_replicates_stops_no_queue(cell):
    assert taken(batch_of(entry(cell, scopes={}))) == ({}, [Reason.BULK_LOAD], [0])


@pytest.mark.slow
@pytest.mark.parametrize("files_each", [0, 20], ids=["one load", "loads of 20 files"])
def test_a_load_of_many_files_takes_time_in_proportion(files_each):
    def taking(count: int) -> Callable[[], None]:
        files, each = [f"{i:05d}" for i in range(count)], files_each or count
        cells = [load_cell(descriptor({b"f": files[at : at + each], b"l": ["x"]})) for at in range(0, count, each)]
        batch = batch_of(entry(*cells, scopes={b"f": GLOBAL}))

        def take() -> None:
            shipments, _, _ = taken(batch)
            assert shipments[0].bulk_load is not None
            assert len(shipments[0].bulk_load.files) == len(files)
            assert shipments[0].bulk_load.released == (f"default/t/{'r' * 32}/l/x",) * len(cells)

        return take

    assert growth(taking, 60_000) < LINEAR


@pytest.mark.parametrize("loads", [1, 20])
def test_long_names_of_folders_are_not_kept_for_very_many_files(loads):
    """A descriptor of 2 MB names them once, and here they would take 100 GB."""
    table = b"t" * 1_000_000
    batch = batch_of(entry(*[load_cell(descriptor({b"f": ["a"] * (100_000 // loads)}))] * loads, table=table))
    with pytest.raises(WalCorruptError, match="characters"):
        taken(batch)
    assert taken(batch_of(entry(load_cell(descriptor({b"f": ["a"] * 100_000})), table=table, scopes={})))[0] == {}


def test_a_load_to_be_replicated_stops_the_queue_unless_the_connection_says_how():
    batch = batch_of(entry(put()), load(descriptor({b"f": list("abcde")})))
    with pytest.raises(BulkLoadRefused, match=r"wal at byte \d+: bulk load of region r+ of table t \(f/a, f/b and 3 more\)") as e:
        taken(batch, OFF)
    assert "Set replication_cluster_id" in str(e.value)
    assert e.value.offset == batch.positions[1]
    assert len(batch.until(e.value.offset).index) == 1


def test_loads_that_the_operator_leaves_out_are_counted():
    assert taken(batch_of(load()), SKIP) == ({}, [Reason.BULK_LOAD], [0])


@pytest.mark.parametrize("source", [ON, OFF])
def test_a_load_that_the_peer_does_not_get_is_let_go_and_does_not_stop_the_queue(source):
    """HBase 2.6.1 refers to files of LOCAL families too."""
    rules = FilterRules(SOURCE, PEER_CLUSTER, PeerTables(replicate_all=False))
    for batch, with_rules, reason in (
        (batch_of(load()), rules, Reason.NOT_IN_PEER),
        (batch_of(load(scopes={b"g": GLOBAL})), RULES, Reason.NOT_GLOBAL),
    ):
        shipments, reasons, cells = taken(batch, source, with_rules)
        assert (reasons, cells) == ([reason], [0])
        assert (shipments[0].entry_count, shipments[0].bulk_load.names) == (0, ("one_SeqId_7_",))


@pytest.mark.parametrize("scope", [LOCAL, SERIAL])
def test_only_files_of_global_families_are_shipped(scope):
    d = descriptor({b"f": ["a"], b"l": ["secret"], b"g": ["b"]})
    e = entry(load_cell(d, tags=b"\0\2\7x"), scopes={b"f": GLOBAL, b"l": scope, b"g": GLOBAL})
    shipments, _, _ = taken(batch_of(e))
    _, cells = request(shipments[0])
    left = descriptor({b"f": ["a"], b"g": ["b"]})
    assert cells == load_cell(left, tags=b"\0\2\7x").encode()
    assert pb.BulkLoadDescriptor.FromString(value_of(cells)).cluster_ids == [str(SOURCE)]  # which HBase's own filter loses
    assert shipments[0].bulk_load.names == ("a", "b", "secret")


def test_only_files_of_the_peer_s_families_are_shipped():
    rules = FilterRules(SOURCE, PEER_CLUSTER, PeerTables(replicate_all=False, table_families={b"ns:t": frozenset({b"g"})}))
    d = descriptor({b"f": ["a"], b"g": ["b"]}, table=b"ns:t")
    shipments, _, _ = taken(batch_of(load(d, table=b"ns:t", scopes={b"f": GLOBAL, b"g": GLOBAL})), rules=rules)
    assert shipments[0].bulk_load.files == (f"ns/t/{'r' * 32}/g/b",)


@pytest.mark.parametrize("deleted", [frozenset(), frozenset({b"f"})], ids=["table", "family"])
def test_a_load_of_what_both_clusters_have_deleted_is_let_go_and_counted_as_that(deleted):
    rules = FilterRules(SOURCE, PEER_CLUSTER, PeerTables(deleted={b"t": deleted}))
    shipments, reasons, cells = taken(batch_of(load()), ON, rules)
    assert (reasons, cells) == ([Reason.DELETED], [0])
    assert (shipments[0].entry_count, shipments[0].bulk_load.names) == (0, ("one_SeqId_7_",))


def test_a_load_that_is_older_than_an_initial_snapshot_is_let_go_and_counted_as_that():
    rules = FilterRules(SOURCE, PEER_CLUSTER).without_copied({b"t": frozenset({b"f"})})
    shipments, reasons, cells = taken(batch_of(load()), ON, rules)
    assert (reasons, cells) == ([Reason.COPIED], [0])
    assert (shipments[0].entry_count, shipments[0].bulk_load.names) == (0, ("one_SeqId_7_",))


@pytest.mark.parametrize("source", [ON, OFF])
def test_a_load_that_came_from_the_peer_cluster_is_let_go(source):
    batch = batch_of(
        load(descriptor(ids=(str(PEER_CLUSTER).upper(), str(SOURCE)))), load(ids=(PEER_CLUSTER,)), load(ids=(OTHER,), scopes={})
    )
    shipments, reasons, cells = taken(batch, source)
    assert reasons == [Reason.FROM_PEER_CLUSTER, Reason.FROM_PEER_CLUSTER, Reason.BULK_LOAD]
    assert cells == [0, 0, 0]
    for i in (0, 1):
        assert shipments[i].entry_count == shipments[i].size == 0
        assert (shipments[i].bulk_load.files, shipments[i].bulk_load.names) == ((), ("one_SeqId_7_",))


def test_a_load_made_not_to_be_replicated_is_counted_and_let_go():
    shipments, reasons, _ = taken(batch_of(load(descriptor(replicate=False))))
    assert reasons == [Reason.BULK_LOAD]
    assert (shipments[0].entry_count, shipments[0].bulk_load.names) == (0, ("one_SeqId_7_",))


def test_edits_in_an_entry_with_a_load_are_shipped_with_it():
    cells = (put(row=b"a"), load_cell(descriptor()), put(b"l"), put(row=b"b"))
    for source, rest in ((ON, load_cell(descriptor()).encode()), (SKIP, b"")):
        batch = batch_of(entry(*cells))
        kept = filter_batch(batch, RULES, "wal")
        shipments = take_bulk_loads(batch, kept, RULES, source, "wal")
        assert kept.cells[0] == 2 + bool(rest)  # without a shipment of its own it goes the usual way
        if rest:
            sent, sent_cells = request(shipments[0])
            assert sent_cells == put(row=b"a").encode() + put(row=b"b").encode() + rest
            assert sent.entry[0].associated_cell_count == 3


EMPTY = {"no stores": {}, "a store without files": {b"f": []}, "stores without files": {b"f": [], b"g": [], b"l": []}}


def sent_in_all(batch: WalBatch, kept: KeptEdits, shipments: dict[int, Shipment]) -> bytes:
    """The cells that the senders send: those of ordinary entries, and those of the loads."""
    common = np.array([i for i in np.flatnonzero(kept.cells) if i not in shipments], np.int64)
    parts = [assemble(batch, kept, common, MARK)] if common.size else []
    for shipment in parts:
        entries = pb.ReplicateWALEntryRequest.FromString(b"".join(e.tobytes() for e in shipment.entries)).entry
        assert sum(e.associated_cell_count for e in entries) == shipment.cell_count
    return b"".join(cells.tobytes() for s in (*parts, *shipments.values()) for cells in s.cells)


@pytest.mark.parametrize("stores", EMPTY.values(), ids=EMPTY.keys())
@pytest.mark.parametrize("source", [ON, OFF, SKIP])
def test_a_descriptor_without_files_is_not_sent(stores, source):
    empty = load_cell(descriptor(stores))
    scopes = {b"f": GLOBAL, b"g": GLOBAL}
    for cells, left in (
        ([empty], []),
        ([empty, empty], []),
        ([put(row=b"a"), empty, put(b"l"), put(row=b"b")], [put(row=b"a"), put(row=b"b")]),
    ):
        batch = batch_of(entry(put(row=b"before")), entry(*cells, scopes=scopes), entry(put(row=b"after")))
        kept = filter_batch(batch, RULES, "wal")
        shipments = take_bulk_loads(batch, kept, RULES, source, "wal")
        assert shipments == {}
        assert int(kept.cells[1]) == len(left)
        want = b"".join(c.encode() for c in (put(row=b"before"), *left, put(row=b"after")))
        assert sent_in_all(batch, kept, shipments) == want


def test_a_descriptor_without_files_beside_one_with_files_is_left_out():
    loads = [load_cell(descriptor({b"f": []})), load_cell(descriptor({b"f": ["a"]})), load_cell(descriptor({}))]
    shipments, reasons, cells = taken(batch_of(entry(put(), *loads)))
    assert (reasons, cells) == ([Reason.SHIPPED], [2])
    assert request(shipments[0])[1] == put().encode() + loads[1].encode()
    assert shipments[0].bulk_load.names == ("a",)


@pytest.mark.parametrize("value", [b"\xff", b"", descriptor().SerializeToString()[:-3]])
def test_a_descriptor_that_cannot_be_parsed_names_the_file_and_the_offset(value):
    broken = entry(Cell(b"r", b"METAFAMILY", b"HBASE::BULK_LOAD", 1, 4, value, b""))
    batch = batch_of(entry(put()), broken)
    with pytest.raises(WalCorruptError, match=f"wal at byte {batch.positions[1]}: the descriptor of a bulk load cannot"):
        taken(batch)


@pytest.mark.parametrize("text", [b"one_SeqId", str(SOURCE).encode()])
def test_a_descriptor_with_names_that_are_not_text_is_broken(text):
    broken = descriptor().SerializeToString().replace(text, b"\xff" + text[1:])
    with pytest.raises(WalCorruptError, match=r"the descriptor of a bulk load cannot be parsed: .* is not UTF-8"):
        taken(batch_of(entry(Cell(b"r", b"METAFAMILY", b"HBASE::BULK_LOAD", 1, 4, broken, b""))))


@pytest.mark.parametrize("name", ["", ".", "..", "../../rs/x", "a/b", "a\0"])
def test_a_file_name_that_leads_elsewhere_is_refused(name):
    batch = batch_of(load(descriptor({b"f": ["fine", name]})))
    with pytest.raises(WalCorruptError, match="a bulk load names"):
        taken(batch)


families = st.sampled_from([b"f", b"g", b"h"])
file_lists = st.dictionaries(families, st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True), max_size=3)
scopes_ = st.dictionaries(families, st.sampled_from([LOCAL, GLOBAL, SERIAL]), min_size=1, max_size=3)
named = st.frozensets(families, max_size=2)
peers = st.one_of(
    st.builds(lambda f: PeerTables(replicate_all=False, table_families={b"t": f}), named),
    st.builds(lambda f: PeerTables(exclude_table_families={b"t": f}), named),
)


@settings(max_examples=2 * settings().max_examples)
@given(
    file_lists, scopes_, peers, st.lists(st.sampled_from([SOURCE, PEER_CLUSTER, OTHER]), max_size=2, unique=True), st.booleans()
)
def test_exactly_the_files_that_hbase_s_filters_leave_are_shipped(stores, scopes, tables, ids, replicate):
    """HBase: ScopeWALEntryFilter, then NamespaceTableCfWALEntryFilter. Loads that the peer cluster would ignore are not sent."""
    d = descriptor(stores, ids=tuple(map(str, ids)), replicate=replicate)
    shipments, reasons, _ = taken(batch_of(load(d, scopes=scopes)), rules=FilterRules(SOURCE, PEER_CLUSTER, tables))
    wanted = [f for f in stores if scopes.get(f) == GLOBAL and tables.wants(b"t", f)]
    sent = bool(wanted) and PEER_CLUSTER not in ids and replicate
    assert (reasons == [Reason.SHIPPED]) == (sent and any(stores[f] for f in wanted)) or not any(stores[f] for f in wanted)
    names = [name for f in wanted for name in stores[f]]
    found = shipments[0].bulk_load if shipments else None
    assert sorted(found.names if found else ()) == sorted(name for files in stores.values() for name in files)
    assert len(found.files if found else ()) == (len(names) if sent else 0)
    if sent and names:
        (cell,) = request(shipments[0])[1:]
        left = pb.BulkLoadDescriptor.FromString(value_of(cell))
        assert [s.family_name for s in left.stores] == wanted
        assert (list(left.cluster_ids), left.bulkload_seq_num) == ([str(i) for i in ids], 7)


edits_ = st.builds(put, families, st.sampled_from([b"a", b"b"]), st.binary(max_size=9))
loads_ = st.tuples(file_lists, st.lists(st.sampled_from([PEER_CLUSTER, OTHER]), max_size=1), st.booleans())
consumed = st.lists(st.just(PEER_CLUSTER), max_size=1)
entries_ = st.tuples(st.lists(edits_ | loads_, min_size=1, max_size=5), scopes_ | st.just({}), consumed)


def paths(stores: dict[bytes, list[str]]) -> list[str]:
    return [f"default/t/{'r' * 32}/{family.decode()}/{name}" for family, names in stores.items() for name in names]


def modelled(cells, scopes, ids, tables: PeerTables, skip: bool) -> tuple[list[bytes], list[str], list[str]]:
    """The cells of an entry that are sent, the files that the sink gets, and those that are let go."""
    wanted = {f for f, scope in scopes.items() if scope == GLOBAL and tables.wants(b"t", f)}
    edits = [c.encode() for c in cells if isinstance(c, Cell) and c.family in wanted and not ids]
    sent, files, named = list[bytes](), list[str](), list[str]()
    for stores, load_ids, replicate in (c for c in cells if not isinstance(c, Cell)):
        if not scopes:
            named += paths(stores)
        if not scopes or skip:
            continue
        left = {f: names for f, names in stores.items() if f in wanted}
        named += paths(stores)
        if any(left.values()) and replicate and PEER_CLUSTER not in [*ids, *load_ids]:
            sent.append(load_cell(descriptor(left, ids=tuple(map(str, load_ids)), replicate=replicate)).encode())
            files += paths(left)
    return edits + sent, files, [name for name in named if name not in files]


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(entries_, min_size=1, max_size=4), peers | st.just(PeerTables()), st.sampled_from([ON, OFF, SKIP]))
def test_entries_with_loads_and_edits_are_sent_as_a_plain_model_says(entries, tables, source):
    def cell(c):
        return c if isinstance(c, Cell) else load_cell(descriptor(c[0], ids=tuple(map(str, c[1])), replicate=c[2]))

    batch = batch_of(*(entry(*map(cell, cells), scopes=scopes, ids=tuple(ids)) for cells, scopes, ids in entries))
    rules = FilterRules(SOURCE, PEER_CLUSTER, tables)
    want = [modelled(*e, tables, source is SKIP) for e in entries]  # type: ignore[call-arg]
    kept = filter_batch(batch, rules, "wal")
    if source is OFF and (refused := [i for i, (_, files, _) in enumerate(want) if files]):
        with pytest.raises(BulkLoadRefused) as e:
            take_bulk_loads(batch, kept, rules, source, "wal")
        assert e.value.offset == batch.positions[refused[0]]
        return
    shipments = take_bulk_loads(batch, kept, rules, source, "wal")
    assert sorted(shipments) == [i for i, (_, files, named) in enumerate(want) if files or named]
    for i, (cells, files, let_go) in enumerate(want):
        assert int(kept.cells[i]) == len(cells)
        assert int(kept.size[i]) == sum(map(len, cells))
        assert (kept.reason[i] == Reason.SHIPPED) == bool(cells) or not shipments.get(i)
        if i in shipments:
            load_ = shipments[i].bulk_load
            assert load_ is not None
            assert (list(load_.files), list(load_.released)) == (files, let_go)
    common = [b"".join(cells) for i, (cells, _, _) in enumerate(want) if i not in shipments]
    alone = [b"".join(want[i][0]) for i in shipments]
    assert sent_in_all(batch, kept, shipments) == b"".join(common + alone)


def test_the_plain_case_costs_nothing():
    batch = batch_of(*(entry(put()) for _ in range(3)))
    kept = filter_batch(batch, RULES, "wal")
    before = [a.copy() for a in (kept.reason, kept.cells, kept.size)]
    assert take_bulk_loads(batch, kept, RULES, ON, "wal") == {}
    assert all(np.array_equal(a, b) for a, b in zip(before, (kept.reason, kept.cells, kept.size), strict=True))


def test_rules_and_kernel_agree_on_what_the_peer_wants():
    rules = PeerTables(replicate_all=False, table_families={b"t": frozenset({b"f"}), b"u": frozenset()})
    assert [rules.wants(t, f) for t, f in ((b"t", b"f"), (b"t", b"g"), (b"u", b"g"), (b"v", b"f"), (b"hbase:meta", b"info"))] == [
        True, False, True, False, False,
    ]  # fmt: skip
    assert uuid.UUID(str(PEER_CLUSTER)) == PEER_CLUSTER
