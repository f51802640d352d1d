"""A serial peer gets each row's edits in the order of their writes, although regions move, split and merge and servers roll their
WALs; as HBase's own serial replication does beside it, which gets the same edits and notes the same ids.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from embedded.client import GLOBAL, JavaClientError, Region
from embedded.processes import wait_until
from embedded.wire import Mutation, put
from tests.cluster.members import Member
from tests.cluster.walferry_runs import BOTH_SINKS, positions, roll
from tests.sessions import session_of
from walferry.base.zk.client import children, connected, read
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.admin import roll_wal_writer
from walferry.hbase.values import decode_position
from walferry.jobs.workers import LocalProcesses
from walferry.replication.peers.settings import SinkKind
from walferry.shipping.plan import plan_peer
from walferry.shipping.ship_run import ShipRun, ship_queued

ROWS = [b"row%02d" % number for number in range(0, 40, 5)]
WRITES, ROUNDS, MOTIONS = 12, 3, 5


@dataclass
class Serial:
    """A table whose regions move, at a source with a serial peer of ours and one of HBase's, each with a cluster of its own."""

    source: Member
    ours: Member
    hbases: Member
    table: str
    peer: str
    hbases_peer: str

    def write(self, numbers: Iterator[int], rng: random.Random) -> None:
        self.source.client.regions(self.table)  # clears the client's cache: with a split's parent in it, a write takes a minute
        for _ in range(WRITES):
            edit = put(rng.choice(ROWS), {"f:q": b"%06d" % next(numbers)})
            wait_until(lambda edit=edit: self._written(edit), "the region is open", processes=[], timeout=60)  # type: ignore[misc]

    def _written(self, edit: Mutation) -> bool:
        try:
            self.source.client.write(self.table, [edit])
        except JavaClientError:  # the region is moving
            return False
        return True

    def move(self, rng: random.Random) -> str:
        """Move, split or merge a region, or begin new WALs. Returns what was done."""
        regions, servers = self.source.client.regions(self.table), self.source.client.region_servers()
        region, what = rng.choice(regions), rng.choice(["move", "move", "split", "merge", "roll"])
        if what == "roll":
            roll(self.source.at, self.peer)
            return what
        with suppress(JavaClientError):  # a region that still has its parents' files cannot be split or merged
            if what == "split" and (row := _middle(region)) is not None:
                self.source.client.split_region(region.encoded_name, row)
                return what
            if what == "merge" and len(regions) > 1:
                first = rng.randrange(len(regions) - 1)
                self.source.client.merge_regions(regions[first].encoded_name, regions[first + 1].encoded_name)
                return what
        self.source.client.move_region(region.encoded_name, next(s for s in servers if s != region.server))
        return "move"

    def ship(self, run_id: str, *, roll_first: bool = True) -> list[GroupSummary]:
        if roll_first:
            roll(self.source.at, self.peer)
        run = ShipRun(source=self.source.at, peer_id=self.peer, run_id=run_id, deadline=120.0)
        return ship_queued(run, LocalProcesses(2), print)

    def ids(self, peer: str) -> dict[str, int]:
        """Return the last pushed id of each region of any table, as ZooKeeper has it."""
        with connected(self.source.at.quorum) as zk:
            top = f"{self.source.at.nodes.base}/replication/regions"
            found = {}
            for first in children(zk, top) or ():
                for second in children(zk, f"{top}/{first}") or ():
                    for name in children(zk, f"{top}/{first}/{second}") or ():
                        rest, _, of_peer = name.partition("-")
                        path = f"{top}/{first}/{second}/{name}"
                        if of_peer == peer and (znode := read(zk, path)) is not None:
                            found[first + second + rest] = decode_position(znode.value, path)
            return found


def _middle(region: Region) -> bytes | None:
    rows = [row for row in ROWS if row > region.start_key and (not region.end_key or row < region.end_key)]
    return rows[len(rows) // 2] if rows else None


def first_arrivals(member: Member, table: str) -> dict[bytes, list[int]]:
    """Return the numbers written to each row, in the order in which the cluster first got them. Its table has one region."""
    numbers: dict[bytes, list[int]] = defaultdict(list)
    for entry in sorted(member.entries(table), key=lambda entry: entry.sequence_id):
        for cell in entry.cells:
            if int(cell.value) not in numbers[cell.row]:
                numbers[cell.row].append(int(cell.value))
    return numbers


@pytest.fixture
def serial(members, unique) -> Iterator[Serial]:
    source, _, ours, hbases = members
    table, peer, hbases_peer = unique("t"), unique("peer"), unique("hbases")
    for member in (ours, hbases):
        member.client.create_table(table, {"f": GLOBAL})
    source.client.create_table(table, {"f": GLOBAL}, [ROWS[len(ROWS) // 2]])
    source.client.switch_balancer(False)
    tables = {table: ["f"]}
    source.client.add_peer(hbases_peer, hbases.cluster.address.cluster_key, table_families=tables, serial=True)
    source.client.add_peer(
        peer, ours.cluster.address.cluster_key, enabled=False, configuration={"walferry.managed": "true"}, table_families=tables,
        serial=True,
    )  # fmt: skip
    yield Serial(source, ours, hbases, table, peer, hbases_peer)
    for each in (peer, hbases_peer):
        source.client.remove_peer(each)
    source.client.switch_balancer(True)


@BOTH_SINKS
def test_edits_arrive_in_order_wherever_their_regions_were(serial: Serial, sink: SinkKind) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng, numbers = random.Random(seed), itertools.count(1)
    for number in range(ROUNDS):
        done = []
        for _ in range(MOTIONS):
            serial.write(numbers, rng)
            done.append(serial.move(rng))
        serial.write(numbers, rng)
        summaries = serial.ship(f"run{number}")
        print(done, [(s.group, s.status, s.shippedOps) for s in summaries])
        assert {s.status for s in summaries} == {Status.DONE}, [s.error for s in summaries]
    written = next(numbers) - 1
    arrived = first_arrivals(serial.ours, serial.table)
    assert sum(map(len, arrived.values())) == written
    assert all(there == sorted(there) for there in arrived.values()), arrived
    wait_until(
        lambda: serial.hbases.client.scan_all(serial.table) == serial.source.client.scan_all(serial.table),
        "HBase's own peer has all edits", processes=[], timeout=120,
    )  # fmt: skip
    by_hbase = serial.ids(serial.hbases_peer)
    wait_until(lambda: serial.ids(serial.peer) == serial.ids(serial.hbases_peer), f"ids as {by_hbase}", processes=[], timeout=60)


@pytest.mark.parametrize("sink", [SinkKind.REPLICATE], indirect=True)
def test_a_group_waits_for_another_ones_open_wal_and_the_next_batch_goes_on(serial: Serial) -> None:
    serial.ship("first")
    region = serial.source.client.regions(serial.table)[0]
    before, after = (put(ROWS[0], {"f:q": value}) for value in (b"1", b"2"))
    serial.source.client.write(serial.table, [before])
    other = next(s for s in serial.source.client.region_servers() if s != region.server)
    serial.source.client.move_region(region.encoded_name, other)
    wait_until(lambda: serial.source.client.regions(serial.table)[0].server == other, "it has moved", processes=[], timeout=60)
    serial.source.client.write(serial.table, [after])
    roll_only(serial, other)
    queued = positions(serial.source.at, serial.peer)
    (waiting,) = [s for s in serial.ship("second", roll_first=False) if s.status is Status.WAITING]
    assert f"of region {region.encoded_name} of table {serial.table} waits" in (waiting.error or "")
    assert "from where it was before, are not shipped yet" in (waiting.error or "")
    assert first_arrivals(serial.ours, serial.table) == {}
    assert positions(serial.source.at, serial.peer).keys() == queued.keys()
    assert {s.status for s in serial.ship("third")} == {Status.DONE}
    assert first_arrivals(serial.ours, serial.table) == {ROWS[0]: [1, 2]}


def roll_only(serial: Serial, server: str) -> None:
    """Make one server begin a new WAL, and wait until it is queued."""
    with connected(serial.source.at.quorum) as zk:
        session = session_of(zk, serial.source.at)

        def closed() -> int:
            return sum(len(group.wals) for group in plan_peer(session, serial.peer).groups)

        before = closed()
        roll_wal_writer(ServerName.parse(server), login=serial.source.at.login, timeout=30.0)
        wait_until(lambda: closed() > before, "the new WAL is queued", processes=[], timeout=30)
