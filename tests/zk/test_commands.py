"""Commands on a ZooKeeper without an HBase: hostile znodes, wrong roots, and missing quorums."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.security import make_acl

from embedded.zookeeper import ZooKeeperServer
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from walferry.cli.main import main

Run = Callable[..., tuple[int, str, str]]

# No server listens at the peer cluster's address.
away = pytest.mark.usefixtures("refused_at_once")


@pytest.fixture
def run(zookeeper: ZooKeeperServer, hbase: HBaseZNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("peers", "list")` → exit status, standard output, standard error. `base` and `quorum` may be others."""
    (tmp_path / "oldWALs").mkdir()

    def run(*arguments: str, base: str = hbase.nodes.base, quorum: str = zookeeper.quorum) -> tuple[int, str, str]:
        extra = {"wal_root": f"file://{tmp_path}", "znode_parent": base, "walferry_root": hbase.root}
        status = main(["--source", json.dumps({"host": quorum, "extra": extra}), *arguments])
        return status, *capsys.readouterr()

    return run


def test_peers_are_listed_as_a_table_and_as_json(run: Run, hbase: HBaseZNodes) -> None:
    hbase.add_peer("theirs", "ENABLED", config={})
    hbase.set_config("p", {"walferry.managed": "true", "walferry.paused": "true"})
    hbase.add_wal(SERVER, "p", wal(1))
    status, out, err = run("peers", "list")
    assert (status, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["ID", "STATE", "MANAGED", "QUEUES", "WALS", "CLUSTER"],
        ["p", "DISABLED", "paused", "1", "1", "127.0.0.1:2181:/peer_cluster"],
        ["theirs", "ENABLED", "no", "0", "0", "127.0.0.1:2181:/peer_cluster"],
    ]
    found = json.loads(run("peers", "list", "--json")[1])
    assert found["problems"] == []
    assert found["peers"][0] == {
        "id": "p", "state": "DISABLED", "managed": True, "paused": True, "queues": 1, "wals": 1,
        "peer_cluster": "127.0.0.1:2181:/peer_cluster"
    }  # fmt: skip


def test_a_peer_that_cannot_be_read_is_told_beside_the_others(run: Run, hbase: HBaseZNodes) -> None:
    hbase.add_peer("broken")
    hbase.zk.set(hbase.nodes.peer("broken"), b"PBUF\xff")
    status, out, _ = run("peers", "list")
    assert (status, out.splitlines()[1].split()[0]) == (3, "p")
    assert hbase.nodes.peer("broken") in out


@pytest.mark.parametrize(
    "command",
    [
        ["status"], ["queues"], ["peers", "list"], ["peers", "show", "p"], ["plan", "p"], ["check"], ["failover"],
        ["drain", f"{DEAD}/gone"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_json", [False, True])
@away
def test_nothing_in_zookeeper_controls_the_terminal(run: Run, hbase: HBaseZNodes, command: list[str], as_json: bool) -> None:
    hostile = "\x1b[2J\x9b1A\rFAKE \u202e[bold]{{ conn.x.password }}"
    hbase.add_peer("q", config={"walferry.managed": "true", f"walferry.{hostile}": hostile}, clusterkey=f"{hostile}:2181:/hbase")
    hbase.set_config("p", {"walferry.managed": "true", f"walferry.{hostile}": hostile})
    hbase.zk.create(hbase.nodes.queue(SERVER, "p") + "/not\u202ea wal", b"", makepath=True)
    hbase.add_wal(DEAD, "gone", wal(1, DEAD))
    status, out, err = run(*command, *(["--json"] if as_json else []))
    assert status in (0, 1, 3)
    assert all(char.isprintable() or char == "\n" for char in out + err), (out, err)
    assert "[bold]" in out + err or command[0] in ("plan", "failover", "drain", "queues")


@away
def test_names_in_commands_to_copy_run_nothing(run: Run, hbase: HBaseZNodes) -> None:
    hbase.add_wal(DEAD, f"gone$(touch pwned)-{DEAD}", wal(1, DEAD))
    hbase.add_peer("p`id`", config={"walferry.managed": "true", "walferry.paused": "true"})
    hbase.add_peer("next", config={"walferry.succeeds": "p`id`"})
    asked = (["check"], ["status"], ["peers", "show", "p`id`"], ["peers", "show", "next"])
    shown = "\n".join(sum((run(*command)[1:] for command in asked), ()))
    commands = [line for line in shown.splitlines() if "--delete-orphan" in line or "peers resume" in line]
    commands += [line for line in shown.splitlines() if "--finish" in line]
    quoted = r"'p'$'\x60''id'$'\x60'''"
    assert {quoted in line for line in commands if "resume" in line or "--finish" in line} == {True}
    assert sum("--finish" in line for line in commands) == 2
    assert sum(f"'{DEAD}/gone$(touch pwned)-{DEAD}'" in line for line in commands) == 2
    assert f"walferry drain '{DEAD}/gone$(touch pwned)-{DEAD}' --delete-orphan" in shown


def test_a_value_of_a_configuration_forges_no_line(run: Run, hbase: HBaseZNodes) -> None:
    forged = "all is well"
    hostile = {"walferry.managed": "true", "x": f"y\n{forged}", f"k\r\n{forged}": "", "walferry.sink": f"\u2028{forged}"}
    hbase.add_peer("q", config=hostile, clusterkey=f"h\n{forged}:2181:/hbase")
    for command in (["peers", "show", "q"], ["peers", "list"]):
        _, out, err = run(*command)
        assert forged in out
        assert not [line for line in (out + err).splitlines() if line.startswith(forged)]


@away
def test_the_status_of_each_peer_is_a_line_with_what_is_wrong(run: Run, hbase: HBaseZNodes) -> None:
    hbase.add_peer("paused", config={"walferry.managed": "true", "walferry.paused": "true"})
    hbase.add_peer("theirs", "ENABLED", config={})
    for peer_id in ("p", "paused", "theirs"):
        hbase.add_wal(SERVER, peer_id, wal(1))
        hbase.add_wal(SERVER, peer_id, wal(2))
    code, out, _ = run("status")
    lines = out.splitlines()
    assert (code, lines[0]) == (3, "1 live RegionServer")
    head, *rows = lines[1:]
    assert [row.split()[0] for row in rows] == ["p", "paused", "theirs"]
    assert [row[head.index("SHIPPED BY") :].partition("  ")[0] for row in rows] == ["Walferry", "nobody (paused)", "HBase"]
    assert all("unknown" in row or "at most" in row for row in rows), "nobody knows when the edits of these files were written"
    assert "its peer cluster cannot be reached: " in rows[0]
    assert rows[2][head.index("CLUSTER") :].startswith("not asked")
    found = json.loads(run("status", "p", "--max-lag", "60", "--json")[1])
    (p,) = found["peers"]
    assert (p["id"], p["wals_left"], p["peer_cluster"]["reachable"], "queues" in p) == ("p", 1, False, False)
    assert "and 1 min are allowed" in str(p["findings"])
    hbase.set_config("p", {"walferry.managed": "true", "walferry.max_lag": "120"})
    (p,) = json.loads(run("status", "p", "--json")[1])["peers"]
    assert "and 2 min are allowed" in str(p["findings"]), "without --max-lag the peer's own limit counts"
    assert run("status", "paused", "theirs")[0] == 0, "nobody ships a paused peer, and HBase looks after its own"


@away
def test_a_peer_that_does_not_exist_and_queues_of_such_peers_are_named(run: Run, hbase: HBaseZNodes) -> None:
    code, out, err = run("status", "p", "nobody")
    assert (code, out) == (1, "")
    assert "peer nobody does not exist at the source. Its peers: p" in err
    hbase.add_wal(DEAD, f"gone-{DEAD}", wal(1, DEAD))
    out = run("status")[1]
    assert f"1 queue with 1 WAL are of peers that do not exist, and nothing ships them: {DEAD}/gone-{DEAD}. Their" in out


def test_queues_are_shown_group_by_group_with_where_they_came_from(run: Run, hbase: HBaseZNodes) -> None:
    assert run("queues") == (0, "No WALs are queued.\n", "")
    hbase.add_wal(SERVER, "p", wal(1))
    hbase.add_wal(SERVER, f"p-{DEAD}", wal(7, DEAD))
    hbase.add_wal(DEAD, "q", wal(9, DEAD))
    assert f"Normal (dead)  {DEAD}/q " in run("queues")[1]
    hbase.zk.delete(hbase.nodes.queue(DEAD, "q"), recursive=True)
    code, out, _ = run("queues")
    head, *rows = out.splitlines()
    assert (code, head.split()[:3]) == (0, ["PEER", "KIND", "QUEUE"])
    assert [row.split()[1] for row in rows] == ["Normal", "Recovered"]
    assert rows[1].split()[2] == f"{SERVER}/p-{DEAD}"  # as `drain` takes it
    assert wal(7, DEAD) in rows[1]
    hbase.zk.set(f"{hbase.nodes.queue(SERVER, 'p')}/{wal(1)}", b"not a position")
    code, _, err = run("queues", "p")
    found = json.loads(run("queues", "p", "--json")[1])
    assert (code, found["well"], len(found["queues"])) == (3, False, 2)
    assert wal(1) in err or wal(1) in str(found)


def test_a_znode_that_may_not_be_read_ends_a_command_with_what_to_do(run: Run, hbase: HBaseZNodes) -> None:
    nobody = [make_acl("ip", "10.255.255.255", all=True)]
    hbase.zk.set_acls(hbase.nodes.peer("p"), nobody)
    status, out, err = run("peers", "list")
    assert (status, out) == (1, "")
    assert err.startswith("walferry: ZooKeeper has refused a request: NoAuth")
    assert "ACL" in err
    status, out, _ = run("check")
    assert (status, "ZooKeeper has refused a request: NoAuth" in out, "ACL" in out) == (3, True, True)
    for znode, refused in ((None, "peers"), (hbase.nodes.peers, "replication")):
        if znode:
            hbase.zk.set_acls(znode, nobody)
        status, out, _ = run("check", "--json")
        found = {each["kind"]: each for each in json.loads(out)["findings"]}
        assert (status, found["own root"]["severity"], found["WAL folders"]["severity"]) == (3, "note", "well")
        assert found[refused]["severity"] == "wrong"
        assert "NoAuth" in found[refused]["text"]
        assert "ACL" in found[refused]["text"]


def test_a_root_that_is_not_a_cluster_s_is_named(run: Run) -> None:
    for command in (["status"], ["peers", "list"], ["plan", "p"], ["check"]):
        status, out, err = run(*command, base="/nowhere")
        assert status in (1, 3)
        assert "/nowhere" in out + err
        assert "check quorum and znode_parent" in (out + err).lower()


@pytest.mark.slow
def test_servers_that_are_not_there_are_named_in_seconds(run: Run) -> None:
    with socket.socket() as silent, socket.socket() as closed:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        closed.bind(("127.0.0.1", 0))
        for host, why, seconds in (
            ("no-such-host.invalid:2181", "the name no-such-host.invalid does not resolve", 10),
            (f"127.0.0.1:{closed.getsockname()[1]}", "connection refused", 10),
            (f"127.0.0.1:{silent.getsockname()[1]}", "answered within 10 s", 15),
        ):
            began = time.monotonic()
            status, out, err = run("plan", "p", quorum=host)
            assert time.monotonic() - began < seconds
            assert (status, out) == (1, "")
            assert f"no ZooKeeper server of {host}" in err
            assert why in err
            status, out, err = run("check", quorum=host)
            assert (status, err) == (3, "")
            assert f"no ZooKeeper server of {host}" in out
            assert why in out
