"""Edits are shipped between two releases, and WALs of the other release are read as HBase reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embedded.jars import OTHER_RELEASES
from embedded.standalone import StandaloneCluster
from embedded.wire import delete_row, put
from tests.cluster.conftest import Sides
from tests.cluster.decoding import compare_with_reader, copies_of_closed_wals
from tests.cluster.releases.conftest import AS_SOURCE
from tests.cluster.walferry_runs import ALL_SINKS, roll, ship_one, source_of
from walferry.admin.diagnosis.source import TESTED, check
from walferry.base.findings import Severity
from walferry.engine.summary import Status

CONF = {"hbase.regionserver.wal.enablecompression": "true"}
ROWS = 1_000
QUICK = tuple(f"{jars.title}-{AS_SOURCE}-direct" for jars in OTHER_RELEASES)  # one case a release


@pytest.mark.capability("releases", cases=QUICK)
@ALL_SINKS
@pytest.mark.timeout(600)
def test_edits_are_shipped(sides: Sides, both: Callable[..., str], peer: str) -> None:
    table = both(splits=[b"row5"])
    sides.source.put_many(table, ROWS, ["f:a", "l:b"], value_bytes=100)
    mutations = [put("row7", {"f:q": b"later"}), delete_row("row8"), put("ttl", {"f:q": b"v"}, ttl_ms=86_400_000)]
    sides.source.write(table, mutations)
    summary = ship_one(sides.at, peer)
    assert summary.status is Status.DONE, summary.error
    compared = sides.source.compare(table, sides.peer_cluster, families=["f"])
    assert compared.same, compared.examples
    assert compared.left > ROWS


@pytest.mark.parametrize("role", [AS_SOURCE], indirect=True)
def test_its_wals_are_read_as_hbase_reads_them(sides: Sides, both: Callable[..., str], peer: str, tmp_path: Path) -> None:
    sides.source.put_many(both(), ROWS, ["f:a", "f:b"], value_bytes=100)
    roll(sides.at, peer)
    wals = copies_of_closed_wals(Path(sides.at.wal_root.removeprefix("file://")), tmp_path / "wals")
    assert compare_with_reader(sides.source, wals) > 2 * ROWS


def test_a_check_names_the_release_and_says_that_it_is_tested(other: StandaloneCluster) -> None:
    (servers,) = [finding for finding in check(source_of(other.address), []) if finding.kind == "RegionServers"]
    assert servers.severity is Severity.WELL
    assert any(f"HBase {release}" in servers.text for release in TESTED)
    assert other.name.removeprefix("hbase-") in servers.text
