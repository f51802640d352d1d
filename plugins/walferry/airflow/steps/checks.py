"""The step of the DAG that checks connections. It changes nothing but the time of a znode of Walferry's own."""

from __future__ import annotations

from collections.abc import Iterator

from walferry.admin.diagnosis.connections import check_connections as check
from walferry.admin.diagnosis.findings import Finding
from walferry.replication.source.cluster import SourceCluster


def check_connections(source: SourceCluster, peer_id: str | None) -> Iterator[Finding]:
    """Look at the source, and at this peer and its slave, or at all managed ones. Raises MissingPeer."""
    return check(source, [peer_id] if peer_id else [])
