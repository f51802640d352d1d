"""Bulk loads are shipped between two releases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.jars import HBASE_2, JarSet
from embedded.standalone import StandaloneCluster
from tests.cluster.releases.conftest import AS_SOURCE
from tests.cluster.test_bulk_loads import (
    sides,
    table,
    test_a_bulk_load_keeps_its_place_among_the_region_s_edits,
    test_bulk_loaded_rows_arrive_and_their_files_are_let_go,
    which_replicate_loads,
)

__all__ = [
    "sides",
    "table",
    "test_a_bulk_load_keeps_its_place_among_the_region_s_edits",
    "test_bulk_loaded_rows_arrive_and_their_files_are_let_go",
]


@pytest.fixture(scope="module")
def east_and_west(release: JarSet, role: str, cluster_folder: Path) -> Iterator[tuple[StandaloneCluster, StandaloneCluster]]:
    """`east` is the source."""
    jars = (release, HBASE_2) if role == AS_SOURCE else (HBASE_2, release)
    with which_replicate_loads(cluster_folder / f"bulk-{release.name}-{role.replace(' ', '-')}", jars) as clusters:
        yield clusters
