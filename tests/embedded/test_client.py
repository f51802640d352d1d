"""The Java client does what its methods promise, on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded import wire
from embedded.client import GLOBAL, LOCAL, JavaClientError, even_splits
from embedded.wire import CellType


@pytest.fixture(scope="session")
def client(standalone_pair, java_client):
    return java_client(standalone_pair.source.address)


@pytest.fixture(scope="session")
def other(standalone_pair, java_client):
    return java_client(standalone_pair.peer_cluster.address)


@pytest.fixture
def table(client, unique):
    name = unique("t")
    client.create_table(name, {"g": GLOBAL, "l": LOCAL}, versions=10)
    return name


def test_what_is_put_is_scanned(client, table):
    client.write(
        table, [wire.put("r1", {"g:a": b"1", "l:b": b""}, timestamp=5), wire.put(b"r\x000", {"g:a": b"\xff"}, timestamp=6)]
    )

    assert [(c.row, c.family, c.qualifier, c.timestamp, c.type, c.value) for c in client.scan_all(table)] == [
        (b"r\x000", b"g", b"a", 6, CellType.PUT, b"\xff"),
        (b"r1", b"g", b"a", 5, CellType.PUT, b"1"),
        (b"r1", b"l", b"b", 5, CellType.PUT, b""),
    ]
    assert [c.row for c in client.scan_all(table, ["l"])] == [b"r1"]


def test_each_kind_of_delete_leaves_its_marker(client, table):
    client.write(
        table,
        [
            wire.delete_row("r1", timestamp=5),
            wire.delete_family("r2", "g", timestamp=5),
            wire.delete_family_version("r3", "g", 5),
            wire.delete_column("r4", "g:a", timestamp=5),
            wire.delete_version("r5", "g:a", timestamp=5),
        ],
    )

    assert client.scan_all(table) == []
    assert [(c.row, c.family, c.type) for c in client.scan_all(table, raw=True)] == [
        (b"r1", b"g", CellType.DELETE_FAMILY),
        (b"r1", b"l", CellType.DELETE_FAMILY),
        (b"r2", b"g", CellType.DELETE_FAMILY),
        (b"r3", b"g", CellType.DELETE_FAMILY_VERSION),
        (b"r4", b"g", CellType.DELETE_COLUMN),
        (b"r5", b"g", CellType.DELETE),
    ]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_mutations_of_a_row_apply_in_their_order(client, table, one_by_one):
    client.write(
        table,
        [
            wire.put("r", {"g:a": b"old"}, timestamp=1),
            wire.put("r", {"g:a": b"new"}, timestamp=2),
            wire.delete_version("r", "g:a", timestamp=2),
            wire.increment("r", {"g:n": 40}),
            wire.increment("r", {"g:n": 2}),
            wire.append("r", {"g:s": b"ab"}),
            wire.append("r", {"g:s": b"cd"}),
        ],
        one_by_one=one_by_one,
    )

    newest = {cell.qualifier: cell.value for cell in reversed(client.scan_all(table))}
    assert newest == {b"a": b"old", b"n": (42).to_bytes(8, "big"), b"s": b"abcd"}


def test_tags_and_ttl_come_with_the_cell(client, table):
    client.write(table, [wire.put("r", {"g:a": b"v"}, tags=[(100, b"mine")], ttl_ms=3_600_000)])

    (cell,) = client.scan_all(table)
    assert b"\x00\x05\x64mine" in cell.tags
    assert b"\x00\x09\x08" + (3_600_000).to_bytes(8, "big") in cell.tags  # tag type 8 is TTL


def test_a_column_without_a_family_is_refused():
    with pytest.raises(ValueError, match="family:qualifier"):
        wire.put("r", {"a": b"v"})


def test_an_unknown_table_is_an_error_in_javas_words(client, unique):
    with pytest.raises(JavaClientError, match="TableNotFoundException"):
        client.write(unique("none"), [wire.put("r", {"g:a": b"v"})], one_by_one=True)


def test_many_rows_are_spread_over_the_splits(client, unique):
    name = unique("many")
    client.create_table(name, {"g": GLOBAL}, even_splits(4))

    client.put_many(name, 20_000, ["g:a", "g:b"], value_bytes=10)

    assert client.count_rows(name) == 20_000
    rows = [cell.row for cell in client.scan_all(name) if cell.qualifier == b"a"]
    borders = [region.start_key for region in client.regions(name)]
    assert len(borders) == 4
    for lower, upper in zip(borders, [*borders[1:], b"g"], strict=True):
        assert sum(lower <= row < upper for row in rows) == pytest.approx(5_000, rel=0.05)


def test_an_emptied_table_keeps_its_regions(client, unique):
    name = unique("empty")
    client.create_table(name, {"g": GLOBAL}, even_splits(2))
    client.put_many(name, 100, ["g:a"])

    client.empty_table(name)

    assert client.count_rows(name) == 0
    assert len(client.regions(name)) == 2


class TestComparison:
    @pytest.fixture
    def both(self, client, other, table):
        other.create_table(table, {"g": GLOBAL, "l": LOCAL}, versions=10)
        edits = [wire.put(f"r{i}", {"g:a": b"v", "l:b": b"w"}, timestamp=1) for i in range(10)]
        client.write(table, edits)
        other.write(table, edits)
        return table

    def test_equal_tables_are_the_same(self, client, other, both):
        found = client.compare(both, other)

        assert found.same
        assert (found.left, found.right) == (20, 20)

    @pytest.mark.parametrize(
        ("edit", "reported"),
        [
            (wire.put("r3", {"g:a": b"x"}, timestamp=1), "another value: r3"),
            (wire.put("r3", {"g:a": b"v"}, timestamp=2), "only in the second: r3"),
            (wire.put("r99", {"g:a": b"v"}, timestamp=1), "only in the second: r99"),
            (wire.delete_version("r9", "g:a", timestamp=1), "only in the first: r9"),
            (wire.put("r3", {"g:a": b"v"}, timestamp=1, tags=[(100, b"t")]), "other tags: r3"),
        ],
    )
    def test_one_different_cell_is_found(self, client, other, both, edit, reported):
        other.write(both, [edit])

        found = client.compare(both, other)

        assert found.different == 1
        assert found.examples[0].startswith(reported)

    def test_only_the_named_families_count(self, client, other, both):
        other.write(both, [wire.put("r3", {"l:b": b"x"}, timestamp=1)])

        assert client.compare(both, other, families=["g"]).same
        assert not client.compare(both, other, families=["l"]).same

    def test_deletes_count_in_a_raw_comparison(self, client, other, both):
        other.write(both, [wire.delete_version("r99", "g:a", timestamp=1)])

        assert client.compare(both, other).same
        assert client.compare(both, other, raw=True).different == 1


class TestWalFiles:
    @pytest.fixture
    def wal(self, standalone_pair, client, table):
        client.roll_wals()
        client.write(table, [wire.put("r1", {"g:a": b"1", "l:b": b"\x00"}, timestamp=7)], one_by_one=True)
        client.write(table, [wire.delete_row("r2", timestamp=8)], one_by_one=True)
        root = Path(standalone_pair.source.address.wal_root.removeprefix("file://"))
        wals = [path for path in root.glob("WALs/*/*") if not path.name.startswith(".") and not path.name.endswith(".meta")]
        written = max(wals, key=lambda path: int(path.name.rsplit(".", 1)[1]))
        client.roll_wals()
        return next(path for path in [written, root / "oldWALs" / written.name] if path.exists())

    def test_hbases_reader_shows_entries_and_cells(self, client, table, wal):
        entries = [entry for entry in client.read_wal(f"file://{wal}") if entry.table == table]

        assert [[(c.row, c.family, c.type) for c in entry.cells] for entry in entries] == [
            [(b"r1", b"g", CellType.PUT), (b"r1", b"l", CellType.PUT)],
            [(b"r2", b"g", CellType.DELETE_FAMILY), (b"r2", b"l", CellType.DELETE_FAMILY)],
        ]
        assert [entry.scopes for entry in entries] == [{b"g": GLOBAL}, {b"g": GLOBAL}]
        assert entries[0].end < entries[1].end <= wal.stat().st_size

    def test_the_pretty_printer_shows_the_same_entries(self, client, table, wal):
        printed = [entry for entry in client.wal_pretty_print(f"file://{wal}") if entry["table"] == table]
        read = [entry for entry in client.read_wal(f"file://{wal}") if entry.table == table]

        assert [entry["position"] for entry in printed] == [entry.end for entry in read]
        assert [entry["sequence"] for entry in printed] == [entry.sequence_id for entry in read]
        assert printed[0]["actions"][1]["value"] == "\\x00"

    def test_iterating_is_timed(self, client, wal):
        assert len(client.seconds_to_iterate_wal(f"file://{wal}", 3)) == 3


def test_a_load_writes_until_it_is_stopped_and_tells_what_another_table_lacks(client, other, unique):
    name = unique("t")
    for side in (client, other):
        side.create_table(name, {"f": GLOBAL}, even_splits(2))
    load = client.start_load(name, threads=2, pause_ms=1)
    while load.status().acknowledged < 100:
        assert load.status().failed == 0
    done = load.stop()
    assert done.failed == 0
    assert client.count_rows(name) > done.acknowledged // 2  # every second put goes to a row of its own
    assert load.status() == done

    assert load.missing(client, name) == (0, ())
    missing, examples = load.missing(other, name)
    assert missing == done.acknowledged
    assert len(examples) == 20
