"""A check of a slave goes as far as it can, and says where it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.replication.sinks.hbase.test_replicate import closed_port
from walferry.admin.diagnosis import peers
from walferry.admin.diagnosis.peers import slave_access
from walferry.base.security.login import Login
from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.slaves import SlaveConnection, SlaveLogins


def nothing_listens() -> str:
    at = closed_port()
    return f"{at.host}:{at.port}"


def test_a_slave_whose_connection_is_missing_is_not_talked_to() -> None:
    def read(conn_id: str) -> SlaveConnection:
        raise SourceError(f"connection {conn_id!r} is not defined")

    source = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase", slave_logins=SlaveLogins(read))
    peer = Peer("p", "zk9:2181:/hbase", DISABLED, {"walferry.slave_conn_id": "west"})
    (finding,) = slave_access(source, peer)
    assert (finding.what, str(finding.severity)) == ("slave of peer p: connection", "wrong")
    assert "connection 'west' is not defined" in finding.text


def test_a_slave_that_does_not_answer_is_told_with_the_connection_that_leads_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "SLAVE_SECONDS", 1.0)
    quorum = nothing_listens()
    source = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase")
    peer = Peer("p", f"{quorum}:/hbase", DISABLED, {"walferry.slave_conn_id": "west"})
    connected = replace(source, slave_logins=SlaveLogins(lambda conn_id: SlaveConnection(Login(user="etl"))))
    found = [(each.what, str(each.severity)) for each in slave_access(connected, peer)]
    assert found == [("slave of peer p: connection", "well"), ("slave of peer p: ZooKeeper", "wrong")]
