"""`walferry plan`, `ship`, `failover`, `drain` and `verify` on two real clusters, in processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedded.processes import wait_until
from embedded.wire import put
from tests.cluster.dead_queues import DeadQueue, record
from tests.cluster.managed_peers import Clusters, admin, clusters
from tests.cluster.test_pausing import peer, table
from tests.cluster.walferry_runs import positions, roll
from tests.unit.jobs.test_workers import heed_interrupts
from walferry.admin.changing import pause, resume, set_values
from walferry.base.zk.fenced_lock import is_held
from walferry.cli.main import main
from walferry.replication.locks.peer_lock import turn_of
from walferry.replication.queues.reading import read_queues

__all__ = ["admin", "clusters", "peer", "table"]  # fixtures

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(clusters: Clusters, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any, str]]:
    """`run("ship", peer)` → exit status, standard output (with --json as a value), and stderr."""

    def run(*arguments: str) -> tuple[int, Any, str]:
        status = main(["--source", clusters.at_root(clusters.at.wal_root), *arguments])
        out, err = capfd.readouterr()
        return status, json.loads(out) if "--json" in arguments and out else out, err

    return run


@pytest.mark.capability("the command")
def test_a_plan_tells_what_a_batch_ships_and_a_shipment_ships_it(clusters, admin, peer, table, run) -> None:
    clusters.write(table, "a")
    roll(clusters.at, peer)
    before = positions(clusters.at, peer)
    status, planned, _ = run("plan", peer, "--json")
    assert (status, planned["wals"], planned["left_to"]) == (0, 1, None)
    assert planned["bytes"] > 0
    assert f"{planned['bytes']:,}" in run("plan", peer)[1]
    assert positions(clusters.at, peer) == before
    clusters.write(table, "b")

    status, report, err = run("ship", peer, "--json")
    assert (status, report["ok"], report["totals"]["shippedOps"]) == (0, True, 400)
    assert "WALs of 1 WAL groups" in err
    assert clusters.source.compare(table, clusters.peer_cluster).same
    assert clusters.peer_cluster.count_rows(table) == 400
    assert not is_held(admin.session.zk, admin.session.own.peer_lock(peer))

    status, out, _ = run("ship", peer, "--no-roll")
    assert (status, out) == (0, f"peer {peer}: nothing to ship\n")
    clusters.write(table, "c")
    status, out, err = run("ship", peer, "--sink", "hfiles")
    (row,) = [line.split() for line in out.splitlines()[1:]]
    assert (status, row[1], row[3]) == (0, "done", "200")
    assert "are loaded as files" in err
    assert clusters.source.compare(table, clusters.peer_cluster).same


def test_a_paused_peer_is_left_alone_and_that_is_well(clusters, admin, peer, table, run) -> None:
    clusters.write(table, "a")
    roll(clusters.at, peer)
    pause(admin, peer)
    assert "A batch would ship nothing now: peer" in run("plan", peer)[1]
    status, out, _ = run("ship", peer)
    assert status == 0
    assert "it is paused (walferry.paused=true in its configuration). New edits stay queued until `walferry peers" in out
    resume(admin, peer)
    assert run("ship", peer)[0] == 0
    assert clusters.peer_cluster.count_rows(table) == 200


def test_a_peer_that_must_not_be_shipped_is_refused(clusters, run, unique) -> None:
    name = unique("peer")
    clusters.source.add_peer(name, clusters.key, enabled=False)
    for command in ("plan", "ship"):
        status, out, err = run(command, name)
        assert (status, out) == (1, "")
        assert "walferry.managed=true, so it is not Walferry's" in err
    clusters.source.remove_peer(name)


def test_a_shipment_that_is_interrupted_gives_up_what_it_holds_and_loses_nothing(clusters, admin, peer, table, run) -> None:
    set_values(admin, peer, {"bandwidth": "20000", "replication.source.size.capacity": "16384"})
    clusters.source.write(table, [put(f"r{i:04}", {"f:q": bytes(1000)}) for i in range(400)], one_by_one=True)
    roll(clusters.at, peer)
    (group,) = {wal.name.group for queue in read_queues(admin.session, peer) for wal in queue.wals}
    lease = admin.session.own.lease(peer, group)
    command = [sys.executable, "-m", "walferry.cli", "ship", peer, "--no-roll"]
    source = clusters.at_root(clusters.at.wal_root)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "plugins"), "AIRFLOW_CONN_HBASE_SOURCE": source}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heed_interrupts
    ) as process:
        wait_until(lambda: clusters.peer_cluster.count_rows(table) > 0, "it ships", processes=[], timeout=60)
        assert is_held(admin.session.zk, lease)
        assert turn_of(admin.session, peer, "another run").other is not None
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(40) == 130
        assert not is_held(admin.session.zk, lease)
        assert turn_of(admin.session, peer, "another run").other is None
        assert process.stderr is not None
        assert "interrupted" in process.stderr.read()
    assert clusters.peer_cluster.count_rows(table) < 400
    set_values(admin, peer, {"bandwidth": ""})
    assert run("ship", peer)[0] == 0
    assert clusters.source.compare(table, clusters.peer_cluster).same


def test_tables_are_compared_and_repaired(clusters, peer, table, run) -> None:
    clusters.write(table, "a", 20)
    assert run("ship", peer)[0] == 0
    status, report, _ = run("verify", peer, table, "--json", "--recompares", "0")
    assert (status, report["totals"]["GOODROWS"], report["ok"]) == (0, 20, True)
    clusters.peer_cluster.empty_table(table)
    clusters.peer_cluster.write(table, [put("only-here", {"f:q": b"v"})])
    status, out, err = run("verify", peer, table, "--recompares", "0")
    assert status == 3
    assert f"table {table}: 21 rows differ" in err
    assert f"ONLY_IN_SOURCE_TABLE_ROWS {table} a0:" in out
    assert run("verify", peer, table, "--recompares", "0", "--repair")[0] == 3
    assert clusters.peer_cluster.count_rows(table) == 21
    status, _, err = run("verify", peer, "nowhere")
    assert (status, "nowhere" in err) == (1, True)


def test_a_check_finds_what_works_and_what_does_not(clusters, admin, peer, table, run) -> None:
    status, found, _ = run("check", "--json")
    of_peer = {each["kind"]: each["severity"] for each in found["findings"] if each["about"] == f"peer {peer}"}
    assert of_peer == dict.fromkeys(("configuration", "tables", "queues"), "well")
    of_peer_cluster = {each["kind"]: each["severity"] for each in found["findings"] if each["about"] == f"cluster of peer {peer}"}
    assert of_peer_cluster == dict.fromkeys(("ZooKeeper", "RegionServers", "rights", "sink"), "well")
    others = {each["kind"]: each["severity"] for each in found["findings"] if not each["about"]}
    looked_at = ("ZooKeeper", "cluster", "RegionServers", "Master", "WAL folders", "replication", "dead servers")
    assert others == {**dict.fromkeys(looked_at, "well"), "own root": "note"}  # without logins, all may write there
    servers = next(each["text"] for each in found["findings"] if (each["about"], each["kind"]) == ("", "RegionServers"))
    assert servers.startswith("1 of 1 answer; HBase 2.")
    assert (status, found["well"]) == (0, True)

    clusters.source.put_peer_configuration(peer, {"walferry.sink": "quick"})
    status, found, _ = run("check", peer, "--json")
    assert status == 3
    wrong = {each["kind"]: each["text"] for each in found["findings"] if each["severity"] == "wrong"}
    assert "walferry.sink is 'quick'" in wrong["configuration"]
    clusters.source.put_peer_configuration(peer, {"walferry.sink": ""})
    clusters.peer_cluster.drop_table(table)
    status, out, _ = run("check", peer)
    assert status == 3
    assert f"there is no table {table} at the peer cluster" in out
    pause(admin, peer)
    assert "it is paused" in run("check", peer)[1]


@pytest.mark.parametrize(("extra", "kind", "said"), [
    ({"znode_parent": "/nowhere"}, "cluster", "/nowhere/hbaseid is not there"),
    ({"wal_root": "file:///nowhere"}, "WAL folders", "there is no such folder"),
])  # fmt: skip
def test_a_check_finds_a_wrong_connection(clusters, peer, capfd, extra: dict[str, str], kind: str, said: str) -> None:
    source = json.loads(clusters.at_root(clusters.at.wal_root))
    source["extra"] |= extra
    assert main(["--source", json.dumps(source), "check", "--json"]) == 3
    found = json.loads(capfd.readouterr().out)["findings"]
    (text,) = [each["text"] for each in found if each["kind"] == kind and each["severity"] == "wrong"]
    assert said in text


@pytest.fixture
def dead(clusters, peer, table) -> DeadQueue:
    """A queue that a live server has claimed from a dead one, with one WAL of 50 puts."""
    queue = DeadQueue(clusters.at, clusters.source, peer)
    queue.add(record(clusters.source, table, 50).content)
    return queue


def test_a_dead_server_s_queue_is_drained(clusters, admin, peer, table, run, dead) -> None:
    ref = f"{clusters.source.region_servers()[0]}/{peer}-{dead.server}"
    status, reported, _ = run("drain", ref, "--dry-run", "--json")
    assert status == 0
    assert reported["lines"][0] == "Dry run: nothing is claimed, shipped or deleted."
    assert admin.session.zk.exists(dead.path)
    status, out, err = run("drain", ref)
    assert (status, [line.split()[:5] for line in out.splitlines()[1:]]) == (0, [[ref, "complete", "1", "0", "50"]])
    assert f"queue {ref}: 1 WALs" in err
    assert not admin.session.zk.exists(dead.path)
    assert clusters.peer_cluster.count_rows(table) == 50
    status, out, err = run("drain", ref)
    assert (status, out) == (1, "")
    assert f"there is no queue {ref}" in err


def test_a_paused_peer_s_queue_is_left(admin, clusters, peer, run, dead) -> None:
    pause(admin, peer)
    status, out, _ = run("drain", f"{clusters.source.region_servers()[0]}/{peer}-{dead.server}")
    assert (status, "it is paused" in out) == (0, True)
    assert admin.session.zk.exists(dead.path)


def test_all_queues_of_a_dead_server_are_shipped(clusters, admin, peer, table, run, dead) -> None:
    status, report, _ = run("failover", dead.server, "--json")
    assert (status, report["totals"]["completedRecoverQueues"], report["totals"]["shippedOps"]) == (0, 1, 50)
    assert not admin.session.zk.exists(dead.path)
    assert clusters.peer_cluster.count_rows(table) == 50
    status, out, _ = run("failover", dead.server)
    assert (status, f"Server {dead.server}: no queue of it is left" in out) == (0, True)


def test_what_a_broken_wal_leaves_of_a_queue_is_told_with_its_reason(clusters, peer, run, dead) -> None:
    dead.add(b"this is not a WAL")
    status, out, err = run("drain", f"{clusters.source.region_servers()[0]}/{peer}-{dead.server}")
    assert status == 3
    assert out.splitlines()[1].split()[1:4] == ["left", "2", "1"]
    assert "1 WAL left: " in err


def test_an_orphaned_queue_is_found_and_deleted_only_if_that_is_said(clusters, admin, peer, run, dead) -> None:
    ref = f"{clusters.source.region_servers()[0]}/{peer}-{dead.server}"
    clusters.source.remove_peer(peer)
    admin.session.zk.create(f"{dead.path}/{dead.group}.1700000000009", b"", makepath=True)
    status, found, _ = run("check", "--json")
    assert status == 3
    (orphan,) = [each for each in found["findings"] if each["kind"] == "orphaned queues"]
    assert orphan["advice"].endswith(f"`walferry drain {ref} --delete-orphan` deletes the queue, unshipped")
    assert run("drain", ref)[0] == 0
    assert admin.session.zk.exists(dead.path)
    status, out, _ = run("drain", ref, "--delete-orphan")
    assert (status, out.strip().endswith(": deleted")) == (0, True)
    assert not admin.session.zk.exists(dead.path)
