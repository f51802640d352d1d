"""The DAG drain_recovered_queue, run by Airflow, against a real ZooKeeper; the Spark job is a stub."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, wal
from walferry.airflow.forms import choices
from walferry.airflow.operators.approval import NO, YES
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import OwnZNodes
from walferry.replication.queues.claims.steps import claim_hold
from walferry.replication.queues.dead_servers import WALFERRY_SERVER
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.steps import recovery

from .conftest import REPO
from .people import person
from .recovery_stubs import GONE, Spark, at, dead, drain, failover, group, hbase, new_client, other, rival, spark, states, zk

__all__ = ["at", "dead", "drain", "failover", "hbase", "new_client", "other", "rival", "spark", "zk"]  # fixtures


def test_a_dry_run_tells_all_and_changes_nothing(drain, dead: HBaseZNodes, at: SourceCluster, spark: Spark, tmp_path: Any):
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
    assert f"Queue {DEAD}/p of peer p, claimed by nobody: 2 WALs, at least 123.5 kB to ship" in notes
    assert f"Queue {SERVER}/p-{OTHER} of peer p, claimed by HBase: 1 WAL" in notes
    assert f"  {wal(1, DEAD)}: 123,456 bytes, shipped to 0, 123,456 bytes left (file://{tmp_path}/oldWALs/" in notes
    assert f"PROBLEM WAL {wal(2, DEAD)} is queued, but there is no such file" in notes
    gone = f"Queue {SERVER}/gone-{GONE} of peer gone, which is gone: 1 WAL"
    assert f"{gone}, an unknown number of bytes not shipped: would be left" in notes
    assert " 0 B " not in notes


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_wrong_wal_root_is_what_the_report_tells(
    drain, dead: HBaseZNodes, at: SourceCluster, spark: Spark, tmp_path: Any, dry_run: bool
):
    (tmp_path / "oldWALs").rmdir()
    ended = drain(dry_run=dry_run, peer="p")
    assert ended.state == "failed"
    assert spark.commands == []
    assert len(dead.queued("p")) == 4
    reported = f"{'select' if dry_run else 'plan'}: wal_root file://{tmp_path}: the folder has neither WALs nor oldWALs in it"
    assert [failure for failure in ended.report["failures"] if failure.startswith(reported)]


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


def test_an_orphaned_queue_that_another_run_claims_is_not_touched(drain, dead: HBaseZNodes, spark: Spark, rival: FencedLock):
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
    ("params", "reported"),
    [
        ({"queue": f"{DEAD}/x"}, f"there is no queue {DEAD}/x. Recovered queues: {SERVER}/p-{OTHER}, {DEAD}/p, {DEAD}/q"),
        ({"queue": f"{SERVER}/p"}, "own queue of a live RegionServer"),
        ({"queue": "; rm -rf /"}, "is not a queue"),
        ({"peer": "nobody"}, "there is no peer 'nobody'. Peers: p, q"),
        ({"peer": "q", "queue": f"{DEAD}/p"}, "is one of peer p, not of peer q"),
        ({"delete_orphan": True}, "name the peer or the queue"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_typed_wrongly_is_refused_at_once(drain, dead: HBaseZNodes, spark: Spark, params: dict[str, Any], reported: str):
    before = dead.everything()
    ended = drain(**params)
    assert (ended.state, ended.tries["select", None]) == ("failed", 1)
    assert reported in ended.report["failures"][0]
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
    assert len(spark.commands) == (0 if named else 2)  # one for each of the other peers


def test_a_queue_of_a_gone_peer_is_reported_and_deleted_only_if_that_is_asked_for(
    drain, dead: HBaseZNodes, spark: Spark, tmp_path: Any
):
    (tmp_path / "oldWALs" / wal(1, GONE)).write_bytes(b"x" * 500_000)
    for timestamp in (1, 2):
        dead.add_wal(SERVER, f"gone-{GONE}", wal(timestamp, GONE))
    reported = f"Queue {SERVER}/gone-{GONE} of peer gone, which is gone: 2 WALs, at least 500.0 kB not shipped:"
    ended = drain(peer="gone")
    assert ended.state == "success"
    assert ended.report["notes"] == [f"{reported} left; delete_orphan would delete it"]
    assert len(dead.queued("gone")) == 2
    with person(NO):
        kept = drain(queue=f"{SERVER}/gone-{GONE}", delete_orphan=True)
    assert (kept.state, kept.report["notes"]) == ("success", [f"{reported} left; ola has rejected it"])
    assert len(dead.queued("gone")) == 2
    with person(YES) as asked:
        deleted = drain(queue=f"{SERVER}/gone-{GONE}", delete_orphan=True)
    assert deleted.state == "success", deleted.report
    assert deleted.report["notes"] == [f"{reported} deleted"]
    (shown,) = asked
    assert shown.subject == "Delete 1 queue whose peer is gone? Their edits will never be replicated."
    assert shown.body == f"    {reported} would be deleted"
    assert dead.queued("gone") == []
    assert spark.commands == []


def test_a_queue_of_a_gone_peer_that_another_run_claims_fails_the_run_and_the_others_are_deleted(
    drain, dead: HBaseZNodes, at: SourceCluster
):
    for server, died in ((SERVER, GONE), (OTHER, DEAD)):
        dead.add_wal(server, f"gone-{died}", wal(1, died))
    claimed = claim_hold(dead.zk, OwnZNodes(at.root, at.nodes).claim(OTHER), OTHER)
    claimed.acquire("another run")
    with person(YES):
        ended = drain(peer="gone", delete_orphan=True)
    assert ended.state == "failed"
    (why,) = ended.report["failures"]
    assert f"{OTHER}/gone-{DEAD} is not deleted: " in why
    assert "another run" in why
    assert sorted("not deleted" in note for note in ended.report["notes"]) == [False, True]
    assert [path.split("/")[-2] for path in dead.queued("gone")] == [f"gone-{DEAD}"]
    claimed.release()


@pytest.mark.parametrize("cleared", [("select",), ()], ids=["select and what follows", "the whole run"])
def test_a_cleared_run_deletes_nothing_that_its_first_question_did_not_show(
    drain, dead: HBaseZNodes, clear, cleared: tuple[str, ...]
) -> None:
    dead.add_wal(SERVER, f"gone-{GONE}", wal(1, GONE))
    with person(NO):
        first = drain(peer="gone", delete_orphan=True)
    dead.add_wal(SERVER, f"gone-{DEAD}", wal(1, DEAD))
    with person(YES) as asked:
        again = clear("drain_recovered_queue", first, *cleared)
    assert asked == [], "Airflow would still show the first question"
    assert again.state == "success"
    assert "it is no longer what the run first asked for" in again.report["notes"][0]
    assert len(dead.queued("gone")) == 2


def test_a_cleared_run_asks_again_and_deletes_what_it_shows(drain, dead: HBaseZNodes, clear) -> None:
    dead.add_wal(SERVER, f"gone-{GONE}", wal(1, GONE))
    with person(NO):
        first = drain(peer="gone", delete_orphan=True)
    with person(YES) as asked:
        assert clear("drain_recovered_queue", first, "approve").state == "success"
    assert len(asked) == 1
    assert dead.queued("gone") == []


def test_only_what_a_person_has_been_shown_is_deleted(dead: HBaseZNodes, at: SourceCluster) -> None:
    dead.add_wal(SERVER, f"gone-{GONE}", wal(1, GONE))
    shown = recovery.select(at, "gone", "", True)
    contents = [recovery.contents_of(queue) for queue in shown.orphans]
    later = dead.add_wal(SERVER, f"gone-{DEAD}", wal(1, DEAD))
    dealt = recovery.deal_with_orphans(at, shown.to_delete, True, "run", shown=contents)
    (why,) = dealt.problems
    assert why.startswith(f"{SERVER}/gone-{DEAD} is not deleted: it was not shown in this form")
    assert dead.queued("gone") == [later]


def test_a_queue_of_a_gone_peer_is_deleted_where_it_lies_by_then(dead: HBaseZNodes, at: SourceCluster):
    dead.add_wal(OTHER, f"gone-{GONE}", wal(1, GONE))
    chosen = recovery.select(at, "gone", f"{OTHER}/gone-{GONE}", True)
    dead.claim(OTHER, f"gone-{GONE}", SERVER)
    dealt = recovery.deal_with_orphans(at, chosen.to_delete, True, "run")
    (line,) = dealt.lines
    assert not dealt.problems
    assert line.endswith(": deleted")
    assert dead.queued("gone") == []


def test_the_forms_propose_what_a_run_has_seen(drain, failover, dead: HBaseZNodes, spark: Spark, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")  # here variables are not read through a supervisor
    drain(dry_run=True)
    there = [f"{DEAD}/p", f"{DEAD}/q", f"{SERVER}/p-{OTHER}"]
    assert choices.proposed("hbase_source") == sorted(there)
    params = DagBag(str(REPO / "dags" / "drain_recovered_queue.py")).dags["drain_recovered_queue"].params
    assert params.get_param("queue").schema["examples"] == sorted(there)
    assert params.get_param("peer").schema["examples"] == ["p", "q"]
    failover()
    assert choices.proposed("hbase_source") == []
