"""A peer is removed once its backlog is shipped, or given up."""

from __future__ import annotations

import pytest

from tests.cluster.managed_peers import Clusters, admin, clusters, create_for_all, peer_id
from walferry.admin.peers import PeerAdmin, Refused
from walferry.admin.removing import remove
from walferry.replication.queues.reading import read_queues

__all__ = ["admin", "clusters", "peer_id"]  # fixtures


def test_a_peer_with_a_backlog_is_removed_only_if_that_is_said(clusters, admin, peer_id, unique):
    name, table = peer_id(), clusters.table(unique("t"))
    create_for_all(admin, name, clusters.key)
    clusters.write(table, "a")
    with pytest.raises(Refused, match=r"not shipped whole\. Let a batch ship it and try again, or give it up"):
        remove(admin, name)
    assert clusters.peer(name) is not None
    remove(admin, name, drop_backlog=True)
    assert clusters.peer(name) is None
    assert read_queues(admin.session, name) == []


def test_a_peer_whose_backlog_is_shipped_is_removed(clusters, admin, peer_id, unique):
    name, table = peer_id(), clusters.table(unique("t"))
    create_for_all(admin, name, clusters.key)
    clusters.write(table, "a")
    servers = clusters.source.region_servers()
    remove_when_shipped(clusters, admin, name)
    assert clusters.peer(name) is None
    clusters.source.roll_wals()
    assert clusters.source.region_servers() == servers


def remove_when_shipped(clusters: Clusters, admin: PeerAdmin, name: str, tries: int = 5) -> None:
    """Ship and remove, as the refusal says, until nothing comes between: HBase writes an entry for each flush."""
    for left in reversed(range(tries)):
        clusters.batch(name)
        try:
            return remove(admin, name)
        except Refused as refused:
            if not left or "not shipped whole" not in str(refused):
                raise
    return None
