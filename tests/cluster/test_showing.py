"""The command's output about a peer's backlog whose files cannot be looked at."""

from __future__ import annotations

import pytest

from embedded.processes import wait_until
from tests.cluster.managed_peers import clusters, command, peer_id, wal_count
from walferry.admin.peers import peer_admin

__all__ = ["clusters", "command", "peer_id"]  # fixtures


@pytest.mark.parametrize("folder", ["nowhere", ""])
def test_a_wrong_wal_root_is_not_called_an_empty_backlog(clusters, command, peer_id, monkeypatch, tmp_path, folder):
    name = peer_id()
    clusters.source.add_managed_peer(name, clusters.key)
    clusters.source.roll_wals()
    root = f"file://{tmp_path}/{folder}"
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", clusters.at_root(root))
    why = "there is no such folder" if folder else "the folder has neither WALs nor oldWALs"
    for arguments in (("list",), ("show", name)):
        status, out, err = command("peers", *arguments)
        assert status == 1
        assert name in out
        assert " 0 bytes" not in out
        assert err.startswith(f"walferry: wal_root {root.rstrip('/')}: {why}")
        assert err.count("\n") == 1
    assert "left to ship of closed WALs: not known" in out


def test_a_wal_that_is_gone_is_not_counted_as_nothing(clusters, command, peer_id, tmp_path, monkeypatch):
    name = peer_id()
    clusters.source.add_managed_peer(name, clusters.key)
    clusters.source.roll_wals()
    with peer_admin(clusters.at) as admin:
        wait_until(lambda: wal_count(admin, name) > 1, "the WAL is rolled", processes=[], timeout=30)
    (tmp_path / "oldWALs").mkdir()
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", clusters.at_root(f"file://{tmp_path}"))
    status, out, err = command("peers", "show", name)
    assert status == 3
    assert "left to ship of closed WALs: not known (WALs of unknown size: 1, see below)" in out
    assert "is queued, but there is no such file" in out
    assert f"peer {name}: 1 of its WAL groups cannot be shipped" in err
