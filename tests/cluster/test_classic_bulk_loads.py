"""HBase 1.7.2 with multi, the default of its releases, as the source of bulk loads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.classic import classic_conf, load_files
from embedded.jars import HBASE_1, HBASE_2
from embedded.standalone import StandaloneCluster
from tests.cluster.conftest import Sides
from tests.cluster.test_bulk_loads import (
    sides,
    table,
    test_a_bulk_load_keeps_its_place_among_the_region_s_edits,
    test_bulk_loaded_rows_arrive_and_their_files_are_let_go,
    which_replicate_loads,
)
from tests.cluster.test_classic_batches import peer

# HBase 1 adds this observer to the server's coprocessors, where nothing calls it. Without this line it keeps no files for peers.
OBSERVED = {"hbase.coprocessor.region.classes": "org.apache.hadoop.hbase.replication.regionserver.ReplicationObserver"}

__all__ = [
    "peer",
    "sides",
    "table",
    "test_a_bulk_load_keeps_its_place_among_the_region_s_edits",
    "test_bulk_loaded_rows_arrive_and_their_files_are_let_go",
]


@pytest.fixture(scope="module")
def east_and_west(cluster_folder: Path) -> Iterator[tuple[StandaloneCluster, StandaloneCluster]]:
    """`east` is the source."""
    conf = {**classic_conf(multi=True), **OBSERVED}
    with which_replicate_loads(cluster_folder / "bulk-classic", (HBASE_1, HBASE_2), conf) as clusters:
        yield clusters


@pytest.fixture(autouse=True)
def loads_by_its_own_tool(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    client = sides.source
    monkeypatch.setattr(
        client, "bulk_load", lambda table, puts, folder: load_files(client.address, table, client.write_files(puts, folder))
    )
