"""The files of two peers are made together, on real clusters: a source with two RegionServers, and two peer clusters.

The peer clusters differ in a table's region borders and in how its files are written.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pytest

from embedded.client import GLOBAL
from tests.cluster import walferry_runs
from tests.cluster.loads import die_after, die_before, folders_left, mortal_run, records_left
from tests.cluster.members import Member
from tests.cluster.test_hfiles import FAMILIES, ROWS, counted, repeated
from tests.cluster.walferry_runs import plan, roll, ship
from walferry.base.errors import WalferryError
from walferry.engine.summary import Status
from walferry.hbase.hfiles.writer import WrittenFile
from walferry.hbase.rpc import bulk_load
from walferry.load.records import LoadFolder
from walferry.replication.peers.settings import SinkKind
from walferry.replication.queues.lease import Lease
from walferry.shipping.bulkload import peer_load, region_files
from walferry.shipping.runs import read_run

pytestmark = pytest.mark.parametrize("sink", [SinkKind.HFILES], indirect=True)

STEPS = {
    "before the first record": die_before(peer_load, "begin_load"),
    "before the second record": die_before(peer_load, "begin_load", 2),
    "before a folder is made": die_before(bulk_load, "prepare", 3),
    "once a folder is noted": die_after(LoadFolder, "note", 4),
    "before a load": die_before(bulk_load, "load"),
    "after the first load": die_after(bulk_load, "load"),
    "before the third load": die_before(bulk_load, "load", 3),
    "after the fourth load": die_after(bulk_load, "load", 4),
    "before the partner's note": die_before(peer_load, "note_done"),
    "after the partner's note": die_after(peer_load, "note_done"),
    "before the lead's note": die_before(peer_load, "note_done", 2),
    "after the lead's note": die_after(peer_load, "note_done", 2),
    "between two WALs that leave the queues": die_after(Lease, "remove_wal", 2),
    "once all WALs have left": die_before(walferry_runs, "forget_finished"),
}


@dataclass(frozen=True)
class World:
    """A source, two peer clusters, a peer of each, and a table of all three."""

    source: Member
    clusters: Sequence[Member]
    peers: Sequence[str]
    table: str

    def write(self, chance: random.Random, count: int = 150) -> None:
        """Write edits of few keys, into two WALs of each server."""
        for _ in range(2):
            self.source.client.write(self.table, list(repeated(chance, count)))
            self.source.client.write(self.table, [*repeated(chance, 20), *counted(chance, 10)], one_by_one=True)
            self.source.client.roll_wals()

    def ship(self, run_id: str = "test") -> None:
        """Make the files of both peers."""
        lead, other = self.peers
        summaries = ship(self.source.at, lead, run_id=run_id, also=[other], roll_first=False)
        assert {s.status for s in summaries} <= {Status.DONE}, [s.error for s in summaries]

    def ship_rest(self, run_id: str) -> None:
        """Ship what is left, each peer by its own run."""
        for peer in self.peers:
            summaries = ship(self.source.at, peer, run_id=run_id, roll_first=False)
            assert {s.status for s in summaries} <= {Status.DONE}, [s.error for s in summaries]

    def check(self) -> None:
        """Check that both clusters have all cells, and that nothing is left over."""
        for cluster, peer in zip(self.clusters, self.peers, strict=True):
            compared = self.source.client.compare(self.table, cluster.client, raw=True)
            assert compared.same, (cluster.name, compared.examples)
            assert compared.left > ROWS
            assert not plan(self.source.at, peer).to_ship
            assert records_left(self.source.at, peer) == []
            left = folders_left(cluster.cluster.address, self.table)
            assert [folder for folder, files in left.items() if files] == []


@pytest.fixture
def world(members, managed_peer, unique: Callable[[str], str]) -> World:
    source, *clusters = members[:3]
    table = unique("shared")
    for member, splits in zip((source, *clusters), ((b"row08",), (b"row05", b"row11"), (b"row03", b"row11")), strict=True):
        member.client.create_table(table, dict.fromkeys(FAMILIES, GLOBAL), splits, versions=1_000)
        member.client.switch_compaction(table, False)
        for family in FAMILIES:
            member.client.alter_family(table, family, {"KEEP_DELETED_CELLS": "TRUE"})
    clusters[1].client.alter_family(table, FAMILIES[1], {"DATA_BLOCK_ENCODING": "FAST_DIFF"})
    peers = [managed_peer(source.cluster.address, cluster.cluster.address) for cluster in clusters]
    made = World(source, clusters, peers, table)
    for peer in peers:  # the second one's queue begins later
        roll(source.at, peer)
    made.ship_rest("before")
    return made


def test_both_clusters_get_all_cells_and_a_file_that_fits_both_is_written_once(world, monkeypatch) -> None:
    """The files of family f in the two regions that a region of the other cluster contains as a whole."""
    copied: list[int] = []
    real = region_files._KeptFile.copy

    def copy(kept: region_files._KeptFile, write: region_files.Write) -> WrittenFile:
        copied.append(kept.written.cells)
        return real(kept, write)

    monkeypatch.setattr(region_files._KeptFile, "copy", copy)
    world.write(random.Random(1))
    world.ship()
    assert len(copied) == 2
    world.check()


def test_what_was_shipped_to_the_partner_is_in_its_own_run(world) -> None:
    world.write(random.Random(2))
    world.ship("together")
    with walferry_runs.open_session(world.source.at) as session:
        lead, other = (read_run(session, peer, "together") for peer in world.peers)
    assert [s.status for s in other] == [Status.DONE] * 2
    assert [(s.group, s.shippedCells, s.completedLogs) for s in other] == [
        (s.group, s.shippedCells, s.completedLogs) for s in lead
    ]
    world.check()


def test_a_run_may_be_killed_at_each_step(world) -> None:
    chance = random.Random(9)
    for number, (step, deaths) in enumerate(STEPS.items()):
        print(step)
        world.write(chance, 60)
        with mortal_run(deaths) as mortal, suppress(WalferryError):  # of another thread, whose session has ended
            ship(world.source.at, world.peers[0], run_id=f"killed{number}", also=world.peers[1:], roll_first=False)
        assert mortal.dead, step
        if number % 2:
            world.ship(f"killed{number}")
        world.ship_rest(f"killed{number}")
        world.check()
