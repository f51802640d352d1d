"""Batches start the job that ships a peer, and start it again if need be. The job itself is a stub here."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from walferry.airflow.operators import made_together
from walferry.engine.summary import GroupSummary, Status
from walferry.runs.steps import batch
from walferry.runs.values import Planned

from .submitted_jobs import job_in
from .test_replicate_peer import DONE, cluster, run

__all__ = ["cluster", "run"]  # fixtures


def test_a_peer_cluster_that_is_down_fails_its_batch_at_once_without_a_job(run, cluster):
    cluster.managed, cluster.down = ["down", "well"], {"down": "connection refused"}
    ended = run()
    assert ended.state == "failed"
    assert (ended.tasks["peer.ship", "down"], ended.tries["peer.ship", "down"]) == ("failed", 1)
    assert (ended.tasks["peer.ship", "well"], ended.tasks["peer.report", "well"]) == ("success", "success")
    (command,) = cluster.commands
    assert job_in(command).peer_id == "well"
    (reason,) = ended.reports["down"]["failures"]
    assert reason.startswith("peer down: no job is started, as its peer cluster is down: connection refused; 1 WALs")
    assert ended.reports["down"]["totals"]["replicationLag"] > 10**12
    assert len(cluster.held) == 4  # the right to ship the peer is given up again


def test_a_batch_ships_the_groups_that_no_recovery_holds_and_no_others(run, cluster):
    cluster.managed, cluster.recovering = ["all", "some"], {"all": [], "some": ["g1"]}
    ended = run()
    assert ended.state == "success"
    (command,) = cluster.commands  # a job without groups would ship all groups
    assert job_in(command).groups == ("g1",)
    assert ended.tasks["peer.ship", "all"] == "skipped"
    assert "in the hands of recoveries" in ended.reports["all"]["left_to"]


def test_a_peer_that_another_run_holds_is_left_to_it_and_the_run_is_a_success(run, cluster):
    cluster.managed, cluster.elsewhere = ["slow", "well"], ["slow"]
    ended = run()
    assert ended.state == "success"
    assert (ended.tasks["peer.ship", "slow"], ended.tasks["peer.ship", "well"]) == ("skipped", "success")
    left = "peer slow is left to run scheduled__1 on host h, which has held it since 12:00"
    assert ended.reports["slow"]["left_to"] == left
    assert ended.reports["slow"]["ok"]
    assert len(cluster.commands) == 1


def test_a_peer_that_was_paused_after_its_plan_is_left_and_the_run_is_a_success(run, cluster):
    cluster.managed, cluster.paused, cluster.job_fails = ["p"], ["p"], 1
    ended = run()
    assert ended.state == "success"
    assert (ended.tasks["peer.ship", "p"], len(cluster.commands)) == ("skipped", 1)
    assert "peer p: it is paused" in ended.reports["p"]["left_to"]
    assert ended.reports["p"]["ok"]


def test_a_job_that_failed_is_submitted_once_more_under_the_same_run_id(run, cluster):
    cluster.job_fails = 1
    ended = run()
    assert ended.state == "success"
    run_ids = [job_in(command).run_id for command in cluster.commands]
    assert len(run_ids) == 2
    assert len(set(run_ids)) == 1


def test_a_job_in_which_a_queue_failed_is_left_to_the_next_batch(run, cluster):
    cluster.left = [DONE, GroupSummary(group="g2", server="s2", status=Status.FAILED, error="table t does not exist")]
    cluster.job_fails = 1
    ended = run()
    assert ended.state == "failed"
    assert ended.reports["p"]["failures"] == ["s2 g2: failed: table t does not exist"]
    assert len(cluster.commands) == 1


def test_a_job_whose_source_zookeeper_was_away_is_submitted_again_unless_something_else_is_wrong_too(run, cluster):
    away = GroupSummary(group="g1", status=Status.FAILED, error="the lease on WAL group g1 is lost", passing=True)
    cluster.left, cluster.job_fails = [away], 1
    assert run().tries["peer.ship", "p"] == 2
    assert len(cluster.commands) == 2
    cluster.commands.clear()
    cluster.left = [away, GroupSummary(group="g2", status=Status.FAILED, error="table t does not exist")]
    assert run().tries["peer.ship", "p"] == 1


def test_a_job_that_was_killed_is_submitted_again_although_a_queue_had_failed(run, cluster):
    cluster.left = [GroupSummary(group="g1"), GroupSummary(group="g2", status=Status.FAILED, error="table t does not exist")]
    cluster.job_fails = 1
    run()
    assert len(cluster.commands) == 2


@pytest.mark.parametrize("first", ["lead", "joins"])
def test_a_peer_waits_for_the_job_that_makes_its_files_too_and_needs_none_of_its_own(run, cluster, first):
    """Whichever of the two comes first."""
    cluster.managed, cluster.leads, cluster.emptied = sorted(["lead", "joins"], key=first.__ne__), {"joins": "lead"}, ["joins"]
    ended = run()
    assert ended.state == "success"
    (command,) = cluster.commands
    run_id = f"replicate_peer/{ended.run_id}.1"
    assert (job_in(command).peer_id, job_in(command).run_id, job_in(command).also) == ("lead", run_id, {"joins": run_id})
    assert (ended.tasks["peer.ship", "joins"], ended.reports["joins"]["totals"]["shippedOps"]) == ("success", 7)
    assert [ended.reports[peer]["shipped_by"] for peer in ("lead", "joins")] == ["", "lead"]


def test_a_peer_ships_what_the_job_that_makes_its_files_has_left(run, cluster):
    cluster.managed, cluster.leads = ["joins", "lead"], {"joins": "lead"}
    assert run().state == "success"
    assert [(job_in(each).peer_id, bool(job_in(each).also)) for each in cluster.commands] == [("lead", True), ("joins", False)]


def test_of_a_peer_some_of_whose_groups_are_shipped_only_the_others_are(run, cluster, monkeypatch):
    cluster.managed, cluster.leads = ["joins", "lead"], {"joins": "lead"}
    monkeypatch.setattr(batch, "plan", lambda source, peer, attempt, *_: Planned(attempt, peer, groups=2, wals=2, bytes=200))
    monkeypatch.setattr(batch, "shipped_whole", lambda source, planned: {"g1"} if cluster.commands else set())
    monkeypatch.setattr(batch, "not_held", lambda source, peer, shipped: sorted({"g1", "g2"} - set(shipped)))
    assert run().state == "success"
    assert [(job_in(command).peer_id, job_in(command).groups) for command in cluster.commands] == [
        ("lead", None),
        ("joins", ("g2",)),
    ]


@pytest.mark.parametrize(
    "without", [{"elsewhere": ["joins"]}, {"idle": ["joins"]}, {"refused": ["joins"]}, {"recovering": {"joins": ["g"]}}]
)
def test_a_peer_with_a_plan_of_its_own_or_that_another_run_holds_is_not_taken_along(run, cluster, without):
    cluster.managed, cluster.leads = ["lead", "joins"], {"joins": "lead"}
    for name, value in without.items():
        setattr(cluster, name, value)
    run()
    assert next(job_in(each).also for each in cluster.commands if job_in(each).peer_id == "lead") == {}


def test_a_peer_that_the_job_does_not_take_along_does_not_wait_for_its_end(run, cluster, monkeypatch):
    cluster.managed, cluster.leads = ["lead", "joins"], {"joins": "lead"}
    monkeypatch.setattr(made_together, "state_of", lambda ti, task, index: "running" if task.endswith("ship") else "success")
    monkeypatch.setattr(cluster, "holding_with", lambda *_: nullcontext([]))
    monkeypatch.setattr(batch, "holding_with", lambda *_: nullcontext([]))
    assert run().state == "success"
    assert [job_in(command).peer_id for command in cluster.commands] == ["lead", "joins"]


def test_a_peer_does_not_wait_for_a_peer_that_is_not_in_the_run(run, cluster):
    cluster.managed, cluster.leads = ["joins"], {"joins": "lead"}
    assert run().state == "success"
    cluster.managed = ["lead"]
    assert run().state == "success"
    assert [(job_in(command).peer_id, job_in(command).also) for command in cluster.commands] == [("joins", {}), ("lead", {})]


def test_a_peer_waits_no_longer_for_a_job_that_has_failed(run, cluster):
    cluster.managed, cluster.leads, cluster.refused = ["joins", "lead"], {"joins": "lead"}, ["lead"]
    ended = run()
    assert (ended.tasks["peer.ship", "joins"], [job_in(command).peer_id for command in cluster.commands]) == (
        "success",
        ["joins"],
    )
