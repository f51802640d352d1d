"""A model of an HBase 3 cluster with one peer: its WALs, its rows in hbase:replication, and all who change them.

Beside Walferry, these act in random order, between any two of Walferry's calls:

    servers       write, roll, archive and die; while the peer is enabled they ship, and set offsets blindly
    the Master    splits a dead server's WALs, adds a missing row, then has live servers claim its rows (AssignReplicationQueues-
                  Procedure); its log cleaner deletes WALs (ReplicationLogCleaner)

A WAL's entries are numbered, and a position counts entries. `World.check` holds the invariants. Walferry's own code reads and
writes through functions that this model replaces: those of in_table.py and table_writes.py that call HBase and list folders.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.files.listing import WalFile, WalPlace
from walferry.hbase.names import WalName, parse_wal_name
from walferry.hbase.queue_table import BEGIN, QUEUE_TABLE, GroupOffset, parse_offset, parse_queue_row
from walferry.replication.queues.in_table import QueueRow

PEER = "p"
MOST_SERVERS = 3


class Killed(Exception):
    """Walferry's process was killed."""


class PeerEnabled(Exception):
    """The check in ZooKeeper found the peer enabled."""


@dataclass
class Wal:
    """A WAL's file. `shipped` is how many of its first entries the peer cluster has."""

    name: WalName
    server: str
    entries: int = 0
    shipped: int = 0
    closed: bool = False
    archived: bool = False


@dataclass
class World:
    """The cluster. `dead` has the dead servers that the Master is not done with, and what it does next."""

    random: random.Random
    live: list[str] = field(default_factory=list)
    dead: dict[str, str] = field(default_factory=dict)
    wals: dict[str, Wal] = field(default_factory=dict)
    rows: dict[str, dict[str, bytes]] = field(default_factory=dict)
    enabled: bool = False
    calm: bool = False  # nothing happens by itself
    kills: bool = False
    clock: int = 1_700_000_000_000
    deleted: int = 0
    claims: int = 0
    blind: int = 0

    def start_server(self) -> None:
        self.clock += 1
        server = f"rs{len(self.wals)},16020,{self.clock}"
        self.live.append(server)
        self.new_wal(server)

    def new_wal(self, server: str) -> None:
        self.clock += 1
        name = parse_wal_name(f"{server.replace(',', '%2C')}.{self.clock}")
        self.wals[name.text] = Wal(name, server)

    def of(self, server: str) -> list[Wal]:
        return sorted((wal for wal in self.wals.values() if wal.server == server), key=lambda wal: wal.name.timestamp)

    def step(self) -> None:
        """Let something happen."""
        if self.calm:
            return
        shipping = (self._switch, self._hbase_ships)
        server = (self._write, self._write, self._roll, self._archive, self._die)
        happening = self.random.choice((*shipping, *server, self._master, self._master, self._clean))
        happening()

    def settle(self) -> None:
        """Let the Master finish with all dead servers, and nothing else happen any more."""
        self.enabled, self.calm = False, True
        if not self.live:
            self.start_server()
        while self.dead:
            self._master()
        for server in self.live:
            self.of(server)[-1].closed = True
            self.new_wal(server)

    def read_rows(self) -> list[QueueRow]:
        found = []
        for row, offsets in sorted(self.rows.items()):
            owner, queue_id = parse_queue_row(row.encode())
            found.append(QueueRow(owner, queue_id, dict(offsets)))
        return found

    def mutate(self, mutations: Sequence[pb.MutationProto], conditions: Sequence[pb.Condition]) -> bool:
        """Do as MultiRowMutationEndpoint, if the process lives that long."""
        self.step()
        self._maybe_kill()
        for condition in conditions:
            wanted = pb.BinaryComparator.FromString(condition.comparator.serialized_comparator).comparable.value
            if self.rows.get(condition.row.decode(), {}).get(condition.qualifier.decode(), b"") != wanted:
                return False
        for mutation in mutations:
            self._change(mutation)
        self._maybe_kill()
        self.step()
        return True

    def _change(self, mutation: pb.MutationProto) -> None:
        row = mutation.row.decode()
        if mutation.mutate_type == pb.MutationProto.PUT:
            cells = self.rows.setdefault(row, {})
            cells |= {each.qualifier.decode(): each.value for each in mutation.column_value[0].qualifier_value}
            return
        owner, queue_id = parse_queue_row(mutation.row)
        (server,) = queue_id.dead_servers or (owner,)
        # Otherwise the Master would add the row again, from the beginning.
        assert server not in self.live, f"{row} is deleted, and its server lives"
        assert self.dead.get(server, "claim") == "claim", f"{row} is deleted, and the Master may still add it"
        self.rows.pop(row, None)

    def deliver(self, wal: Wal, start: int, end: int) -> None:
        """Have the peer cluster take entries. No entry before them may be missing there."""
        assert start <= wal.shipped, f"{wal.name}: entries {wal.shipped} to {start} are left out"
        wal.shipped = max(wal.shipped, end)

    def check(self) -> None:
        """Check that all before each offset is shipped."""
        for row in self.read_rows():
            for group in row.offsets:
                offset = _offset(row, group)
                for wal in self.of(row.server):
                    if wal.name.group == group:
                        position = offset.position_of(wal.name)
                        assert (wal.entries if position is None else position) <= wal.shipped, f"{row.row}: {offset} {wal}"

    def _maybe_kill(self) -> None:
        if self.kills and self.random.random() < 0.05:
            raise Killed

    def _write(self) -> None:
        for server in self.live:
            self.of(server)[-1].entries += self.random.randrange(3)

    def _roll(self) -> None:
        if self.live:
            server = self.random.choice(self.live)
            self.of(server)[-1].closed = True
            self.new_wal(server)

    def _archive(self) -> None:
        for wal in self.wals.values():
            if wal.closed and self.random.random() < 0.3:
                wal.archived = True

    def _die(self) -> None:
        if self.live and self.random.random() < 0.3:
            server = self.random.choice(self.live)
            self.live.remove(server)
            self.dead[server] = "split"
        if len(self.live) < MOST_SERVERS:
            self.start_server()

    def _master(self) -> None:
        if not self.dead or not self.live:
            return
        server = self.random.choice(list(self.dead))
        if self.dead[server] == "split":
            for wal in self.of(server):
                wal.closed = wal.archived = True
            self.dead[server] = "add"
        elif self.dead[server] == "add":
            if f"{PEER}-{server}" not in self.rows:
                self.rows[f"{PEER}-{server}"] = {server: b":0"}
            self.dead[server] = "claim"
        else:
            mine = [row for row in self.read_rows() if row.owner == server]
            if not mine:
                del self.dead[server]
                return
            row, to = mine[0], self.random.choice(self.live)
            del self.rows[row.row]
            new = self.rows.setdefault(f"{PEER}-{to}/{row.server}", {})
            new |= row.offsets  # as HBase's put
            self.claims += 1

    def _clean(self) -> None:
        """Delete archived WALs as ReplicationLogCleaner does."""
        offsets: dict[str, dict[str, GroupOffset]] = {}
        for row in self.read_rows():
            offsets.setdefault(row.server, {}).update({group: _offset(row, group) for group in row.offsets})
        for wal in list(self.wals.values()):
            if not wal.archived:
                continue
            not_fully_dead = wal.server in self.live or wal.server in self.dead
            mine = offsets.get(wal.server)
            queued = mine is not None and mine.get(wal.name.group, BEGIN).position_of(wal.name) is not None
            if not (not_fully_dead if mine is None else queued):
                assert wal.shipped == wal.entries, f"{wal} is deleted unshipped: {self.rows}"
                del self.wals[wal.name.text]
                self.deleted += 1

    def _switch(self) -> None:
        self.enabled = not self.enabled and self.random.random() < 0.2

    def _hbase_ships(self) -> None:
        """Ship the queue of a live server from its offset, and set the offset blindly."""
        if not self.enabled:
            return
        for row in self.read_rows():
            if row.owner not in self.live:
                continue
            for wal in self.of(row.server):
                position = _offset(row, wal.name.group).position_of(wal.name)
                if position is not None and wal.entries:
                    end = self.random.randint(position, wal.entries)
                    self.deliver(wal, position, end)
                    done = wal.closed and end == wal.entries
                    if wal.name.group in self.rows.get(row.row, {}):
                        self.rows[row.row][wal.name.group] = f"{wal.name}:{-1 if done else end}".encode()
                        self.blind += 1
                    break


def _offset(row: QueueRow, group: str) -> GroupOffset:
    return parse_offset(row.offsets[group], "") if group in row.offsets else BEGIN


@contextmanager
def in_place_of_hbase(world: World, monkeypatch: Any) -> Iterator[None]:
    """Let Walferry's code read and write the model."""
    from walferry.replication.queues import in_table, table_writes

    def rows(_: object, peer_id: str | None, problems: object = None) -> list[QueueRow]:
        world.step()
        return world.read_rows()

    def mutate(_: object, table: str, mutations: Sequence[pb.MutationProto], conditions: Sequence[pb.Condition] = ()) -> bool:
        assert table == QUEUE_TABLE
        return world.mutate(mutations, conditions)

    def files(_: object, folders: set[str]) -> Iterator[WalFile]:
        """List WALs, and then oldWALs; much may happen in between."""
        first = [wal.name for wal in world.wals.values() if not wal.archived]
        folders.update(wal.server for wal in world.wals.values() if not wal.archived)
        for _ in range(world.random.randrange(4)):
            world.step()
        yield from (WalFile(name, "", 0, None, WalPlace.SERVER) for name in first)
        yield from (WalFile(wal.name, "", 0, None, WalPlace.OLD) for wal in world.wals.values() if wal.archived)

    @contextmanager
    def tables(*_: object) -> Iterator[None]:
        yield None

    with monkeypatch.context() as patched:
        for module in (in_table, table_writes):
            patched.setattr(module, "read_rows", rows)
        patched.setattr(in_table, "queue_tables", tables)
        patched.setattr(in_table, "stored_wals", files)
        patched.setattr(in_table, "live_servers", lambda *_: list(world.live))
        patched.setattr(table_writes, "is_live", lambda _, __, server: server in world.live)
        patched.setattr(table_writes, "mutate", mutate)
        yield
