"""The DAG regionserver_failover, run by Airflow, against a real ZooKeeper; the Spark job is a stub."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, LastingZNodes, wal
from walferry.airflow.operators.ship_wals import NOT_KEPT
from walferry.airflow.tasks import recovery as recovery_tasks
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.files.store import WrongRoot
from walferry.hbase.layout import QueueLayout
from walferry.replication.queues.dead_servers import WALFERRY_SERVER
from walferry.replication.queues.lease import acquire
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.steps import batch, recovery

from .recovery_stubs import (
    GONE,
    Spark,
    at,
    dead,
    drain,
    failover,
    group,
    hbase,
    new_client,
    other,
    rival,
    rival_claim,
    spark,
    states,
    zk,
)
from .submitted_jobs import job_in

__all__ = ["at", "dead", "drain", "failover", "hbase", "new_client", "other", "rival", "spark", "zk"]  # fixtures


@pytest.mark.parametrize("dag", ["failover", "drain"])
def test_a_run_s_sink_is_that_of_all_of_its_jobs(dag: str, request: pytest.FixtureRequest, dead: HBaseZNodes, spark: Spark):
    ended = request.getfixturevalue(dag)(sink="auto", hfiles_from=2)
    assert ended.state == "success", ended.report
    assert spark.commands
    for command in spark.commands:
        assert (job_in(command).sink, job_in(command).hfiles_from) == ("auto", 2 << 20)


def test_all_dead_servers_queues_are_claimed_drained_and_tidied_up(failover, dead: HBaseZNodes, spark: Spark):
    ended = failover()
    assert ended.state == "success", ended.report
    assert spark.shipped == [("p", sorted([group(DEAD), group(OTHER)])), ("q", [group(DEAD)])]
    assert states(ended, "claim") == {DEAD: "success", OTHER: "success"}
    assert states(ended, "drain") == {"p": "success", "q": "success"}
    report = ended.report
    assert {q["queue"] for q in report["queues"]} == {
        f"{WALFERRY_SERVER}/p-{DEAD}", f"{WALFERRY_SERVER}/q-{DEAD}", f"{SERVER}/p-{OTHER}"
    }  # fmt: skip
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
    (note,) = again.report["notes"]
    assert note.startswith(f"Server {DEAD}: no queue of it is left: they were all handled before, or it never had one")
    assert len(spark.commands) == 2


def test_drains_that_a_spark_connect_server_did_not_run_say_so_in_the_report(
    failover, dead: HBaseZNodes, spark: Spark, monkeypatch: pytest.MonkeyPatch
):
    connection = '{"conn_type": "spark_connect", "host": "127.0.0.1", "port": 1}'  # where nothing listens
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", connection)
    ended = failover(server=DEAD)
    assert ended.state == "success"
    assert len(spark.commands) == 2
    (note,) = ended.report["notes"]
    assert note.startswith("Drained through spark-submit: Spark Connect server 127.0.0.1:1: ")
    assert "Connection refused" in note


def test_a_server_whose_queues_must_not_be_shipped_now_is_no_success(failover, dead: HBaseZNodes, spark: Spark):
    for peer in ("p", "q"):
        dead.set_state(peer, "ENABLED")
    ended = failover(server=DEAD)
    assert ended.state == "failed"
    (reason,) = ended.report["failures"]
    assert "find: " in reason
    assert f"server {DEAD} has queues, but they must not be shipped now: peer p: it is ENABLED" in reason
    assert spark.commands == []


def test_a_server_of_which_only_queues_of_others_are_left_is_a_success_that_says_so(failover, dead: HBaseZNodes, spark: Spark):
    for peer in ("p", "q"):
        dead.zk.delete(dead.nodes.queue(DEAD, peer), recursive=True)
    dead.add_peer("stranger", config={})
    dead.add_wal(DEAD, "stranger", wal(1, DEAD))
    ended = failover(server=DEAD)
    assert ended.state == "success", ended.report
    (note,) = ended.report["notes"]
    assert f"Server {DEAD}: peer stranger: its configuration has no walferry.managed=true" in note


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
    assert states(ended, "drain") == {"p": "failed", "q": "failed"}
    assert sorted(q["state"] for q in ended.report["queues"]) == ["complete", "complete", "failed", "failed"]
    assert sorted(ended.report["failures"]) == [
        f"{SERVER}/{peer}-{OTHER}: 1 WAL left: {group(OTHER)}: failed: table t does not exist there" for peer in "pq"
    ]
    assert ended.tries["drain", "p"] == 1
    assert ended.report["totals"]["failedRecoverQueues"] == 2
    assert DEAD not in dead.zk.get_children(dead.nodes.queues)
    spark.broken = {}
    again = failover()
    assert again.state == "success"
    assert again.report["totals"]["completedRecoverQueues"] == 2


def test_a_drain_waits_for_another_run_that_holds_the_queue(
    failover, dead: HBaseZNodes, at: SourceCluster, spark: Spark, other: KazooClient
):
    lease = acquire(session_of(other, at), "p", group(OTHER), "run x")
    released = threading.Timer(5, lease.release)
    released.start()
    ended = failover(server=OTHER)
    released.join()
    assert ended.state == "success", ended.report
    assert ended.tries["drain", "p"] == 1


def test_a_batch_of_a_wrong_wal_root_is_not_begun_and_its_report_tells_why(dead: HBaseZNodes, at: SourceCluster):
    wrong = replace(at, wal_root="file:///nowhere")
    with pytest.raises(WrongRoot, match="wal_root file:///nowhere: there is no such folder"):
        batch.plan(wrong, "p", "r.1")


@pytest.fixture
def nothing_to_ship(dead: HBaseZNodes, at: SourceCluster, tmp_path: Path) -> None:
    """Make the WALs of OTHER and SERVER empty. SERVER rolls another one."""
    for name in (wal(5, OTHER), wal(9)):
        (tmp_path / "oldWALs" / name).touch()
    dead.add_wal(SERVER, "p", wal(10))


def test_a_queue_with_nothing_to_ship_that_a_killed_plan_still_holds_is_left_to_a_drain_that_waits_for_it(
    failover, dead: HBaseZNodes, nothing_to_ship: None, at: SourceCluster, spark: Spark, other: KazooClient, later, monkeypatch
):
    lease = acquire(session_of(other, at), "p", group(OTHER), "plan of a run that was killed")
    plan = recovery.plan

    def plan_and_let_it_go_later(*args: Any) -> Any:
        later(5, lease.release)
        return plan(*args)

    monkeypatch.setattr(recovery, "plan", plan_and_let_it_go_later)
    ended = failover(server=OTHER)
    assert ended.state == "success", ended.report
    assert spark.shipped == [("p", [group(OTHER)])]


def test_a_batch_starts_no_job_for_a_group_with_nothing_to_ship_that_another_run_holds(
    dead: HBaseZNodes, nothing_to_ship: None, at: SourceCluster, other: KazooClient
):
    with (
        acquire(session_of(other, at), "p", group(OTHER), "run x"),
        acquire(session_of(other, at), "p", group(SERVER), "plan of a batch that was killed"),
    ):
        planned = batch.plan(at, "p", "r.1")
        assert batch.not_held(at, "p") == [group(SERVER), group(DEAD)]
    assert (planned.groups, planned.held, planned.dequeued) == (1, 1, 0)
    assert batch.plan(at, "p", "r.2").dequeued == 2


def test_a_queue_that_another_run_holds_until_the_deadline_fails(
    failover, dead: HBaseZNodes, at: SourceCluster, spark: Spark, other: KazooClient
):
    spark.held = {group(OTHER): 100}
    with acquire(session_of(other, at), "p", group(OTHER), "run x"):
        ended = failover(server=OTHER, deadline=10)
    assert ended.state == "failed"
    assert len(spark.commands) == 1
    assert "is held by run x" in ended.report["failures"][0]


def test_a_batch_leaves_to_a_recovery_what_it_holds(dead: HBaseZNodes, at: SourceCluster, other: KazooClient):
    dead.add_wal(SERVER, "p", wal(10))
    everything = batch.plan(at, "p", "r.1")
    assert (everything.groups, everything.held) == (3, 0)
    with (
        acquire(session_of(other, at), "p", group(OTHER), "run x"),
        acquire(session_of(other, at), "p", group(SERVER), "another batch"),
    ):
        rest = batch.plan(at, "p", "r.2")
        assert batch.not_held(at, "p") == [group(SERVER), group(DEAD)]
    assert (rest.groups, rest.held) == (2, 1)


def test_a_drain_before_which_another_run_was_faster_is_tried_again(failover, dead: HBaseZNodes, spark: Spark):
    spark.held = {group(OTHER): 2}  # a try of the task runs a second job for what is free by then
    ended = failover(server=OTHER)
    assert ended.state == "success", ended.report
    assert (ended.tries["drain", "p"], len(spark.commands)) == (2, 3)
    run_ids = {job_in(command).run_id for command in spark.commands}
    assert len(run_ids) == 1


def test_a_drain_whose_peer_cluster_is_down_is_tried_again(failover, dead: HBaseZNodes, spark: Spark):
    """No next batch comes for its queue, and between the tries other drains take its place."""
    spark.down = {group(OTHER): 2}
    ended = failover(server=OTHER)
    assert ended.state == "success", ended.report
    assert ended.tries["drain", "p"] == 3


def test_a_queue_that_stays_in_another_run_s_hand_fails_with_its_name(failover, dead: HBaseZNodes, spark: Spark):
    spark.held = {group(OTHER): 100}
    ended = failover(server=OTHER)
    assert ended.state == "failed"
    (reason,) = ended.report["failures"]
    assert "is held by run x" in reason
    assert ended.tries["drain", "p"] == 1 + recovery_tasks.DRAIN_RETRIES
    assert len(spark.commands) == 2 * (1 + recovery_tasks.DRAIN_RETRIES)


def test_a_claim_of_another_run_s_is_refused_and_the_other_servers_are_recovered(
    failover, dead: HBaseZNodes, spark: Spark, rival: FencedLock
):
    ended = failover()
    assert ended.state == "failed"
    assert states(ended, "claim") == {DEAD: "failed", OTHER: "success"}
    assert ended.tries["claim", DEAD] == 1 + recovery_tasks.CLAIM_RETRIES
    (reason,) = ended.report["failures"]
    assert reason.startswith(f"claim of {DEAD}: the queues of {DEAD} are being claimed by run scheduled__1 on host h since")
    assert spark.shipped == [("p", [group(OTHER)])]
    assert dead.zk.get_children(dead.nodes.server_queues(DEAD)) == ["p", "q"]


def test_runs_of_two_dags_are_two_runs_even_if_they_have_the_same_id(
    failover, drain, dead: HBaseZNodes, spark: Spark, monkeypatch: pytest.MonkeyPatch
):
    claim, claimed_by = recovery.claim, []

    def claim_and_note(*args: Any) -> dict[str, Any]:
        claimed_by.append(args[2])
        return claim(*args)

    monkeypatch.setattr(recovery, "claim", claim_and_note)
    by_hand = drain(peer="q")
    by_itself = failover(server=DEAD)
    runs = [f"drain_recovered_queue/{by_hand.run_id}", f"regionserver_failover/{by_itself.run_id}"]
    assert claimed_by == runs
    assert [job_in(command).run_id for command in spark.commands] == [f"{run}.1" for run in runs]


def test_a_claim_is_waited_for(failover, dead: HBaseZNodes, spark: Spark, rival: FencedLock, monkeypatch: pytest.MonkeyPatch):
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


def test_a_drain_that_the_deadline_ends_has_failed_and_drains_the_rest_when_it_is_cleared(
    failover, clear, dead: HBaseZNodes, spark: Spark
):
    spark.late = {group(OTHER): 2}
    ended = failover(server=OTHER)
    drain = ("drain", "p")
    assert (ended.state, ended.tasks[drain], ended.tries[drain]) == ("failed", "failed", 1)
    assert ended.report["failures"] == [f"{SERVER}/p-{OTHER}: 1 WAL left: {group(OTHER)}: the deadline came first"]
    ended = clear("regionserver_failover", ended, "drain")
    assert (ended.state, ended.tasks[drain], ended.tries[drain]) == ("failed", "failed", 2)
    ended = clear("regionserver_failover", ended, "drain")
    assert (ended.state, ended.tasks[drain], ended.tries[drain]) == ("success", "success", 3)
    assert ended.report["totals"]["completedRecoverQueues"] == 1
    assert dead.queued("p")[1:] == [dead.nodes.wal(DEAD, "p", wal(timestamp, DEAD)) for timestamp in (1, 2)]
    assert len({job_in(command).run_id for command in spark.commands}) == 1


def test_a_late_drain_that_is_cleared_when_another_run_has_drained_it_is_a_success(
    failover, clear, dead: HBaseZNodes, at: SourceCluster, spark: Spark, monkeypatch: pytest.MonkeyPatch
):
    spark.late = {group(OTHER): 1}
    ended = failover(server=OTHER)
    assert ended.state == "failed"
    spark._ship("p", group(OTHER))
    monkeypatch.setattr(Spark, "submit", lambda *_: None)  # like the job, which writes no summary because nothing is queued
    assert clear("regionserver_failover", ended, "drain").state == "success"


def test_a_cleared_drain_whose_job_is_killed_is_tried_again_whatever_the_job_before_has_left(
    failover, clear, dead: HBaseZNodes, spark: Spark
):
    spark.broken = {group(OTHER): "table t does not exist there"}
    ended = failover(server=OTHER)
    spark.broken, spark.killed = {}, 1
    ended = clear("regionserver_failover", ended, "drain")
    assert ended.state == "success", ended.report
    assert ended.tries["drain", "p"] == 3


def test_a_cleared_run_that_has_fewer_servers_is_not_failed_by_what_an_earlier_try_left(
    failover, clear, dead: HBaseZNodes, at: SourceCluster, spark: Spark, other: KazooClient
):
    rival = rival_claim(at, other, OTHER)
    ended = failover()
    assert states(ended, "claim") == {DEAD: "success", OTHER: "failed"}
    rival.release()
    ended = clear("regionserver_failover", ended)
    assert ended.state == "success", ended.report
    assert [server["server"] for server in ended.report["servers"]] == [OTHER]
    assert dead.queued("p") == [dead.nodes.wal(SERVER, "p", wal(9))]
    assert clear("regionserver_failover", ended).state == "success"


def test_a_cleared_run_does_not_take_what_an_earlier_try_has_claimed_for_claimed(
    failover, clear, dead: HBaseZNodes, at: SourceCluster, spark: Spark, other: KazooClient
):
    spark.broken = {group(OTHER): "table t does not exist there"}
    ended = failover()
    assert states(ended, "claim") == {DEAD: "success", OTHER: "success"}
    spark.commands, spark.broken = [], {}
    rival_claim(at, other, OTHER)
    ended = clear("regionserver_failover", ended)
    assert [reason.partition(":")[0] for reason in ended.report["failures"]] == [f"claim of {OTHER}"]
    assert spark.commands == []


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
    wanted = recovery.wanted_by_claims([claimed])
    assert (claimed.moved, claimed.peers) == (2, ["p", "q"])
    assert recovery.claim(at, DEAD, "run 1") == replace(claimed, moved=0)
    assert recovery.claim(at, DEAD, "run 2") == replace(claimed, moved=0)
    planned = recovery.plan(at, wanted, [DEAD], "run 1.1")
    assert recovery.plan(at, wanted, [DEAD], "run 1.2").drains == planned.drains
    assert recovery.drains_of(at, planned.peers, "run 1.1") == planned.drains
    assert [each.left for each in recovery.outcome(at, planned.drains, "run 1.1", {})] == [2, 1]
    assert [job.peer for job in planned.jobs] == ["p", "q"]
    for each in planned.drains:
        assert each.to_ship == each.groups
        for name in each.groups:
            spark._ship(each.peer, name)
    assert [each.left for each in recovery.outcome(at, planned.drains, "run 1.1", {})] == [-1, -1]
    assert recovery.plan(at, wanted, [DEAD], "run 1.3").drains == []
    dead.zk.ensure_path(at.nodes.queue(WALFERRY_SERVER, f"p-{DEAD}"))  # as a drain leaves it if it is killed at the very end
    assert recovery.clean_up(at, [OTHER], "run 1") == []
    assert dead.zk.exists(at.nodes.queue_server(WALFERRY_SERVER))
    assert recovery.clean_up(at, [DEAD], "run 1") == []
    assert not dead.zk.exists(at.nodes.queue_server(WALFERRY_SERVER))
    assert recovery.claim(at, DEAD, "run 1").moved == 0


def test_a_queue_that_hbase_claims_after_the_run_has_chosen_it_is_found(dead: HBaseZNodes, at: SourceCluster):
    chosen = recovery.select(at, "p", f"{DEAD}/p", False)
    dead.claim(DEAD, "p", SERVER)
    (drain,) = recovery.plan(at, recovery.wanted_by_hand(chosen.to_drain), (), "run 1.1").drains
    assert (drain.server, drain.queue) == (SERVER, f"p-{DEAD}")


def test_an_empty_queue_is_removed_by_the_plan(dead: HBaseZNodes, at: SourceCluster):
    dead.zk.ensure_path(dead.nodes.queue(SERVER, f"p-{GONE}"))
    chosen = recovery.select(at, "", "", False)
    planned = recovery.plan(at, recovery.wanted_by_hand(chosen.to_drain), [DEAD], "run 1.1")
    assert not dead.zk.exists(dead.nodes.queue(SERVER, f"p-{GONE}"))
    (empty,) = (each for each in recovery.outcome(at, planned.drains, "run 1.1", {}) if each.drain.dead_server == GONE)
    assert (empty.complete, empty.drain.to_ship) == (True, ())


def test_a_queue_of_a_server_that_has_died_since_is_not_drained_before_it_is_claimed(dead: HBaseZNodes, at: SourceCluster):
    chosen = recovery.select(at, "p", "", False)
    dead.add_wal(GONE, "p", wal(1, GONE))
    drains = recovery.plan(at, recovery.wanted_by_hand(chosen.to_drain), [DEAD], "run 1.1").drains
    assert {drain.server: drain.problem for drain in drains} == {
        DEAD: "", SERVER: "", GONE: f"{GONE} was not claimed"
    }  # fmt: skip


def test_a_job_drains_what_is_free_while_another_run_holds_a_queue_and_then_the_rest(
    failover, dead: HBaseZNodes, at: SourceCluster, spark: Spark, other: KazooClient
):
    lease = acquire(session_of(other, at), "p", group(OTHER), "run x")
    spark.held = {group(OTHER): 1}

    def release_once_the_others_are_drained() -> None:
        while any(DEAD in path for path in dead.queued("p")):
            time.sleep(0.1)
        time.sleep(3)
        lease.release()

    released = threading.Thread(target=release_once_the_others_are_drained)
    released.start()
    ended = failover()
    released.join()
    assert ended.state == "success", ended.report
    assert (ended.tries["drain", "p"], [peer for peer, _ in spark.shipped]) == (1, ["p", "p", "q"])
    assert ended.report["totals"]["completedRecoverQueues"] == 3


def test_a_run_that_is_no_longer_kept_says_so_when_its_drain_is_cleared(
    failover, clear, dead: HBaseZNodes, at: SourceCluster, spark: Spark
):
    spark.late = {group(OTHER): 1}
    ended = failover(server=OTHER)
    dead.zk.delete(f"{at.root}/runs", recursive=True)
    ended = clear("regionserver_failover", ended, "drain")
    assert (ended.state, ended.tasks["drain", "p"]) == ("failed", "failed")
    assert ended.report["failures"] == [f"1 of 1 queues: {NOT_KEPT}"]
    assert len(spark.commands) == 1
