"""What the doctor finds of a source, in a ZooKeeper without an HBase."""

from __future__ import annotations

import json

from kazoo.security import make_acl

from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from tests.zk.test_commands import Run, away, run

__all__ = ["run"]  # fixtures


@away
def test_the_doctor_says_what_is_wrong_without_a_master_and_goes_on(run: Run, hbase: HBaseZNodes) -> None:
    hbase.add_peer("idle", config={})
    hbase.add_peer("next", config={"walferry.succeeds": "p"})
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    hbase.add_wal(DEAD, "gone", wal(1, DEAD))
    status, out, _ = run("doctor", "--json")
    found = {each["what"]: each for each in json.loads(out)["findings"]}
    assert status == 3
    assert found["ZooKeeper"]["state"] == found["WAL folders"]["state"] == "well"
    assert (found["own root"]["state"], "everyone who reaches ZooKeeper" in found["own root"]["text"]) == ("note", True)
    assert "no master is active" in found["Master"]["text"]
    assert f"{SERVER} does not answer" in found["RegionServers"]["text"] or found["RegionServers"]["state"] == "well"
    assert f"{DEAD}/gone has 1 WALs, and its peer gone is gone" in found["orphaned queues"]["text"]
    assert f"`walferry failover {DEAD}` ship them" in found["dead servers"]["advice"]
    assert "nobody ships it" in found["peer idle"]["text"]
    assert found["peer next"]["text"] == "it is to succeed peer p, and collects what is written"
    assert found["peer next"]["advice"] == "It fills the disk until `walferry peers hand-back p --to next --finish`"
    assert found["peer p: slave"]["state"] == "wrong"


@away
def test_a_root_that_is_not_writable_is_found(run: Run, hbase: HBaseZNodes) -> None:
    hbase.zk.ensure_path(hbase.root)
    hbase.zk.set_acls(hbase.root, [make_acl("ip", "10.255.255.255", all=True)])
    findings = json.loads(run("doctor", "--json")[1])["findings"]
    (root,) = [each for each in findings if each["what"] == "own root"]
    assert (root["state"], "NoAuth" in root["text"], "ACL" in root["advice"]) == ("wrong", True, True)


@away
def test_an_odd_child_of_rs_is_a_finding_beside_the_others(run: Run, hbase: HBaseZNodes) -> None:
    hbase.zk.create(f"{hbase.nodes.rs}/not a server$(id)")
    status, out, _ = run("doctor", "--json")
    findings = json.loads(out)["findings"]
    servers = [each["text"] for each in findings if each["what"] == "RegionServers"]
    assert status == 3
    assert f"{hbase.nodes.rs} has children that are not server names: 'not a server$(id)'" in servers
    assert any(SERVER in text or "1 of 1 answer" in text for text in servers)
    assert {"own root", "WAL folders", "replication", "dead servers", "peer p: configuration"} <= {e["what"] for e in findings}
