"""A check of a peer cluster goes as far as it can, and says where it ends."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.observe.status.views import peer
from tests.unit.replication.sinks.hbase.test_replicate import closed_port
from walferry.admin.diagnosis import peers
from walferry.admin.diagnosis.peers import peer_cluster_access
from walferry.base.security.login import Login
from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.peer_logins import PeerConnection, PeerLogins


def nothing_listens() -> str:
    at = closed_port()
    return f"{at.host}:{at.port}"


def test_a_peer_cluster_whose_connection_is_missing_is_not_talked_to() -> None:
    def read(conn_id: str) -> PeerConnection:
        raise SourceError(f"connection {conn_id!r} is not defined")

    source = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase", peer_logins=PeerLogins(read))
    west = Peer("p", "zk9:2181:/hbase", DISABLED, {"walferry.peer_conn_id": "west"})
    (finding,) = peer_cluster_access(source, west)
    assert (finding.what, str(finding.severity)) == ("cluster of peer p: connection", "wrong")
    assert "connection 'west' is not defined" in finding.text


@pytest.mark.long
def test_a_peer_cluster_that_does_not_answer_is_told_with_the_connection_that_leads_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "PEER_CLUSTER_SECONDS", 1.0)
    quorum = nothing_listens()
    source = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase")
    peer = Peer("p", f"{quorum}:/hbase", DISABLED, {"walferry.peer_conn_id": "west"})
    connected = replace(source, peer_logins=PeerLogins(lambda conn_id: PeerConnection(Login(user="etl"))))
    found = [(each.what, str(each.severity)) for each in peer_cluster_access(connected, peer)]
    assert found == [("cluster of peer p: connection", "well"), ("cluster of peer p: ZooKeeper", "wrong")]


@pytest.mark.parametrize(
    ("lead", "why"),
    [
        (None, "which is no managed peer: it is shipped alone"),
        ({}, "which is no managed peer: it is shipped alone"),
        ({"walferry.managed": "true", "walferry.hfiles.with": "r"}, "which makes its own with those of r: it is shipped alone"),
        ({"walferry.managed": "true"}, None),
    ],
)
def test_a_peer_whose_files_nobody_makes_is_told(
    monkeypatch: pytest.MonkeyPatch, lead: dict[str, str] | None, why: str | None
) -> None:
    others = [] if lead is None else [replace(peer("q"), config=lead)]
    monkeypatch.setattr(peers, "read_peers", lambda _: SimpleNamespace(peers=others))
    alone = replace(peer("p"), config={"walferry.managed": "true", "walferry.hfiles.with": "q"})
    found = peers._lead(cast(Any, None), alone, "peer p")
    assert [finding.text.endswith(why or "") for finding in found] == ([True] if why else [])
    assert not peers._lead(cast(Any, None), peer("p"), "peer p")
