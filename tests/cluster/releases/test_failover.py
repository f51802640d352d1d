"""RegionServers of another release die, and their queues are claimed and drained.

The Master lives. A Master of 2.4 that starts waits for hbase:meta for ever if a dead server's WALs lie in `-splitting`, and no
Master has recorded its death, as another test makes it. test_release_2_4.py kills a Master without that.
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
