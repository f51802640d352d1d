"""Clusters that replicate to one another in a ring and in a diamond become equal, and no edit goes round for ever."""

from __future__ import annotations

import itertools
import random
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from embedded import wire
from embedded.wire import Cell, Mutation
from tests.cluster.members import Edge, Member
from tests.cluster.walferry_runs import BOTH_SINKS, plan, queues, ship
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.filters.rules import Reason

pytestmark = BOTH_SINKS
ROWS = 40
WRITES = 250  # at each cluster, each time
FIRST_TIMESTAMP = 1_000_000
FROM_PEER_CLUSTER = Reason.FROM_PEER_CLUSTER.name.lower()


class Writer:
    """Puts and deletes at any cluster, on the same rows; each edit has its own timestamp."""

    def __init__(self, table: str) -> None:
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        self._chance = random.Random(seed)
        self._clock = itertools.count(FIRST_TIMESTAMP)
        self._table = table

    def write(self, *members: Member, edits: int = WRITES) -> None:
        """Take turns: an edit at one cluster changes or deletes what another has just written."""
        turns: Mapping[Member, list[Mutation]] = {member: [] for member in members}
        for _ in range(edits):
            for member in members:
                turns[member].append(self._edit(member))
        for member, mutations in turns.items():
            member.client.write(self._table, mutations)

    def _edit(self, member: Member) -> Mutation:
        row, column = f"row{self._chance.randrange(ROWS):02}", f"{self._chance.choice('fg')}:{self._chance.randrange(3)}"
        now, before = next(self._clock), self._chance.randrange(FIRST_TIMESTAMP, FIRST_TIMESTAMP + 10_000)
        kind = self._chance.random()
        if kind < 0.70:
            return wire.put(row, {column: f"{member.name} {now}".encode(), "l:own": b"local"}, timestamp=now)
        if kind < 0.78:
            return wire.delete_column(row, column, timestamp=now)
        if kind < 0.86:
            return wire.delete_version(row, column, timestamp=before)
        if kind < 0.94:
            return wire.delete_family(row, column[0], timestamp=now)
        return wire.delete_row(row, timestamp=now)


def ship_round(edges: list[Edge], name: str) -> dict[Edge, list[GroupSummary]]:
    """A batch of each peer, all at the same time."""
    with ThreadPoolExecutor(len(edges)) as pool:
        found = list(pool.map(lambda edge: ship(edge.source.at, edge.peer, run_id=name), edges))
    for edge, summaries in zip(edges, found, strict=True):
        assert {s.status for s in summaries} <= {Status.DONE}, (
            edge.source.name,
            edge.peer_cluster.name,
            [s.error for s in summaries],
        )
    return dict(zip(edges, found, strict=True))


def ship_until_quiet(edges: list[Edge], hops: int) -> tuple[int, int]:
    """Ship until every edit has arrived everywhere, and once more without effect. Returns cells shipped and entries kept back."""
    cells = kept_back = 0
    for number in range(1, hops + 2):
        for summaries in ship_round(edges, f"round{number}").values():
            operations = sum(s.shippedOps for s in summaries)
            assert operations == 0 or number <= hops, f"{operations} operations are still under way in round {number}"
            cells += sum(s.shippedCells for s in summaries)
            kept_back += sum(s.logEditsFiltered.get(FROM_PEER_CLUSTER, 0) for s in summaries)
    assert any(is_empty(edges) for _ in range(3)), "a queue holds more than the WAL that is being written"
    return cells, kept_back


def is_empty(edges: list[Edge]) -> bool:
    """Return whether each queue contains only one WAL.

    If not, a batch that ships nothing follows: after a slow write HBase begins a WAL, so an empty WAL before it is queued.
    """
    if all(len(queue.wals) == 1 for edge in edges for queue in queues(edge.source.at, edge.peer)):
        return not any(plan(edge.source.at, edge.peer).to_ship for edge in edges)
    again = ship_round(edges, f"after{secrets.token_hex(4)}")
    assert not any(s.shippedOps for summaries in again.values() for s in summaries)
    return False


def global_cells(member: Member, table: str) -> list[Cell]:
    """Return every cell and every delete marker, including deleted cells."""
    return member.client.scan_all(table, ["f", "g"], raw=True)


def assert_alike(table: str, *members: Member) -> list[Cell]:
    first, *others = (global_cells(member, table) for member in members)
    assert len(first) == len(set(first))
    for member, cells in zip(members[1:], others, strict=True):
        assert cells == first, f"{member.name} differs from {members[0].name}"
        compared = members[0].client.compare(table, member.client, families=["f", "g"])  # the cells that a reader sees
        assert compared.same, compared.examples
    return first


def assert_none_came_home(table: str, *members: Member) -> None:
    """Check that no entry's key contains a cluster's own id, as it would if the entry came back after it was consumed."""
    for member in members:
        routes = {entry.cluster_ids for entry in member.entries(table)}
        assert routes, f"the WALs of {member.name} hold nothing of {table}"
        assert not any(member.id in route for route in routes), f"an entry came back to {member.name}"
        assert all(len(set(route)) == len(route) for route in routes)


def test_a_ring_of_three_converges_and_comes_to_rest(members, create_table, lead):
    ring = a, b, c = members[:3]
    table = create_table(ring)
    edges = [lead(a, b), lead(b, c), lead(c, a)]
    writer = Writer(table)
    writer.write(a, b, c)
    first = sum(s.shippedCells for summaries in ship_round(edges, "first").values() for s in summaries)
    writer.write(a, b, c)
    more, kept_back = ship_until_quiet(edges, hops=2)
    cells = assert_alike(table, a, b, c)
    assert {cell.type for cell in cells} > {wire.CellType.PUT, wire.CellType.DELETE_FAMILY}
    assert first + more == 2 * len(cells)  # from the cluster of each write, once to each of the two others
    assert kept_back > 0
    assert_none_came_home(table, a, b, c)
    for member in ring:
        assert {cell.value for cell in member.client.scan_all(table, ["l"], raw=True)} == {b"local", b""}
    # A round with nothing new in it stays as quiet as the one before.
    assert not any(s.shippedOps for summaries in ship_round(edges, "quiet").values() for s in summaries)


def test_a_diamond_gives_its_last_cluster_each_cell_once(members, create_table, lead):
    a, b, c, d = members
    table = create_table(members)
    edges = [lead(a, b), lead(a, c), lead(b, d), lead(c, d)]
    writer = Writer(table)
    writer.write(a)
    first = sum(s.shippedCells for summaries in ship_round(edges, "first").values() for s in summaries)
    written_at_a = len(global_cells(a, table))
    writer.write(a, b, c, edits=WRITES // 2)
    more, _ = ship_until_quiet(edges, hops=2)
    at_a, at_b, at_c, at_d = (set(global_cells(member, table)) for member in members)
    assert len(at_a) > written_at_a
    assert at_a < at_b
    assert at_a < at_c
    assert at_b & at_c == at_a
    assert at_d == at_b | at_c
    assert len(global_cells(d, table)) == len(at_d)
    assert d.client.scan_all(table, ["l"]) == []
    # To b and c once; to d from each of them, because neither knows what the other ships: HBase does the same.
    assert first + more == 2 * len(at_a) + len(at_b) + len(at_c)
    assert_none_came_home(table, *members)
    routes = {frozenset(entry.cluster_ids) for entry in d.entries(table)}
    assert routes == {frozenset(route) for route in ({b.id}, {c.id}, {a.id, b.id}, {a.id, c.id})}
