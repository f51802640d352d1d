"""A peer cluster whose regions the user may not write to: its RegionServers replicate the edits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.client import JavaClient
from embedded.standalone import StandaloneCluster
from tests.cluster.conftest import Sides
from tests.cluster.walferry_runs import ship_one, source_of
from tests.conftest import StandalonePair
from walferry.base.security.login import Login
from walferry.engine.summary import Status
from walferry.replication.peers.settings import SinkKind

CONTROLLER = "org.apache.hadoop.hbase.security.access.AccessController"
# Regions ask this coprocessor, RegionServers do not: there it would refuse replication, too.
SETTINGS = {
    "hbase.security.authorization": "true",
    "hbase.coprocessor.master.classes": CONTROLLER,
    "hbase.coprocessor.region.classes": CONTROLLER,
}
STRANGER = "stranger"


@pytest.fixture(scope="module")
def guarded(cluster_folder: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(cluster_folder / "guarded", SETTINGS, name="guarded") as cluster:
        yield cluster


@pytest.fixture
def sink(request: pytest.FixtureRequest) -> SinkKind:
    """How edits are sent, if a test does not say otherwise."""
    kind: SinkKind = getattr(request, "param", SinkKind.DIRECT)
    return kind


@pytest.fixture
def sides(
    standalone_pair: StandalonePair, guarded: StandaloneCluster, java_client: Callable[..., JavaClient], sink: SinkKind
) -> Sides:
    source = standalone_pair.source
    at = source_of(source.address, sink)
    return Sides(source, guarded, java_client(source.address), java_client(guarded.address), at)


def test_a_user_who_may_not_write_is_refused_once_and_all_edits_are_replicated(sides, both, peer, caplog):
    tables = [both(splits=[b"4", b"8"]) for _ in range(2)]
    for table in tables:
        sides.source.put_many(table, 2000, ["f:a"], batch=20)
    with caplog.at_level(logging.WARNING):
        summary = ship_one(replace(sides.at, login=Login(user=STRANGER)), peer, senders=4, refused=True)
    assert summary.status is Status.DONE, summary.error
    assert summary.sink == SinkKind.REPLICATE
    assert "AccessDeniedException" in summary.directRefused
    assert STRANGER in summary.directRefused
    assert summary.shippedCells == 4000
    assert summary.failedBatches == 0
    for table in tables:
        assert sides.source.compare(table, sides.peer_cluster).same
    assert len([message for message in caplog.messages if "cannot be written to directly" in message]) == 1


def test_a_user_who_may_write_is_not_refused(sides, both, peer):
    table = both()
    sides.source.put_many(table, 2000, ["f:a"], batch=20)
    summary = ship_one(sides.at, peer)
    assert summary.status is Status.DONE, summary.error
    assert (summary.sink, summary.directRefused) == (SinkKind.DIRECT, None)
    assert sides.source.compare(table, sides.peer_cluster).same


@pytest.mark.parametrize("sink", [SinkKind.HFILES], indirect=True)
def test_files_are_loaded_only_for_a_user_who_may(sides, both, peer):
    table = both(splits=[b"4", b"8"])
    sides.source.put_many(table, 2000, ["f:a"], batch=20)
    summary = ship_one(replace(sides.at, login=Login(user=STRANGER)), peer, senders=4, refused=True)
    assert summary.status is Status.DONE, summary.error
    assert summary.sink == SinkKind.REPLICATE
    assert "AccessDeniedException" in summary.notLoaded
    assert STRANGER in summary.notLoaded
    assert sides.source.compare(table, sides.peer_cluster).same
    sides.source.put_many(table, 2000, ["f:a"], batch=20, first=2000)
    summary = ship_one(sides.at, peer, run_id="another")
    assert (summary.status, summary.sink, summary.notLoaded) == (Status.DONE, SinkKind.HFILES, None), summary.error
    assert sides.source.compare(table, sides.peer_cluster).same
