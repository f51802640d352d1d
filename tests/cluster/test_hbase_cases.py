"""HBase's own cases of several peer clusters and of peers whose tables change: docs/hbase-test-cases.md maps each case to its
test."""

from __future__ import annotations

import pytest

from embedded.wire import CellType, delete_family, delete_row, put
from tests.cluster.members import Edge, Member
from tests.cluster.peer_changes import only, reconfigure, table_of
from tests.cluster.walferry_runs import ship
from walferry.engine.summary import Status

FAMILIES = ("f1", "f2", "f3")


class Batches:
    """Ships peers, in the order given."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, *edges: Edge) -> int:
        """A batch of each peer; returns how many operations they have shipped."""
        self._count += 1
        operations = 0
        for edge in edges:
            summaries = ship(edge.source.at, edge.peer, run_id=f"run{self._count}")
            assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
            operations += sum(s.shippedOps for s in summaries)
        return operations


@pytest.fixture
def batch() -> Batches:
    return Batches()


def rows(member: Member, table: str) -> set[str]:
    return {cell.row.decode() for cell in member.client.scan_all(table)}


def puts_and_deletes(member: Member, table: str) -> tuple[int, int]:
    """Return the figures of HBase's coprocessor in TestMasterReplication: puts and deletes that a cluster applied to a table."""
    cells = [cell for entry in member.entries(table) for cell in entry.cells if cell.family == b"f"]
    puts = sum(cell.type == CellType.PUT for cell in cells)
    return puts, len(cells) - puts


# TestMultiSlaveReplication


def test_a_peer_cluster_that_is_added_later_gets_what_is_written_from_the_wal_of_that_moment_on(
    members, create_table, lead, batch
):
    b, a, c = members[:3]  # a has one RegionServer, so that one roll begins all new WALs
    table = create_table([a, b, c])
    first = lead(a, b)
    a.client.write(table, [put("row", {"f:q": b"1"})])
    batch(first)
    a.client.write(table, [delete_row("row")])
    batch(first)
    assert rows(b, table) == set()
    a.client.write(table, [put("row2", {"f:q": b"1"})])
    a.client.roll_wals()
    a.client.write(table, [put("row3", {"f:q": b"1"})])
    a.client.add_managed_peer(second := f"{first.peer}b", c.cluster.address.cluster_key)  # in the middle of a WAL
    try:
        both = first, Edge(a, c, second)
        a.client.write(table, [put("row1", {"f:q": b"1"})])
        batch(*both)
        assert rows(b, table) == {"row1", "row2", "row3"}
        assert rows(c, table) == {"row1", "row3"}  # row3 is in the WAL that was open when the peer was added
        a.client.write(table, [delete_row("row1"), put("row", {"f:q": b"2"})])
        a.client.roll_wals()
        a.client.write(table, [delete_row("row2")])
        batch(*both)
        assert rows(b, table) == rows(c, table) == {"row", "row3"}
        a.client.write(table, [delete_row("row"), delete_row("row3")])
        batch(*both)
        assert rows(b, table) == rows(c, table) == set()
    finally:
        a.client.remove_peer(second)


# TestPerTableCFReplication


def families_at(member: Member, table: str) -> set[str]:
    return {cell.family.decode() for cell in member.client.scan_all(table)}


def test_two_peer_clusters_get_their_own_tables_and_families_and_others_after_a_change(members, unique, lead, batch):
    b, a, c = members[:3]
    table_a, table_b, table_c = tables = [unique("t") for _ in range(3)]
    for member in (a, b, c):
        for table in tables:
            member.client.create_table(table, dict.fromkeys(FAMILIES, 1))
    edges = to_b, to_c = lead(a, b), lead(a, c)
    reconfigure(a.cluster.address, to_b.peer, only(table_of(table_c), table_of(table_b, "f1", "f3")))
    reconfigure(a.cluster.address, to_c.peer, only(table_of(table_a), table_of(table_b, "f1", "f2")))
    every, none = set(FAMILIES), set[str]()

    def write_and_compare(row: str, at_b: list[set[str]], at_c: list[set[str]]) -> None:
        for table in tables:
            a.client.write(table, [put(row, {f"{family}:q": b"1"}) for family in FAMILIES], one_by_one=True)
        batch(*edges)
        assert [families_at(b, table) for table in tables] == at_b
        assert [families_at(c, table) for table in tables] == at_c
        for table in tables:
            a.client.write(table, [delete_family(row, family) for family in FAMILIES])
        batch(*edges)
        assert not any(rows(member, table) for member in (b, c) for table in tables)

    write_and_compare("row1", [none, {"f1", "f3"}, every], [every, {"f1", "f2"}, none])
    reconfigure(a.cluster.address, to_b.peer, only(table_of(table_a, "f1", "f2"), table_of(table_c, "f2", "f3")))
    reconfigure(a.cluster.address, to_c.peer, only(table_of(table_b), table_of(table_c, "f3")))
    write_and_compare("row2", [{"f1", "f2"}, none, {"f2", "f3"}], [none, every, {"f3"}])


# TestNamespaceReplication


def test_a_peer_of_a_namespace_gets_another_one_and_a_table_after_a_change(members, unique, lead, batch):
    _, a, b = members[:3]
    ns1, ns2 = unique("ns"), unique("ns")
    table_a, table_b = tables = f"{ns1}:TA", f"{ns2}:TB"
    for member in (a, b):
        member.client.create_namespace(ns1)
        member.client.create_namespace(ns2)
        for table in tables:
            member.client.create_table(table, {"f1": 1, "f2": 1})
    edge = lead(a, b)

    def write_and_compare(at_a: set[str], at_b: set[str]) -> None:
        for table in tables:
            a.client.write(table, [put("row", {f"{family}:q": b"1"}) for family in ("f1", "f2")], one_by_one=True)
        batch(edge)
        assert (families_at(b, table_a), families_at(b, table_b)) == (at_a, at_b)
        for table in tables:
            a.client.write(table, [delete_family("row", family) for family in ("f1", "f2")])
        batch(edge)
        assert not any(rows(b, table) for table in tables)

    reconfigure(a.cluster.address, edge.peer, only(namespaces=(ns1,)))
    write_and_compare({"f1", "f2"}, set())
    reconfigure(a.cluster.address, edge.peer, only(table_of(table_a, "f1"), namespaces=(ns2,)))
    write_and_compare({"f1"}, {"f1", "f2"})


# TestMasterReplication


def test_a_ring_of_three_takes_each_edit_round_and_does_not_mark_local_ones_as_a_stranger_s(members, create_table, lead, batch):
    """testCyclicReplication2, with HBASE-9158: edits of two origins wait in one queue."""
    a, b, c = members[1:]
    table = create_table([a, b, c])
    ring = [lead(a, b), lead(b, c), lead(c, a)]
    for number, member in enumerate((a, b, c)):
        member.client.write(table, [put(f"row{number}", {"f:q": b"1"})])
    batch(*ring, *ring)
    assert [rows(member, table) for member in (a, b, c)] == [{"row0", "row1", "row2"}] * 3
    for number, member in enumerate((a, b, c)):
        member.client.write(table, [delete_row(f"row{number}")])
    batch(*ring, *ring)
    assert [rows(member, table) for member in (a, b, c)] == [set()] * 3
    assert [puts_and_deletes(member, table)[0] for member in (a, b, c)] == [3, 3, 3]

    a.client.write(table, [put("row3", {"f:q": b"1"})])
    batch(ring[0])
    b.client.write(table, [put("row4", {"f:q": b"1"})])
    batch(*ring[1:])
    assert rows(c, table) == rows(a, table) == {"row3", "row4"}
    assert batch(*ring) == 0


def test_a_ring_that_does_not_lead_back_to_the_first_cluster_comes_to_rest(members, create_table, lead, batch):
    """testCyclicReplication3: 0 → 1 → 2 → 1."""
    a, b, c = members[1:]
    table = create_table([a, b, c])
    edges = [lead(a, b), lead(b, c), lead(c, b)]
    for number, member in enumerate((a, b, c)):
        member.client.write(table, [put(f"row{number}", {"f:q": b"1"})])
    batch(*edges)
    batch(*edges)
    assert [rows(member, table) for member in (a, b, c)] == [{"row0"}, {"row0", "row1", "row2"}, {"row0", "row1", "row2"}]
    for number, member in enumerate((a, b, c)):
        member.client.write(table, [delete_row(f"row{number}")])
    batch(*edges)
    batch(*edges)
    assert [rows(member, table) for member in (a, b, c)] == [set()] * 3
    assert [puts_and_deletes(member, table)[0] for member in (a, b, c)] == [1, 3, 3]
    assert batch(*edges) == 0
