"""Walferry's writes to HBase 3's table of queues, beside HBase's own and a killed holder's, in random order."""

from __future__ import annotations

import random
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.replication.queues.queue_table_model import PEER, Killed, PeerEnabled, World, in_place_of_hbase
from walferry.hbase.names import ServerName
from walferry.replication.queues.errors import LastWal, WalGone
from walferry.replication.queues.in_table import read_group, read_queues
from walferry.replication.queues.queue import Queue, QueuedWal, closed_groups
from walferry.replication.queues.table_writes import TableWrites
from walferry.shipping.candidates import candidates

ROUNDS = 12
SESSION: Any = SimpleNamespace(
    zk=None, nodes=None, store=None, source=SimpleNamespace(login=None, wal_root="file:///hbase"), own=None, look_only=False
)


def holder(world: World, group: str) -> TableWrites:
    def write(_: object) -> Any:
        world.step()
        if world.enabled:
            raise PeerEnabled

    return TableWrites(SESSION, PEER, group, write)


def ship(world: World, writes: TableWrites, group: str, queues: list[Queue], late: list[tuple[TableWrites, str, int]]) -> None:
    """Ship a group's closed WALs as an attempt does. The writes of a holder that is killed may still come `late`."""
    writes.saw(queues)
    for queue in queues:
        for queued in closed_groups(queue).get(group, ()):
            if not _ship_wal(world, writes, queued, late):
                return


def _ship_wal(world: World, writes: TableWrites, queued: QueuedWal, late: list[tuple[TableWrites, str, int]]) -> bool:
    wal = world.wals.get(queued.name.text)
    if wal is None:
        return True  # another has shipped it, and HBase has deleted it
    if not wal.closed:
        return False
    position = queued.position
    while position < wal.entries:
        world.step()
        end = world.random.randint(position + 1, wal.entries)
        world.deliver(wal, position, end)
        position = end
        late.append((writes, queued.name.text, end))
        writes.register_position(queued.name.text, end)
        world.check()
    try:
        writes.remove_wal(queued.name.text)
    except LastWal:
        return False
    world.check()
    return True


def live_through(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        world.start_server()
    late: list[tuple[TableWrites, str, int]] = []
    with in_place_of_hbase(world, monkeypatch):
        world.kills = True
        for _ in range(ROUNDS):
            for _ in range(world.random.randrange(6)):
                world.step()
            places = {each.group: each.place for each in candidates(read_queues(SESSION, PEER))}
            for group, place in places.items():
                seen = place if world.random.random() < 0.7 else None
                with suppress(Killed, PeerEnabled, WalGone):
                    ship(world, holder(world, group), group, read_group(SESSION, PEER, group, seen), late)
                if late and world.random.random() < 0.3:
                    writes, wal, end = world.random.choice(late)
                    with suppress(Killed, PeerEnabled, WalGone):
                        writes.register_position(wal, end)
                world.check()
        world.kills = False
        world.settle()
        for _ in range(3):
            for queue in read_queues(SESSION, PEER):
                for group in closed_groups(queue):
                    ship(world, holder(world, group), group, read_group(SESSION, PEER, group, None), [])
                if queue.id.recovered and not queue.wals:
                    group = ServerName.parse(queue.id.dead_servers[0]).encoded()
                    holder(world, group).remove_empty_queue(queue.server, str(queue.id))
        world.check()
        assert all(wal.shipped == wal.entries for wal in world.wals.values() if wal.closed)
        assert not [row.row for row in world.read_rows() if row.id.recovered], "no row of a dead server is left"


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_and_each_dead_server_s_row_goes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    live_through(World(random.Random(seed)), monkeypatch)


@pytest.mark.soak
def test_nothing_is_lost_in_three_thousand_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [0, 0, 0]
    for seed in range(1000, 4000):
        world = World(random.Random(seed))
        live_through(world, monkeypatch)
        counts = [a + b for a, b in zip(counts, (world.deleted, world.claims, world.blind), strict=True)]
    assert all(counts), counts
    print("WALs that the cleaner deleted, claims, blind offsets:", counts)
