"""Peers are taken over and handed back between two releases."""

from __future__ import annotations

import pytest

from tests.cluster.managed_peers import Clusters, admin, clusters, peer_id
from tests.cluster.test_peers_admin import (
    briefly_settling,
    test_a_disabled_peer_is_taken_over_with_its_backlog,
    test_a_handed_back_peer_loses_nothing,
    test_after_a_hand_back_the_newest_of_values_with_one_timestamp_counts,
)

__all__ = [
    "admin",
    "briefly_settling",
    "clusters",
    "peer_id",
    "test_a_disabled_peer_is_taken_over_with_its_backlog",
    "test_a_handed_back_peer_loses_nothing",
    "test_after_a_hand_back_the_newest_of_values_with_one_timestamp_counts",
]

CONF: dict[str, str] = {}


@pytest.fixture(autouse=True)
def without_earlier_edits(clusters: Clusters) -> None:
    """HBase's own peers of all tables wait for ever for tables of other tests that the peer cluster lacks."""
    clusters.source.roll_wals()
