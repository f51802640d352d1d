"""`walferry check` of a cluster that has never had a peer: nothing is wrong there."""

from __future__ import annotations

from pathlib import Path

from embedded.standalone import StandaloneCluster
from tests.cluster.walferry_runs import source_of
from walferry.admin.diagnosis.source import check
from walferry.base.findings import Severity


def test_it_says_that_there_has_been_no_peer_and_how_to_add_one(cluster_folder: Path) -> None:
    with StandaloneCluster(cluster_folder / "new", name="new") as cluster:
        found = {finding.kind: finding for finding in check(source_of(cluster.address))}
        missing = {finding.kind: finding for finding in check(source_of(cluster.address), ["p"])}
    assert {kind for kind, finding in found.items() if finding.severity is Severity.NOTE} == {"own root", "replication"}
    assert not [finding for finding in found.values() if finding.severity is Severity.WRONG]
    assert found["replication"].text.endswith("has never had a peer. Add the first one by `walferry peers create`")
    assert missing["replication"].severity is Severity.WRONG  # who asks for a peer takes it for one that is there
