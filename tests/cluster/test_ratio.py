"""The random subset of a peer cluster's RegionServers that takes shipments, out of five real ones (replication.source.ratio)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from embedded.client import GLOBAL, JavaClient, even_splits
from embedded.hbase import ClusterAddress
from embedded.standalone import StandaloneCluster
from tests.cluster.conftest import Sides
from tests.cluster.dead_queues import DeadQueue, record
from tests.cluster.walferry_runs import BY_REPLICATE, ship
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.names import ServerName
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.hbase.manager import SinkManager

SERVERS, GROUPS, ROWS = 5, 20, 20
RATIO, TRIES = 0.4, 3
SETTINGS = PeerSettings(ratio=RATIO, subset_tries=TRIES, bad_sink_threshold=1000, sleep_seconds=0.02, retries_multiplier=1)

pytestmark = BY_REPLICATE


@pytest.fixture(scope="module")
def five(cluster_folder: Path) -> Iterator[ClusterAddress]:
    with StandaloneCluster(cluster_folder / "five", {"hbase.regionservers": str(SERVERS)}, name="five", heap="768m") as cluster:
        yield cluster.address


@dataclass
class Drawn:
    """What sink managers have done, in order: the subsets that they drew, and between them each server's outcome."""

    subsets: list[frozenset[ServerName]] = field(default_factory=list)
    acknowledged: set[ServerName] = field(default_factory=set)
    bad: list[int] = field(default_factory=list)  # the errors after each draw


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Notes what the managers of this process do."""
    found, lock = Drawn(), threading.Lock()
    draw, good, bad = SinkManager._draw, SinkManager.report_good, SinkManager.report_bad

    def drawing(manager: SinkManager) -> None:
        draw(manager)
        with lock:
            found.subsets.append(frozenset(manager._sinks))
            found.bad.append(0)

    def acknowledged(manager: SinkManager, server: ServerName) -> None:
        good(manager, server)
        found.acknowledged.add(server)

    def failed(manager: SinkManager, server: ServerName) -> None:
        bad(manager, server)
        with lock:
            found.bad[-1] += 1

    monkeypatch.setattr(SinkManager, "_draw", drawing)
    monkeypatch.setattr(SinkManager, "report_good", acknowledged)
    monkeypatch.setattr(SinkManager, "report_bad", failed)
    return found


@pytest.fixture
def peer_of_five(sides: Sides, five: ClusterAddress, managed_peer: Callable[..., str]) -> str:
    return managed_peer(sides.source_cluster.address, five)


@pytest.fixture
def table(sides: Sides, java_client: Callable[..., JavaClient], five: ClusterAddress, unique: Callable[[str], str]) -> str:
    name = unique("t")
    for client in (sides.source, java_client(five)):
        client.create_table(name, {"f": GLOBAL}, splits=even_splits(10))
    return name


def test_each_group_ships_to_two_of_five_servers_and_all_groups_together_to_all(
    sides, five, java_client, peer_of_five, table, drawn
):
    recording = record(sides.source, table, ROWS)
    queues = [DeadQueue(sides.at, sides.source, peer_of_five) for _ in range(GROUPS)]
    for queue in queues:
        queue.add(recording.content)
    summaries = ship(sides.at, peer_of_five, roll_first=False, groups=[queue.group for queue in queues], settings=SETTINGS)
    assert {summary.status for summary in summaries} == {Status.DONE}
    assert sides.source.compare(table, java_client(five)).same
    assert len(drawn.subsets) == GROUPS
    assert {len(subset) for subset in drawn.subsets} == {2}
    assert len(frozenset.union(*drawn.subsets)) == SERVERS
    assert len(drawn.acknowledged) == SERVERS


def test_others_are_drawn_after_as_many_failures_as_the_peer_says(sides, five, java_client, peer_of_five, table, drawn):
    recording = record(sides.source, table, ROWS)
    queue = DeadQueue(sides.at, sides.source, peer_of_five)
    queue.add(recording.content)
    client, ended = java_client(five), list[GroupSummary]()
    client.alter_table(table, {"READONLY": "true"})  # each server answers with an error
    shipping = threading.Thread(
        target=lambda: ended.extend(
            ship(sides.at, peer_of_five, roll_first=False, groups=[queue.group], settings=SETTINGS, senders=1)
        )
    )
    shipping.start()
    while shipping.is_alive() and len(drawn.subsets) < 8:
        shipping.join(0.05)
    client.alter_table(table, {"READONLY": "false"})
    shipping.join()
    assert [summary.status for summary in ended] == [Status.DONE]
    assert drawn.bad[:7] == [TRIES] * 7
    assert {len(subset) for subset in drawn.subsets} == {2}
    assert len(set(drawn.subsets)) > 1
    assert sides.source.compare(table, client).same
