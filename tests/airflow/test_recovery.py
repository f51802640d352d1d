"""The DAGs of recovery, run by Airflow, against a real ZooKeeper; the Spark job is a stub that takes WALs out of the queues."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowException
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.zk.fixtures import lasting_hbase as hbase
from tests.zk.fixtures import new_client, zk, zookeeper
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, LastingZNodes, wal
from walferry.airflow import batch, choices, recovery, recovery_tasks
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.source import SourceCluster
from walferry.summary import GroupSummary, Status, write_group
from walferry.zk.client import connect, disconnect
from walferry.zk.dead_servers import WALFERRY_SERVER, recovered_queues
from walferry.zk.errors import ClaimHeld, ClaimLost
from walferry.zk.hold import Hold
from walferry.zk.layout import OwnZNodes, QueueLayout
from walferry.zk.lease import acquire

from .conftest import REPO, Run

__all__ = ["hbase", "new_client", "zk", "zookeeper"]  # fixtures

GONE = "rs-9.example.org,16020,1700000000009"


@dataclass
class Spark:
    """Ships what it is asked to, other than groups that are `broken` or held by somebody else, as often as that says."""

    zk: Any
    at: SourceCluster
    broken: dict[str, str] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)

    def submit(self, hook: WalferrySubmitHook, application: str) -> None:
        command = hook._build_spark_submit_command(application)
        self.commands.append(command)
        peer, run_id = (command[command.index(name) + 1] for name in ("--peer", "--run-id"))
        failed = False
        for group in self.groups(command):
            summary = self._ship(peer, group)
            failed |= summary.failed
            write_group(self.zk, self.at, peer, run_id, summary)
        if failed:
            raise AirflowException("spark-submit ended with 1")

    @staticmethod
    def groups(command: list[str]) -> list[str]:
        return [word.removeprefix("--group=") for word in command if word.startswith("--group=")]

    @property
    def shipped(self) -> list[tuple[str, list[str]]]:
        return sorted((c[c.index("--peer") + 1], self.groups(c)) for c in self.commands)

    def _ship(self, peer: str, group: str) -> GroupSummary:
        if self.held.get(group, 0) > 0:
            self.held[group] -= 1
            return GroupSummary(group=group, status=Status.HELD, error=f"WAL group {group} is held by run x")
        if group in self.broken:
            return GroupSummary(group=group, status=Status.FAILED, error=self.broken[group])
        wals = 0
        for queue in recovered_queues(self.zk, self.at.nodes, peer):
            if group in queue.groups:
                path = self.at.nodes.queue(queue.server, queue.queue_id)
                for name in queue.wals:
                    self.zk.delete(f"{path}/{name}")
                    wals += 1
                self.zk.delete(path)
        return GroupSummary(group=group, status=Status.DONE, completedLogs=wals, shippedOps=100 * wals)


@pytest.fixture
def at(hbase: HBaseZNodes, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> SourceCluster:
    """The cluster as Airflow's connection."""
    extra = {"znode_parent": hbase.nodes.base, "wal_root": f"file://{tmp_path}", "walferry_root": hbase.root}
    connection = {"conn_type": "generic", "host": zookeeper.quorum, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    return SourceCluster(
        quorum=zookeeper.quorum, wal_root=f"file://{tmp_path}", znode_parent=hbase.nodes.base, root=hbase.root
    )


@pytest.fixture
def spark(at: SourceCluster, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> Spark:
    spark = Spark(hbase.zk, at)
    monkeypatch.setattr(WalferrySubmitHook, "submit", lambda hook, application="": spark.submit(hook, application))
    return spark


@pytest.fixture
def failover(run_dag: Callable[..., Run], spark: Spark) -> Callable[..., Run]:
    return partial(run_dag, "regionserver_failover")


@pytest.fixture
def drain(run_dag: Callable[..., Run], spark: Spark) -> Callable[..., Run]:
    return partial(run_dag, "drain_recovered_queue")


@pytest.fixture
def dead(hbase: HBaseZNodes) -> HBaseZNodes:
    """Two dead servers: the queues of DEAD are unclaimed, for p and q; HBase has claimed that of OTHER, for p."""
    hbase.add_peer("q")
    for timestamp in (1, 2):
        hbase.add_wal(DEAD, "p", wal(timestamp, DEAD))
    hbase.add_wal(DEAD, "q", wal(2, DEAD))
    hbase.add_wal(OTHER, "p", wal(5, OTHER))
    hbase.claim(OTHER, "p", SERVER)
    hbase.zk.delete(hbase.nodes.queue_server(OTHER))
    hbase.add_wal(SERVER, "p", wal(9))
    return hbase


def group(server: str) -> str:
    return wal(0, server).rpartition(".")[0]


def states(run: Run, task: str) -> dict[str | None, str]:
    return {label: state for (name, label), state in run.tasks.items() if name == task}


def test_all_dead_servers_queues_are_claimed_drained_and_tidied_up(failover, dead: HBaseZNodes, spark: Spark):
    ended = failover()
    assert ended.state == "success", ended.report
    assert spark.shipped == [("p", [group(DEAD)]), ("p", [group(OTHER)]), ("q", [group(DEAD)])]
    assert states(ended, "claim") == {DEAD: "success", OTHER: "success"}
    assert set(states(ended, "drain")) == {
        f"{WALFERRY_SERVER}/p-{DEAD}", f"{WALFERRY_SERVER}/q-{DEAD}", f"{SERVER}/p-{OTHER}"
    }  # fmt: skip
    report = ended.report
    assert {(q["dead_server"], q["peer"], q["claimed_by"], q["wals"], q["state"]) for q in report["queues"]} == {
        (DEAD, "p", "Walferry", 2, "complete"), (DEAD, "q", "Walferry", 1, "complete"), (OTHER, "p", "HBase", 1, "complete")
    }  # fmt: skip
    assert (report["totals"]["completedRecoverQueues"], report["totals"]["failedRecoverQueues"]) == (3, 0)
    assert report["totals"]["completedLogs"] == 4
    assert {server["server"]: server["moved"] for server in report["servers"]} == {DEAD: 2, OTHER: 0}
    assert dead.zk.get_children(dead.nodes.queues) == [SERVER]
    assert dead.queued("p") == [dead.nodes.wal(SERVER, "p", wal(9))]


def test_a_run_without_dead_servers_is_a_success_and_starts_no_job(failover, hbase: HBaseZNodes, spark: Spark):
    ended = failover()
    assert ended.state == "success"
    assert ended.report["totals"]["completedRecoverQueues"] == 0
    assert spark.commands == []


def test_one_server_is_recovered_by_name_and_again_when_it_is_done(failover, dead: HBaseZNodes, spark: Spark):
    assert failover(server=DEAD).state == "success"
    assert spark.shipped == [("p", [group(DEAD)]), ("q", [group(DEAD)])]
    again = failover(server=DEAD)
    assert again.state == "success"
    assert again.report["notes"] == [f"Server {DEAD}: no queue of it is left, they were all handled before."]
    assert len(spark.commands) == 2


@pytest.mark.parametrize("server", [SERVER, "rs-2.example.org"])
def test_a_live_server_or_what_is_no_server_is_refused_at_once(failover, dead: HBaseZNodes, spark: Spark, server: str):
    before = dead.everything()
    ended = failover(server=server)
    assert ended.state == "failed"
    assert (ended.tasks["find", None], ended.tries["find", None]) == ("failed", 1)
    (reason,) = ended.report["failures"]
    assert reason.startswith("find: ")
    assert f"Dead servers with queues of managed peers: {DEAD}, {OTHER}" in reason
    assert spark.commands == []
    assert dead.everything() == before


def test_a_queue_that_fails_stops_no_other_and_a_later_run_drains_it(failover, dead: HBaseZNodes, spark: Spark):
    dead.add_wal(SERVER, f"q-{OTHER}", wal(6, OTHER))
    spark.broken = {group(OTHER): "table t does not exist there"}
    ended = failover()
    assert ended.state == "failed"
    assert sorted(states(ended, "drain").values()) == ["failed", "failed", "success", "success"]
    assert sorted(ended.report["failures"]) == [
        f"{SERVER}/{peer}-{OTHER}: 1 WAL left: {group(OTHER)}: failed: table t does not exist there" for peer in "pq"
    ]
    assert ended.tries["drain", f"{SERVER}/p-{OTHER}"] == 1
    assert ended.report["totals"]["failedRecoverQueues"] == 2
    assert DEAD not in dead.zk.get_children(dead.nodes.queues)
    spark.broken = {}
    again = failover()
    assert again.state == "success"
    assert again.report["totals"]["completedRecoverQueues"] == 2


def test_a_drain_waits_for_another_run_that_has_the_queue_in_hand(
    failover, dead: HBaseZNodes, at: SourceCluster, spark: Spark, other: KazooClient
):
    lease = acquire(other, at.nodes, "p", group(OTHER), "run x", at.root)
    released = threading.Timer(5, lease.release)
    released.start()
    ended = failover(server=OTHER)
    released.join()
    assert ended.state == "success", ended.report
    assert ended.tries["drain", f"{SERVER}/p-{OTHER}"] == 1


def test_a_queue_that_somebody_holds_until_the_deadline_fails(
    failover, dead: HBaseZNodes, at: SourceCluster, spark: Spark, other: KazooClient
):
    spark.held = {group(OTHER): 100}
    with acquire(other, at.nodes, "p", group(OTHER), "run x", at.root):
        ended = failover(server=OTHER, deadline=10)
    assert ended.state == "failed"
    assert len(spark.commands) == 1
    assert "is held by run x" in ended.report["failures"][0]


def test_a_batch_leaves_to_a_recovery_what_it_has_in_hand(dead: HBaseZNodes, at: SourceCluster, other: KazooClient):
    dead.add_wal(SERVER, "p", wal(10))
    everything = batch.plan(at, "p", "r.1")
    assert everything["groups"] == 3
    assert "only" not in everything
    with (
        acquire(other, at.nodes, "p", group(OTHER), "run x", at.root),
        acquire(other, at.nodes, "p", group(SERVER), "another batch", at.root),
    ):
        rest = batch.plan(at, "p", "r.2")
    assert (rest["groups"], rest["only"]) == (2, [group(SERVER), group(DEAD)])


def test_a_drain_before_which_somebody_else_was_faster_is_tried_again(failover, dead: HBaseZNodes, spark: Spark):
    spark.held = {group(OTHER): 2}
    ended = failover(server=OTHER)
    assert ended.state == "success", ended.report
    assert ended.tries["drain", f"{SERVER}/p-{OTHER}"] == 3
    run_ids = {command[command.index("--run-id") + 1] for command in spark.commands}
    assert len(run_ids) == 1


def test_a_queue_that_stays_in_another_run_s_hand_fails_with_its_name(failover, dead: HBaseZNodes, spark: Spark):
    spark.held = {group(OTHER): 100}
    ended = failover(server=OTHER)
    assert ended.state == "failed"
    (reason,) = ended.report["failures"]
    assert "is held by run x" in reason
    assert len(spark.commands) == 1 + recovery_tasks.DRAIN_RETRIES


@pytest.fixture
def other(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    """Somebody else's session, one that outlives the pauses of a busy machine."""
    client = connect(zookeeper.quorum)
    yield client
    disconnect(client)


@pytest.fixture
def rival(dead: HBaseZNodes, at: SourceCluster, other: KazooClient) -> Hold:
    """Another run that claims DEAD."""
    hold = Hold(
        other,
        OwnZNodes(at.root, at.nodes).claim(DEAD),
        lambda who, since: ClaimHeld(DEAD, who, since),
        lambda why: ClaimLost(DEAD, why),
    )
    hold.acquire("run scheduled__1 on host h", "scheduled__1")
    return hold


def test_a_claim_of_another_run_s_is_refused_and_the_other_servers_are_recovered(
    failover, dead: HBaseZNodes, spark: Spark, rival: Hold
):
    ended = failover()
    assert ended.state == "failed"
    assert states(ended, "claim") == {DEAD: "failed", OTHER: "success"}
    assert ended.tries["claim", DEAD] == 1 + recovery_tasks.CLAIM_RETRIES
    (reason,) = ended.report["failures"]
    assert reason.startswith(f"claim of {DEAD}: the queues of {DEAD} are being claimed by run scheduled__1 on host h since")
    assert spark.shipped == [("p", [group(OTHER)])]
    assert dead.zk.get_children(dead.nodes.server_queues(DEAD)) == ["p", "q"]


def test_a_claim_is_waited_for(failover, dead: HBaseZNodes, spark: Spark, rival: Hold, monkeypatch: pytest.MonkeyPatch):
    claim, tries = recovery.claim, []

    def third_time_free(*args: Any) -> dict[str, Any]:
        tries.append(args)
        if len(tries) == 3:
            rival.release()
        return claim(*args)

    monkeypatch.setattr(recovery, "claim", third_time_free)
    ended = failover(server=DEAD)
    assert ended.state == "success", ended.report
    assert ended.tries["claim", DEAD] == 3
    assert len(spark.commands) == 2


def test_a_peer_that_is_enabled_after_the_claim_is_left_and_told(
    failover, dead: HBaseZNodes, spark: Spark, monkeypatch: pytest.MonkeyPatch
):
    claim = recovery.claim

    def claim_and_enable(*args: Any) -> dict[str, Any]:
        claimed = claim(*args)
        dead.set_state("q", "ENABLED")
        return claimed

    monkeypatch.setattr(recovery, "claim", claim_and_enable)
    ended = failover(server=DEAD)
    assert ended.state == "failed"
    (reason,) = ended.report["failures"]
    assert reason.startswith(f"{WALFERRY_SERVER}/q-{DEAD}: 1 WAL left: peer q: it is ENABLED")
    assert spark.shipped == [("p", [group(DEAD)])]


def test_queues_of_others_peers_are_left_with_a_reason(failover, dead: HBaseZNodes, spark: Spark):
    dead.add_peer("stranger", config={})
    dead.add_wal(DEAD, "stranger", wal(1, DEAD))
    ended = failover(server=DEAD)
    assert ended.state == "success", ended.report
    (server,) = ended.report["servers"]
    assert "no walferry.managed=true" in server["left"][0]
    assert dead.zk.get_children(dead.nodes.server_queues(DEAD)) == ["stranger"]
    assert ended.report["removed"] == [WALFERRY_SERVER]


def test_a_server_that_dies_holding_claimed_queues_leaves_chained_ones(failover, dead: HBaseZNodes, spark: Spark):
    dead.stop_server(SERVER)
    ended = failover(server=SERVER)
    assert ended.state == "success", ended.report
    assert {q["queue"] for q in ended.report["queues"]} == {
        f"{WALFERRY_SERVER}/p-{OTHER}-{SERVER}", f"{WALFERRY_SERVER}/p-{SERVER}"
    }  # fmt: skip


@pytest.mark.parametrize("layout", ["classic", "classic-peers"])
def test_the_classic_layouts_are_recovered_too(failover, hbase: HBaseZNodes, spark: Spark, monkeypatch, layout: str):
    connection = json.loads(os.environ["AIRFLOW_CONN_HBASE_SOURCE"])
    connection["extra"]["queue_layout"] = layout
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    spark.at = replace(spark.at, queue_layout=QueueLayout(layout))
    old = LastingZNodes(hbase.zk, spark.at.nodes)
    old.add_wal(SERVER, "p", wal(9))
    old.add_wal(DEAD, "p", wal(1, DEAD))
    old.add_wal(DEAD, f"p-{OTHER}", wal(2, OTHER))
    ended = failover()
    assert ended.state == "success", ended.report
    assert {(q["queue"], q["claimed_by"]) for q in ended.report["queues"]} == {
        (f"{SERVER}/p-{DEAD}", "HBase or Walferry"), (f"{SERVER}/p-{OTHER}-{DEAD}", "HBase or Walferry")
    }  # fmt: skip
    assert ended.report["servers"][0]["moved"] == 2
    assert old.zk.get_children(old.nodes.queues) == [SERVER]
    assert old.zk.get_children(old.nodes.server_queues(SERVER)) == ["p"]


def test_every_step_may_be_done_again(dead: HBaseZNodes, at: SourceCluster, spark: Spark):
    claimed = recovery.claim(at, DEAD, "run 1")
    assert recovery.claim(at, DEAD, "run 1")["queues"] == claimed["queues"]
    assert recovery.claim(at, DEAD, "run 2")["queues"] == claimed["queues"]
    drains = recovery.plan(at, claimed["queues"], (), "run 1.1")
    assert recovery.plan(at, claimed["queues"], (), "run 1.2")[0]["queue"] == drains[0]["queue"]
    for queue in recovery.to_ship(drains):
        for name in queue["groups"]:
            spark._ship(queue["peer"], name)
    assert recovery.left(at, drains) == [-1, -1]
    assert recovery.plan(at, claimed["queues"], (), "run 1.3") == []
    dead.zk.ensure_path(at.nodes.queue(WALFERRY_SERVER, f"p-{DEAD}"))  # as a drain leaves it that is killed in the very end
    assert recovery.clean_up(at, [OTHER], "run 1") == []
    assert recovery.clean_up(at, [DEAD], "run 1") == [WALFERRY_SERVER]
    assert recovery.clean_up(at, [DEAD], "run 1") == []
    assert recovery.claim(at, DEAD, "run 1")["queues"] == []


def test_a_queue_that_hbase_claims_after_the_run_has_chosen_it_is_found(dead: HBaseZNodes, at: SourceCluster):
    chosen = recovery.select(at, "p", f"{DEAD}/p", False)
    dead.claim(DEAD, "p", SERVER)
    (drain,) = recovery.plan(at, chosen.queues, (), "run 1.1")
    assert (drain["server"], drain["queue"]) == (SERVER, f"p-{DEAD}")


def test_an_empty_queue_is_removed_and_one_run_drains_so_many_queues_only(
    dead: HBaseZNodes, at: SourceCluster, monkeypatch: pytest.MonkeyPatch
):
    dead.zk.ensure_path(dead.nodes.queue(SERVER, f"p-{GONE}"))
    monkeypatch.setattr(recovery, "MAX_DRAINS", 1)
    chosen = recovery.select(at, "", "", False)
    drains = recovery.plan(at, chosen.queues, (), "run 1.1")
    assert not dead.zk.exists(dead.nodes.queue(SERVER, f"p-{GONE}"))
    assert len(recovery.to_ship(drains)) == 1
    assert [drain["problem"] for drain in drains if drain["wals"]].count("one run drains 1 queues at most; run it again") == 2


# drain_recovered_queue


def test_a_dry_run_tells_all_and_changes_nothing(drain, dead: HBaseZNodes, at: SourceCluster, spark: Spark, tmp_path: Any):
    (tmp_path / "oldWALs").mkdir()
    (tmp_path / "oldWALs" / wal(1, DEAD)).write_bytes(b"x" * 123_456)
    dead.add_wal(SERVER, f"gone-{GONE}", wal(1, GONE))
    before = dead.everything()
    ended = drain(dry_run=True)
    assert ended.state == "success"
    assert dead.everything() == before
    assert not dead.zk.exists(f"{at.root}/claims")
    assert spark.commands == []
    notes = "\n".join(ended.report["notes"])
    assert "Dry run: nothing is claimed, shipped or deleted." in notes
    assert f"Server {DEAD} would be claimed first." in notes
    assert f"Queue {DEAD}/p of peer p, claimed by nobody: 2 WALs, 123.5 kB to ship" in notes
    assert f"Queue {SERVER}/p-{OTHER} of peer p, claimed by HBase: 1 WAL" in notes
    assert f"  {wal(1, DEAD)}: 123,456 bytes, shipped to 0, 123,456 bytes left (file://{tmp_path}/oldWALs/" in notes
    assert f"PROBLEM WAL {wal(2, DEAD)} is queued, but there is no such file" in notes
    assert f"Queue {SERVER}/gone-{GONE} of peer gone, which is gone: 1 WAL, 0 B not shipped: would be left" in notes


def test_a_queue_that_hbase_claimed_is_drained_where_it_lies(drain, dead: HBaseZNodes, spark: Spark):
    ended = drain(queue=f"{SERVER}/p-{OTHER}")
    assert ended.state == "success", ended.report
    assert states(ended, "claim") == {None: "skipped"}
    assert spark.shipped == [("p", [group(OTHER)])]
    assert dead.zk.get_children(dead.nodes.server_queues(DEAD)) == ["p", "q"]


def test_an_orphaned_queue_is_claimed_first_and_the_others_of_its_server_are_kept(drain, dead: HBaseZNodes, spark: Spark):
    ended = drain(peer="p", queue=f" {DEAD}/p ")
    assert ended.state == "success", ended.report
    assert spark.shipped == [("p", [group(DEAD)])]
    assert dead.queued("q") == [dead.nodes.wal(WALFERRY_SERVER, f"q-{DEAD}", wal(2, DEAD))]
    assert [q["queue"] for q in ended.report["queues"]] == [f"{WALFERRY_SERVER}/p-{DEAD}"]
    assert drain(peer="q").state == "success"
    assert dead.queued("q") == []


def test_an_orphaned_queue_that_another_run_claims_is_not_touched(drain, dead: HBaseZNodes, spark: Spark, rival: Hold):
    ended = drain(peer="p")
    assert ended.state == "failed"
    assert spark.shipped == [("p", [group(OTHER)])]
    assert {reason.partition(":")[0] for reason in ended.report["failures"]} == {f"claim of {DEAD}", f"{DEAD}/p"}
    assert len(dead.zk.get_children(dead.nodes.queue(DEAD, "p"))) == 2


def test_a_peer_without_recovered_queues_is_a_success(drain, hbase: HBaseZNodes, spark: Spark):
    ended = drain(peer="p")
    assert ended.state == "success"
    assert ended.report["notes"] == ["There are no recovered queues to drain of peer p."]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"queue": f"{DEAD}/x"}, f"there is no queue {DEAD}/x. Recovered queues: {SERVER}/p-{OTHER}, {DEAD}/p, {DEAD}/q"),
        ({"queue": f"{SERVER}/p"}, "own queue of a live RegionServer"),
        ({"queue": "; rm -rf /"}, "is no queue"),
        ({"peer": "nobody"}, "there is no peer 'nobody'. Peers: p, q"),
        ({"peer": "q", "queue": f"{DEAD}/p"}, "is one of peer p, not of peer q"),
        ({"delete_orphan": True}, "name the peer or the queue"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_typed_wrongly_is_refused_at_once(
    drain, dead: HBaseZNodes, spark: Spark, params: dict[str, Any], told: str
):
    before = dead.everything()
    ended = drain(**params)
    assert (ended.state, ended.tries["select", None]) == ("failed", 1)
    assert told in ended.report["failures"][0]
    assert dead.everything() == before
    assert spark.commands == []


@pytest.mark.parametrize("named", [{"peer": "stranger"}, {}], ids=["by name", "among all"])
def test_a_peer_that_is_not_walferry_s_is_refused_by_name_and_left_otherwise(
    drain, dead: HBaseZNodes, spark: Spark, named: dict[str, str]
):
    dead.add_peer("stranger", config={})
    path = dead.add_wal(SERVER, f"stranger-{OTHER}", wal(1, OTHER))
    ended = drain(**named)
    assert ended.state == ("failed" if named else "success")
    assert dead.zk.exists(path)
    assert len(spark.commands) == (0 if named else 3)


def test_a_queue_of_a_gone_peer_is_reported_and_deleted_only_if_that_is_asked_for(
    drain, dead: HBaseZNodes, spark: Spark, tmp_path: Any
):
    (tmp_path / "oldWALs").mkdir()
    (tmp_path / "oldWALs" / wal(1, GONE)).write_bytes(b"x" * 500_000)
    for timestamp in (1, 2):
        dead.add_wal(SERVER, f"gone-{GONE}", wal(timestamp, GONE))
    told = f"Queue {SERVER}/gone-{GONE} of peer gone, which is gone: 2 WALs, 500.0 kB not shipped:"
    ended = drain(peer="gone")
    assert ended.state == "success"
    assert ended.report["notes"] == [f"{told} left; delete_orphan would delete it"]
    assert len(dead.queued("gone")) == 2
    deleted = drain(queue=f"{SERVER}/gone-{GONE}", delete_orphan=True)
    assert deleted.state == "success", deleted.report
    assert deleted.report["notes"] == [f"{told} deleted"]
    assert dead.queued("gone") == []
    assert spark.commands == []


def test_the_forms_propose_what_a_run_has_seen(
    drain, failover, dead: HBaseZNodes, spark: Spark, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")  # here variables are not read by way of a supervisor
    drain(dry_run=True)
    there = [f"{DEAD}/p", f"{DEAD}/q", f"{SERVER}/p-{OTHER}"]
    assert choices.proposed() == sorted(there)
    params = DagBag(str(REPO / "dags" / "drain_recovered_queue.py")).dags["drain_recovered_queue"].params
    assert params.get_param("queue").schema["examples"] == sorted(there)
    assert params.get_param("peer").schema["examples"] == ["p", "q"]
    failover()
    assert choices.proposed() == []
