"""RegionServers of another release die, and their queues are claimed and drained.

The Master lives: the load's client, of 2.6.1, does not end after the Master of a 2.4 was killed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embedded.client import JavaClient
from embedded.jars import JarSet
from tests.cluster.failover import failover
from tests.cluster.test_failover import FEW_SECONDS_MS, hbase_claims_first, run, we_claim_first


@pytest.mark.timeout(1200)
def test_one_death_each_way_loses_nothing(
    release: JarSet, cluster_folder: Path, java_client: Callable[..., JavaClient], unique: Callable[[str], str]
) -> None:
    with failover(
        cluster_folder / unique("failover"), java_client, regionservers=2, sleep_before_failover_ms=FEW_SECONDS_MS, jars=release
    ) as site:
        run(site, [we_claim_first, hbase_claims_first])
