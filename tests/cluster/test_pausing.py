"""Pauses and changes managed peers through the source's Master, while they are shipped and while they are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from embedded.client import GLOBAL, LOCAL
from embedded.processes import wait_until
from embedded.wire import put
from tests.cluster.managed_peers import Clusters, admin, clusters
from tests.cluster.walferry_runs import Shipping, positions, roll, ship_one
from walferry.admin.changing import pause, resume, set_tables, set_values, settings_of
from walferry.admin.creating import create
from walferry.admin.handing_back import begin_hand_back
from walferry.admin.peers import PeerAdmin, Refused
from walferry.engine.summary import Status
from walferry.hbase.errors import PausedPeer, UnmanagedPeer
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.source.agreement import check_peer
from walferry.replication.source.peers import read_peer
from walferry.shipping.ship_run import ShipRun, begin

__all__ = ["admin", "clusters"]  # fixtures


@pytest.fixture
def table(clusters: Clusters, unique: Callable[[str], str]) -> str:
    return clusters.table(unique("t"))


@pytest.fixture
def peer(clusters: Clusters, admin: PeerAdmin, table: str, unique: Callable[[str], str]) -> Iterator[str]:
    name = unique("peer")
    create(admin, name, clusters.key, table_cfs={table: []})
    yield name
    if clusters.peer(name):
        clusters.source.remove_peer(name)


def test_a_paused_peer_is_not_shipped_until_it_is_resumed(clusters: Clusters, admin: PeerAdmin, peer: str, table: str) -> None:
    clusters.write(table, "a")
    roll(clusters.at, peer)
    before = positions(clusters.at, peer)
    assert pause(admin, peer).paused
    assert pause(admin, peer).paused
    assert not clusters.peer(peer).enabled
    with pytest.raises(PausedPeer):
        begin(ShipRun(source=clusters.at, peer_id=peer, run_id="r", deadline=60))
    summary = ship_one(clusters.at, peer, roll_first=False)
    assert (summary.status, summary.failed) == (Status.PAUSED, False)
    assert "it is paused" in summary.error
    assert positions(clusters.at, peer) == before
    assert clusters.peer_cluster.count_rows(table) == 0

    assert not resume(admin, peer).paused
    assert ship_one(clusters.at, peer).status is Status.DONE
    assert clusters.source.compare(table, clusters.peer_cluster).same
    assert clusters.peer_cluster.count_rows(table) == 200


def test_a_run_stops_within_seconds_when_its_peer_is_paused_and_loses_nothing(
    clusters: Clusters, admin: PeerAdmin, peer: str, table: str
) -> None:
    set_values(admin, peer, {"bandwidth": "20000", "replication.source.size.capacity": "16384"})
    clusters.source.write(table, [put(f"r{i:04}", {"f:q": bytes(1000)}) for i in range(600)], one_by_one=True)
    roll(clusters.at, peer)
    with Shipping(clusters.at, peer, roll_first=False, settings=PeerSettings(shipment_bytes=16384)) as run:
        wait_until(lambda: clusters.peer_cluster.count_rows(table) > 0, "it ships", processes=[], timeout=60)
        pause(admin, peer)
        wait_until(lambda: not run.running, "the run has stopped", processes=[], timeout=15)
        assert run.summary().status is Status.PAUSED
    assert clusters.peer_cluster.count_rows(table) < 600
    set_values(admin, peer, {"bandwidth": ""})
    resume(admin, peer)
    assert ship_one(clusters.at, peer).status is Status.DONE
    assert clusters.source.compare(table, clusters.peer_cluster).same
    assert clusters.peer_cluster.count_rows(table) == 600


def test_a_peer_that_is_not_managed_is_neither_paused_nor_changed(clusters: Clusters, admin: PeerAdmin, unique) -> None:
    name = unique("peer")
    clusters.source.add_peer(name, clusters.key, enabled=False)
    for act in (pause, resume, lambda *a: set_values(*a, {"sink": "direct"}), lambda *a: set_tables(*a, {})):
        with pytest.raises(UnmanagedPeer):
            act(admin, name)
    assert clusters.peer(name).configuration == {}
    clusters.source.remove_peer(name)


def test_settings_are_set_checked_and_set_back(clusters: Clusters, admin: PeerAdmin, peer: str) -> None:
    changed = set_values(admin, peer, {"sink": "replicate", "walferry.replication.source.ratio": "0.2", "bandwidth": "1000000"})
    assert settings_of(changed) == {"sink": "replicate", "replication.source.ratio": "0.2", "bandwidth": "1000000"}
    assert changed.bandwidth == 1_000_000
    settings = PeerSettings.of({}, check_peer(admin.session, peer))
    assert (settings.sink, settings.ratio) == ("replicate", 0.2)
    for values, said in (
        ({"sink": "quick"}, "sink is 'quick'; it must be how edits are sent"),
        ({"replication.source.ration": "1"}, r"did you mean replication\.source\.ratio\?"),
        ({"bandwidth": "fast"}, "bandwidth is 'fast'; it must be a number of bytes a second"),
        ({"walferry.managed": "false"}, "walferry.managed is not a setting"),
        ({"sink": "direct", "replication.sink.tries": "0"}, "replication.sink.tries is '0'"),
    ):
        with pytest.raises(Refused, match=said):
            set_values(admin, peer, values)
    assert read_peer(admin.session, peer) == changed
    back = set_values(admin, peer, {"sink": "", "replication.source.ratio": "", "bandwidth": "0"})
    assert settings_of(back) == {}
    assert PeerSettings.of({}, check_peer(admin.session, peer)) == PeerSettings()


def test_tables_are_set_if_edits_of_them_can_arrive(clusters: Clusters, admin: PeerAdmin, peer: str, table: str, unique) -> None:
    other = clusters.table(unique("t"))
    assert set_tables(admin, peer, {table: ["f"], other: []}).table_cfs == {table: ("f",), other: ()}
    only_here = unique("t")
    clusters.source.create_table(only_here, {"g": GLOBAL, "l": LOCAL})
    for tables, said in (
        ({only_here: []}, f"there is no table {only_here} at the peer cluster"),
        ({only_here: ["l"]}, f"family l of table {only_here} has REPLICATION_SCOPE 0 at the source"),
        ({table: ["x"]}, f"table {table} has no family x at the source, only f"),
        ({}, f"there is no table {only_here} at the peer cluster"),
    ):
        with pytest.raises(Refused, match=said):
            set_tables(admin, peer, tables)
    assert read_peer(admin.session, peer).table_cfs == {table: ("f",), other: ()}
    everything = set_tables(admin, peer, {}, allow_missing=True)
    assert (everything.replicate_all, everything.table_cfs) == (True, None)
    narrow = set_values(admin, peer, {"namespaces": "default"}, allow_missing=True)
    assert (narrow.replicate_all, narrow.namespaces) == (False, {"default"})
    with pytest.raises(Refused, match="would get all user tables"):
        set_values(admin, peer, {"namespaces": ""})
    clusters.source.drop_table(only_here)


def test_a_peer_that_is_being_handed_back_is_shipped_by_batches_until_that_is_finished(
    clusters: Clusters, admin: PeerAdmin, peer: str, unique
) -> None:
    """The peer's configuration names its successor, a setting that batches need not know."""
    begin_hand_back(admin, peer, new := unique("peer"))
    assert len(begin(ShipRun(source=clusters.at, peer_id=peer, run_id="r", deadline=60))) <= 1
    clusters.source.remove_peer(new)
