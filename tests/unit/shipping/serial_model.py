"""A model of HBase's regions, WALs, barriers and pushed ids under a serial peer, and of attempts to ship the WALs.

Everything happens in small steps in random order: regions move, split and merge, servers die, WALs are rolled, entries are handed
out, delivered, acknowledged and committed, attempts are killed, and HBase cleans barriers up. The steps of a region are those of
TransitRegionStateProcedure and of a RegionServer that opens it:

    close marker in the WAL, OPENING in hbase:meta, open marker in the new server's WAL, report, writes; OPEN and the barrier

Only entries, barriers and ids are modelled. Barriers come late: the Master stores a report before it writes the barrier.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np

from walferry.engine.in_flight import WalOffset
from walferry.hbase.tables.barriers import UNKNOWN, Barriers
from walferry.hbase.tables.regions import encoded_name_in
from walferry.hbase.wal.scan import EntryIndex
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.rules import FilterRules
from walferry.shipping.serial_order import SerialOrder

SENDERS = 2
SERVERS = 3
MOST_REGIONS = 8
NOTHING = -1
_TABLE, _ROW_CELL = b"t", bytes(12) + b"\0\1r"  # the cell as far as its row


@dataclass(frozen=True)
class Entry:
    """An entry of a WAL: the `number`th of its region."""

    region: bytes
    sequence_id: int
    number: int


@dataclass
class Region:
    """A region. `writes_on` is the server that takes its writes, `opening_on` the one that has only written the open marker."""

    name: bytes
    next_id: int
    parents: tuple[bytes, ...] = ()
    writes_on: int | None = None
    opening_on: int | None = None
    barrier: int | None = None  # of the opening under way: not in hbase:meta yet
    replaced: bool = False  # split or merged
    entries: list[Entry] = field(default_factory=list)
    delivered: int = 0  # so many of its entries have reached the sink at least once

    @property
    def full_name(self) -> bytes:
        return b"t,,1." + self.name + b"."


@dataclass
class MetaRow:
    """A region's row in hbase:meta."""

    barriers: list[int] = field(default_factory=list)
    parents: tuple[bytes, ...] = ()
    opening: bool = False


@dataclass
class Group:
    """A server's WALs, the newest one last. `first` and `offset` are its queue: the oldest WAL, and the entries done in it."""

    alive: bool = True
    wals: list[list[Entry]] = field(default_factory=lambda: [[]])
    first: int = 0
    offset: int = 0
    held: bool = False

    @property
    def closed(self) -> int:
        return len(self.wals) - self.alive


class Cluster:
    """The source, the peer's ids, and the sink. Fails at the first edit that reaches the sink out of order."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.regions: dict[bytes, Region] = {}
        self.meta: dict[bytes, MetaRow] = {}
        self.groups = [Group() for _ in range(SERVERS)]
        self.pushed: dict[bytes, int] = {}
        for _ in range(3):
            self.open_whole(self.create(rng.randint(1, 3)))

    @property
    def live(self) -> list[int]:
        return [number for number, group in enumerate(self.groups) if group.alive]

    def create(self, next_id: int, parents: tuple[Region, ...] = ()) -> Region:
        region = Region(b"%032x" % self.rng.getrandbits(128), next_id, tuple(parent.name for parent in parents))
        self.regions[region.name] = region
        self.meta[region.name] = MetaRow(parents=tuple(parent.full_name for parent in parents))
        return region

    def append(self, region: Region, server: int) -> None:
        entry = Entry(region.name, region.next_id, len(region.entries))
        region.entries.append(entry)
        self.groups[server].wals[-1].append(entry)
        region.next_id += 1 if self.rng.random() < 0.7 else self.rng.randint(2, 4)  # some ids are in no WAL

    def act(self) -> None:
        """Do one random thing."""
        regions = [region for region in self.regions.values() if not region.replaced]
        region, chance = self.rng.choice(regions), self.rng.random()
        if region.writes_on is None and chance < 0.6:
            self.opened(region) if region.opening_on is not None else self.opening(region, self.rng.choice(self.live))
        elif region.writes_on is not None and chance < 0.4:
            self.append(region, region.writes_on)
        elif region.barrier is not None and region.writes_on is not None and chance < 0.6:
            self.write_barrier(region)
        elif self.is_open(region) and chance < 0.55:
            self.close(region)
        elif self.is_open(region) and chance < 0.6:
            self.split(region)
        elif self.is_open(region) and chance < 0.65:
            self.merge(region, self.rng.choice(regions))
        elif chance < 0.7:
            self.die(self.rng.choice(self.live))
        elif chance < 0.85:
            self.groups[self.rng.choice(self.live)].wals.append([])
        elif chance < 0.9:
            self.clean_barriers()

    def is_open(self, region: Region) -> bool:
        return region.writes_on is not None and region.barrier is None

    def opening(self, region: Region, server: int) -> None:
        """Note OPENING, then write the open marker, whose id is greater than the barrier to come."""
        self.meta[region.name].opening = True
        region.opening_on, region.barrier = server, region.next_id
        region.next_id += 1
        self.append(region, server)

    def opened(self, region: Region) -> None:
        """The server has reported, and takes writes."""
        region.writes_on, region.opening_on = region.opening_on, None

    def write_barrier(self, region: Region) -> None:
        assert region.barrier is not None
        row = self.meta[region.name]
        row.barriers.append(region.barrier)
        row.opening, region.barrier = False, None

    def open_whole(self, region: Region) -> None:
        self.opening(region, self.rng.choice(self.live))
        self.opened(region)
        self.write_barrier(region)

    def close(self, region: Region) -> None:
        assert region.writes_on is not None
        self.append(region, region.writes_on)  # the close marker
        region.next_id = region.entries[-1].sequence_id + 1  # as a server that opens it finds it
        region.writes_on = None

    def replace(self, parents: tuple[Region, ...], children: int) -> None:
        for parent in parents:
            self.close(parent)
            parent.replaced = True
            self.meta[parent.name].barriers.append(parent.next_id)
        for _ in range(children):
            self.create(max(parent.next_id for parent in parents), parents)

    def split(self, region: Region) -> None:
        if sum(not each.replaced for each in self.regions.values()) < MOST_REGIONS:
            self.replace((region,), 2)

    def merge(self, one: Region, other: Region) -> None:
        if one is not other and self.is_open(other):
            self.replace((one, other), 1)

    def die(self, server: int) -> None:
        """A server dies, and another one starts. The Master ends what it has stored: the barriers of reported openings."""
        mine = [region for region in self.regions.values() if server in (region.writes_on, region.opening_on)]
        if any(region.opening_on == server for region in mine):
            return  # a marker of an opening that never ended would belong to no range, to HBase's checker too
        for region in mine:
            if region.barrier is not None:
                self.write_barrier(region)
            region.next_id = region.entries[-1].sequence_id + 1
            region.writes_on = None
        self.groups[server].alive = False
        self.groups.append(Group())

    def clean_barriers(self) -> None:
        """ReplicationBarrierCleaner.chore, for one serial peer."""
        for name, row in list(self.meta.items()):
            pushed, barriers = self.pushed.get(name, NOTHING), sorted(row.barriers)
            number = bisect_right(barriers, pushed)
            if not barriers or number == 0:
                continue
            if number == len(barriers) - 1 and pushed == barriers[-1] - 1 and self.regions[name].replaced:
                self.pushed.pop(name, None)
                row.barriers = []
            elif number > 1:
                row.barriers = barriers[number - 1 :]

    # The sink

    def deliver(self, entry: Entry) -> None:
        """An entry reaches the sink. The first time, all before it must have been there: of its region, and of its parents."""
        region = self.regions[entry.region]
        assert entry.number <= region.delivered, f"{entry} before number {region.delivered} of its region"
        for name in region.parents:
            parent = self.regions[name]
            assert parent.delivered == len(parent.entries), f"{entry} before its parent's number {parent.delivered}"
        region.delivered = max(region.delivered, entry.number + 1)

    # What HBase's checker would say

    def may_push(self, entry: Entry, pushed: int, *, opening: bool) -> bool:
        """SerialReplicationChecker.canPush, if the last pushed id of the entry's region is `pushed`, and it is `opening`."""
        row = self.meta[entry.region]
        barriers = sorted(row.barriers)
        number = bisect_right(barriers, entry.sequence_id)
        if entry.sequence_id == pushed + 1 or number == 0:
            return True
        if number == len(barriers) and opening:
            return False
        if number > 1:
            return pushed >= barriers[number - 1] - 1
        ends = {name: self.meta[encoded_name_in(name)].barriers for name in row.parents}
        return all(not end or self.pushed.get(encoded_name_in(name), NOTHING) >= max(end) - 1 for name, end in ends.items())

    # Lookups of SerialOrder

    def barriers(self, table: str, row: bytes, encoded_name: bytes) -> Barriers:
        found = self.meta.get(encoded_name)
        return Barriers(tuple(sorted(found.barriers)), found.parents, found.opening) if found else UNKNOWN

    def barriers_of(self, region: bytes) -> Barriers:
        return self.barriers("t", b"", encoded_name_in(region))

    def last_pushed(self, encoded_name: str) -> int:
        return self.pushed.get(encoded_name.encode(), NOTHING)


@dataclass
class _Lookups:
    cluster: Cluster

    def barriers(self, table: str, row: bytes, encoded_name: bytes) -> Barriers:
        assert (table, row) == ("t", b"r")
        return self.cluster.barriers(table, row, encoded_name)

    def barriers_of(self, region: bytes) -> Barriers:
        return self.cluster.barriers_of(region)

    def last_pushed(self, encoded_name: str) -> int:
        return self.cluster.last_pushed(encoded_name)

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class Queued:
    """An entry on its way, and its place in the group's row of WALs."""

    entry: Entry
    place: WalOffset


class Attempt:
    """One attempt at a group, as the engine makes it. Each `next` of `steps` is a moment at which it may be killed."""

    def __init__(self, cluster: Cluster, group: Group) -> None:
        self.cluster = cluster
        self.group = group
        self.order = SerialOrder(_Lookups(cluster))
        self.senders: list[list[Queued]] = [[] for _ in range(SENDERS)]
        self.first = group.first
        self.read = WalOffset(0, group.offset)
        self.handed: dict[bytes, int] = {}
        self.further = False
        self.steps = self._steps(list(range(group.first, group.closed)), group.offset)
        group.held = True

    def _steps(self, wals: list[int], offset: int) -> Generator[None]:
        for number, wal in enumerate(wals):
            entries = self.group.wals[wal]
            at = offset if number == 0 else 0
            while at < len(entries):
                count = self.cluster.rng.randint(1, 6)
                while count and at < len(entries):
                    some = entries[at : at + count]
                    ready = self.order.ready(number, batch_of(some, at), RULES)
                    self._hand_out(some[:ready], number, at)
                    at, count = at + ready, len(some) - ready
                    yield
                    if count and not ready:
                        yield from self._drain()
                        if not self.order.ready(number, batch_of(some[:1], at), RULES):
                            self._check_waits(some[0])
                            return
                        self._hand_out(some[:1], number, at)
                        at, count = at + 1, count - 1
            self.read = WalOffset(number + 1, 0)
            yield
        yield from self._drain()

    def _hand_out(self, entries: list[Entry], wal: int, at: int) -> None:
        if entries:
            self.order.handing_out(wal, batch_of(entries, at), RULES)
        for number, entry in enumerate(entries):
            pushed = max(self.cluster.pushed.get(entry.region, NOTHING), self.handed.get(entry.region, NOTHING))
            # the region may have been OPEN when the WAL's barriers were looked up, which is enough
            assert self.cluster.may_push(entry, pushed, opening=False), f"HBase would not push {entry} yet"
            self.handed[entry.region] = entry.sequence_id
            self.senders[hash(entry.region) % SENDERS].append(Queued(entry, WalOffset(wal, at + number)))
            self.read = WalOffset(wal, at + number + 1)
            self.further = True

    def _check_waits(self, entry: Entry) -> None:
        row = self.cluster.meta[entry.region]
        if row.opening and row.parents and not row.barriers:
            return  # HBase's checker would push it, even before its parents' entries
        pushed = self.cluster.pushed.get(entry.region, NOTHING)
        assert not self.cluster.may_push(entry, pushed, opening=row.opening), f"HBase would push {entry}"

    def _drain(self) -> Iterator[None]:
        while any(self.senders):
            self.acknowledge()
            yield
        self.commit()

    def acknowledge(self) -> None:
        """Some sender's requests reach the sink, in order, and are acknowledged."""
        queue = self.cluster.rng.choice([queue for queue in self.senders if queue])
        for _ in range(self.cluster.rng.randint(1, len(queue))):
            self.cluster.deliver(queue.pop(0).entry)

    def commit(self, *, killed: bool = False) -> None:
        """Raise the ids and move the position, in this order. A killed commit may have done only the first."""
        watermark = min([self.read, *(queue[0].place for queue in self.senders if queue)])
        for region, pushed in self.order.pushed(watermark).items():
            self.cluster.pushed[region.encode()] = max(self.cluster.pushed.get(region.encode(), NOTHING), pushed)
        if not killed:
            self.group.first, self.group.offset = self.first + watermark.wal, watermark.offset

    def kill(self) -> None:
        """The process ends. Of each sender, requests under way may still reach the sink."""
        if self.cluster.rng.random() < 0.5:
            self.commit(killed=self.cluster.rng.random() < 0.5)
        for queue in self.senders:
            for queued in queue[: self.cluster.rng.randint(0, len(queue))]:
                self.cluster.deliver(queued.entry)
        self.end()

    def end(self) -> None:
        self.steps.close()
        self.group.held = False

    def step(self) -> bool:
        """Go on by one step. Returns whether the attempt is at work after it."""
        chance = self.cluster.rng.random()
        if chance < 0.3 and any(self.senders):
            self.acknowledge()
        elif chance < 0.4:
            self.commit()
        elif next(self.steps, self) is self:
            self.end()
            return False
        return True


RULES = FilterRules(UUID(int=1), UUID(int=2))


def batch_of(entries: list[Entry], at: int) -> WalBatch:
    """Return entries of a WAL as a batch whose offsets are the entries' numbers in the WAL."""
    count, size = len(entries), 33 + len(_ROW_CELL)
    buf = np.frombuffer(b"".join(_TABLE + entry.region + _ROW_CELL for entry in entries), np.uint8)
    starts = np.arange(count, dtype=np.int64) * size
    numbers = np.arange(at, at + count + 1, dtype=np.int64)
    index = EntryIndex(
        entry_start=starts, key_start=starts, key_end=starts + 33, cells_start=starts + 33, cells_end=starts + size,
        cell_count=np.ones(count, np.int64), sequence_id=np.array([entry.sequence_id for entry in entries], np.int64),
        write_time=starts, region_start=starts + 1, region_len=np.full(count, 32), table_start=starts,
        table_len=np.ones(count, np.int64), region_hash=starts.view(np.uint64), cluster_id_count=starts,
    )  # fmt: skip
    return WalBatch(buf, 0, index, numbers[:-1], numbers[1:])
