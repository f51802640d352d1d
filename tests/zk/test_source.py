"""The findings of a check of a source, in a ZooKeeper without an HBase."""

from __future__ import annotations

import json

from kazoo.security import make_acl

from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from tests.zk.test_commands import Run, away, run
from walferry.base.findings import Finding

__all__ = ["run"]  # fixtures


def findings(out: str) -> list[Finding]:
    return [Finding(**each) for each in json.loads(out)["findings"]]


@away
def test_a_check_says_what_is_wrong_without_a_master_and_goes_on(run: Run, hbase: HBaseZNodes) -> None:
    hbase.add_peer("idle", config={})
    hbase.add_peer("next", config={"walferry.succeeds": "p"})
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    hbase.add_wal(DEAD, "gone", wal(1, DEAD))
    status, out, _ = run("check", "--json")
    found = {each.what: each for each in findings(out)}
    assert status == 3
    assert found["ZooKeeper"].severity == found["WAL folders"].severity == "well"
    assert (found["own root"].severity, "everyone who reaches ZooKeeper" in found["own root"].text) == ("note", True)
    assert "no master is active" in found["Master"].text
    assert f"{SERVER} does not answer" in found["RegionServers"].text or found["RegionServers"].severity == "well"
    assert f"{DEAD}/gone has 1 WALs, and its peer gone is gone" in found["orphaned queues"].text
    assert f"`walferry failover {DEAD}` ship them" in found["dead servers"].advice
    assert "nobody ships it" in found["peer idle: shipping"].text
    assert found["peer next: shipping"].text == "it is to succeed peer p, and collects new edits"
    assert found["peer next: shipping"].advice == "It fills the disk until `walferry peers hand-back p --to next --finish`"
    assert found["cluster of peer p: ZooKeeper"].severity == "wrong"
    assert "no master is active" not in str([each for what, each in found.items() if what != "Master"]), "a cause is told once"


@away
def test_a_root_that_is_not_writable_is_found(run: Run, hbase: HBaseZNodes) -> None:
    hbase.zk.ensure_path(hbase.root)
    hbase.zk.set_acls(hbase.root, [make_acl("ip", "10.255.255.255", all=True)])
    (root,) = [each for each in findings(run("check", "--json")[1]) if each.what == "own root"]
    assert (root.severity, "NoAuth" in root.text, "ACL" in root.advice) == ("wrong", True, True)


@away
def test_an_odd_child_of_rs_is_a_finding_beside_the_others(run: Run, hbase: HBaseZNodes) -> None:
    hbase.zk.create(f"{hbase.nodes.rs}/not a server$(id)")
    status, out, _ = run("check", "--json")
    found = findings(out)
    servers = [each.text for each in found if each.what == "RegionServers"]
    assert status == 3
    assert f"{hbase.nodes.rs} has children that are not server names: 'not a server$(id)'" in servers
    assert any(SERVER in text or "1 of 1 answer" in text for text in servers)
    assert {"own root", "WAL folders", "replication", "dead servers", "cluster of peer p: ZooKeeper"} <= {e.what for e in found}
