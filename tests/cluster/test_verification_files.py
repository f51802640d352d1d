"""Tables are compared by their files with the same result as by scans, on real clusters."""

from __future__ import annotations

import random

import pytest

from embedded.client import GLOBAL, LOCAL
from embedded.hbase import ClusterAddress
from embedded.wire import delete_column, delete_row, put
from tests.cluster.test_verification import counters, of_hbase, rows, verify
from tests.cluster.walferry_runs import ship, source_of
from walferry.hbase.cluster import master as active_master
from walferry.hbase.rpc import master
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.session import open_session

ENCODINGS = ["NONE", "PREFIX", "DIFF", "FAST_DIFF", "ROW_INDEX_V1"]


@pytest.fixture
def both(sides, unique):
    """`both(attributes, theirs, splits)` makes a table with these attributes of its family on both sides, without compactions."""

    def make(attributes=(), theirs=None, splits=(), peer_splits=None) -> str:
        table = unique("t")
        for client, chosen, borders in (
            (sides.source, attributes, splits),
            (sides.peer_cluster, attributes if theirs is None else theirs, splits if peer_splits is None else peer_splits),
        ):
            client.create_table(table, {"f": GLOBAL, "l": LOCAL}, borders)
            client.alter_family(table, "f", {"BLOCKSIZE": "2000", **dict(chosen)})
            client.switch_compaction(table, False)
        return table

    return make


def edits(seed: int, count: int) -> list:
    """Puts of several versions and columns, no two of one key, and deletes of what is not there: a flush drops none of them."""
    dice = random.Random(seed)
    found = []
    for i in range(count):
        row, column = f"row{dice.randrange(2_000):06}", f"f:{dice.choice('abc')}"
        if dice.random() < 0.05:
            found.append(delete_column(row, column, timestamp=5))
        else:
            found.append(put(row, {column: b"%d of %d " % (i, seed) * dice.randrange(1, 20)}, timestamp=seed * 10_000 + i))
    return found


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Compares pieces of some hundred rows, as these tables are small."""
    monkeypatch.setattr("walferry.verification.files.PIECE_BYTES", 20_000)


def snapshots_at(address: ClusterAddress) -> list[str]:
    with open_session(source_of(address)) as session, master.connect(active_master(session.zk, session.nodes)) as connection:
        return master.completed_snapshots(connection)


@pytest.mark.parametrize(("encoding", "codec"), [*((each, "NONE") for each in ENCODINGS), ("FAST_DIFF", "GZ"), ("NONE", "GZ")])
def test_files_of_every_kind_are_read_as_hbase_reads_them(sides, peer, both, encoding, codec):
    """The peer cluster's files have the same cells in another encoding, and lie otherwise."""
    other = {"DATA_BLOCK_ENCODING": "NONE", "COMPRESSION": "NONE", "VERSIONS": "100"}
    table = both(
        {"DATA_BLOCK_ENCODING": encoding, "COMPRESSION": codec, "VERSIONS": "100"}, other, [b"row000700"], [b"row001200"]
    )
    parts = [edits(seed, 1_500) for seed in (1, 2, 3)]
    for part in parts:
        sides.source.write(table, part)
        sides.source.flush(table)
    sides.peer_cluster.write(table, [edit for part in parts for edit in part])
    expected = counters(verify(sides.at, peer, table, versions=100)[table])
    found = verify(sides.at, peer, table, versions=100, from_files=True)[table]
    assert not found.scanned_because
    assert found.bad_rows == 0
    assert found.in_files > 1_500, "most rows were scanned"
    assert set(expected) == {"GOODROWS"}
    assert [snapshots_at(client.address) for client in (sides.source, sides.peer_cluster)] == [[], []]


def test_differences_of_each_kind_are_counted_as_by_scans(sides, peer, both):
    table = both({}, splits=[b"row010000", b"row030000"], peer_splits=[b"row020000"])
    sides.source.write(table, rows(0, 50_000))
    sides.peer_cluster.write(table, rows(0, 50_000))
    equal = verify(sides.at, peer, table, from_files=True)[table]
    assert counters(equal) == {"GOODROWS": 50_000}
    assert equal.in_files == 50_000
    sides.peer_cluster.write(table, [delete_row(f"row{i:06}", timestamp=2000) for i in (0, 9_999, 10_000, 25_000, 49_999)])
    sides.source.write(table, [delete_row("row040000", timestamp=2000), delete_row("row005000", timestamp=2000)])
    sides.peer_cluster.write(table, [
        put("row007000", {"f:a": b"other"}, timestamp=1000), put("row007001", {"f:c": b"more"}, timestamp=1000),
        put("row007010", {"l:a": b"a LOCAL family"}), put("row007004\x00<b>", {"f:a": b"v"}),
    ])  # fmt: skip
    found = verify(sides.at, peer, table, from_files=True)[table]
    assert counters(found) == of_hbase(sides, peer, table)
    assert found.bad_rows == 10
    assert 0 < found.in_files < 50_000
    part = verify(sides.at, peer, table, from_files=True, start_row=b"row007000", stop_row=b"row009999")[table]
    assert counters(part) == {"GOODROWS": 2_997, "BADROWS": 3, "ONLY_IN_PEER_TABLE_ROWS": 1, "CONTENT_DIFFERENT_ROWS": 2}
    sides.peer_cluster.major_compact(table)  # deletes are gone on one side only
    assert counters(verify(sides.at, peer, table, from_files=True)[table]) == counters(found)


def test_the_order_in_which_cells_of_one_key_were_written_counts(sides, peer, both):
    table = both()
    for client, values in ((sides.source, (b"1", b"2")), (sides.peer_cluster, (b"2", b"1"))):
        for value in values:
            client.write(table, [*rows(0, 2_000), put("row001000", {"f:a": value}, timestamp=1000)])
            client.flush(table)
    found = verify(sides.at, peer, table, from_files=True)[table]
    assert counters(found) == {"GOODROWS": 1_999, "BADROWS": 1, "CONTENT_DIFFERENT_ROWS": 1}


def test_rows_after_an_end_time_are_left_out(sides, peer, both):
    table = both({"VERSIONS": "5"})
    for client in (sides.source, sides.peer_cluster):
        client.write(table, rows(0, 20_000))
    sides.source.write(table, [put(f"row{i:06}", {"f:a": b"not shipped yet"}, timestamp=2_000) for i in range(20_000)])
    found = verify(sides.at, peer, table, from_files=True, end_time=2_000)[table]
    assert (counters(found), found.in_files) == ({"GOODROWS": 20_000}, 20_000)
    assert verify(sides.at, peer, table, from_files=True)[table].bad_rows == 20_000


@pytest.mark.parametrize("sink", [SinkKind.HFILES], indirect=True)
def test_files_that_walferry_has_loaded_are_the_source_s(sides, peer, both):
    table = both({"DATA_BLOCK_ENCODING": "FAST_DIFF", "VERSIONS": "100"})
    sides.source.write(table, edits(4, 3_000))
    ship(sides.at, peer)
    found = verify(sides.at, peer, table, from_files=True)[table]
    assert found.bad_rows == 0
    assert found.in_files > 1_000


@pytest.mark.parametrize(
    ("theirs", "why"),
    [({"VERSIONS": "4"}, "VERSIONS of family f is 1 and 4"), ({"TTL": "86400"}, "TTL of family f is 2147483647 and 86400")],
)
def test_tables_whose_equal_cells_may_be_different_rows_are_scanned(sides, peer, both, capsys, theirs, why):
    table = both({}, theirs)
    for client in (sides.source, sides.peer_cluster):
        client.write(table, rows(0, 100, timestamp=1_700_000_000_000))
    found = verify(sides.at, peer, table, from_files=True)[table]
    assert found.in_files == 0
    assert f"table {table} is scanned: {why}" in capsys.readouterr().out


def test_a_region_that_was_just_split_is_scanned(sides, peer, both):
    table = both()
    for client in (sides.source, sides.peer_cluster):
        client.write(table, rows(0, 2_000))
        client.flush(table)
    (region,) = sides.source.regions(table)
    sides.source.split_region(region.encoded_name, b"row001000")
    found = verify(sides.at, peer, table, from_files=True)[table]
    assert counters(found) == {"GOODROWS": 2_000}
    assert "is half of a file, after a split or a merge" in found.scanned_because
