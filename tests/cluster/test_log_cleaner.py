"""HBase's own log cleaner deletes shipped WALs, and none that is still queued."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import pytest

from embedded.client import GLOBAL
from embedded.hbase import QUICK_LOG_CLEANER
from embedded.standalone import StandaloneCluster
from embedded.wire import put
from tests.cluster.conftest import Sides
from tests.cluster.test_shipping import archive, eventually, located
from tests.cluster.walferry_runs import plan, positions, roll, ship_one, source_of
from walferry.engine.summary import Status
from walferry.replication.retention.survey import Fate, survey
from walferry.replication.source.session import open_session

MAX_LOGS = 3
TTL_SECONDS = int(QUICK_LOG_CLEANER["hbase.master.logcleaner.ttl"]) / 1000


@pytest.fixture(scope="module")
def quick_cluster(cluster_folder) -> Iterator[StandaloneCluster]:
    """A source that keeps few WALs open, and whose cleaner deletes unneeded WALs within seconds, not after ten minutes."""
    settings = {**QUICK_LOG_CLEANER, "hbase.regionserver.maxlogs": str(MAX_LOGS)}
    with StandaloneCluster(cluster_folder / "quick", settings, name="quick") as cluster:
        yield cluster


@pytest.fixture
def quick(sides, quick_cluster, java_client) -> Sides:
    """The pair with this source."""
    address = quick_cluster.address
    return dataclasses.replace(sides, source_cluster=quick_cluster, source=java_client(address), at=source_of(address))


@pytest.fixture
def table(quick, unique) -> str:
    name = unique("t")
    for client in (quick.source, quick.peer_cluster):
        client.create_table(name, {"f": GLOBAL})
    return name


def test_it_takes_shipped_wals_and_none_that_is_queued(quick, table, managed_peer):
    peer = managed_peer(quick.source_cluster.address, quick.peer_hbase.address)
    quick.source.write(table, [put("r1", {"f:a": b"1"})])
    roll(quick.at, peer)
    first = [wal.name for group in plan(quick.at, peer).groups for wal in group.wals]
    archive(quick, first)
    time.sleep(6)  # two rounds of the cleaner, and more than its TTL
    assert all(located(quick, wal) for wal in first)
    assert ship_one(quick.at, peer).status is Status.DONE
    queued = positions(quick.at, peer)
    assert not queued.keys() & set(first)
    eventually(lambda: not any(located(quick, wal) for wal in first), f"{first} are deleted")
    assert all(located(quick, wal) for wal in queued)


def test_wals_that_are_too_many_are_archived_although_nobody_flushes_and_are_shipped_from_there(quick, table, managed_peer):
    peer = managed_peer(quick.source_cluster.address, quick.peer_hbase.address)
    for number in range(MAX_LOGS + 3):
        quick.source.write(table, [put(f"r{number}", {"f:a": b"1"})])
        quick.source.roll_wals()
    first, *_ = sorted(positions(quick.at, peer))

    def archived() -> bool:
        quick.source.roll_wals()  # the roll that finds too many WALs flushes their regions, a later one archives them
        return located(quick, first).archived

    eventually(archived, f"{first} is archived")
    assert first in positions(quick.at, peer)
    summary = ship_one(quick.at, peer)
    assert (summary.status, summary.shippedCells) == (Status.DONE, MAX_LOGS + 3), summary.error
    assert quick.source.compare(table, quick.peer_cluster).same


def test_it_looks_into_every_peers_queues_and_takes_what_the_survey_calls_free(quick, table, managed_peer):
    peers = [managed_peer(quick.source_cluster.address, quick.peer_hbase.address) for _ in range(2)]
    quick.source.write(table, [put("r1", {"f:a": b"1"})])
    roll(quick.at, peers[0])
    held = [wal.name for group in plan(quick.at, peers[1]).groups for wal in group.wals]
    archive(quick, held)
    for last, peer in zip((False, True), peers, strict=True):
        time.sleep(5)  # the TTL, and a round of the cleaner
        found = fates(quick)
        assert {name: found[name] for name in held} == dict.fromkeys(held, Fate.HELD)
        assert all(located(quick, name) for name in held), f"gone before the last peer was shipped ({last})"
        assert ship_one(quick.at, peer, run_id=peer).status is Status.DONE
    found = fates(quick)
    assert all(found.get(name, Fate.FREE) is Fate.FREE for name in held)
    eventually(lambda: not any(located(quick, name) for name in held), f"{held} are deleted")


def fates(sides: Sides) -> dict[str, Fate]:
    """Return a survey's verdicts on the WALs in oldWALs."""
    with open_session(sides.at, look_only=True) as session:
        return {each.wal.name: each.fate for each in survey(session, TTL_SECONDS, time.time).wals}
