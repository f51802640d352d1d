"""A check of a source goes as far as it can, and says where it ends."""

from __future__ import annotations

from pathlib import Path

from tests.unit.admin.diagnosis.test_peers import nothing_listens
from walferry.admin.diagnosis.source import check
from walferry.base.security.login import Login, Tls
from walferry.replication.source.cluster import SourceCluster


def test_files_are_looked_at_even_if_zookeeper_does_not_answer(tmp_path: Path) -> None:
    login = Login(tls=Tls(ca=str(tmp_path / "ca.pem")))
    source = SourceCluster(quorum=nothing_listens(), wal_root="file:///hbase", login=login)
    found = [(each.what, str(each.severity)) for each in check(source, (), 0.5)]
    assert found == [("source: TLS", "wrong"), ("ZooKeeper", "wrong")]
