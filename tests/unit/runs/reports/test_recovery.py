"""The report of a recovery: what counts as done, what as a failure, and what people and Airflow get to see of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.growth import LINEAR, growth
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.queues.dead_servers import RecoveredQueue
from walferry.runs.reports import recovery as report
from walferry.runs.reports.recovery import Drained, Recovery
from walferry.runs.values import Claimed
from walferry.shipping.drains import Drain
from walferry.shipping.plan import GroupPlan, PlannedWal

DEAD, LIVE = "rs-1,16020,1", "rs-3,16020,3"
CLAIM = Claimed(DEAD, moved=1, left=[f"/hbase/replication/rs/{DEAD}/q: peer q: it is ENABLED"])
QUEUE = RecoveredQueue("p", "walferry,1,1", f"p-{DEAD}", ("g.1",), claimed=True)


def drain(number: int = 1, **fields: Any) -> Drain:
    queue = Drain(
        peer="p", server="walferry,1,1", queue=f"p-{DEAD}{number}", dead_server=DEAD, claimed_by="Walferry",
        groups=(f"g{number}",), wals=2, bytes=3000, to_ship=(f"g{number}",),
    )  # fmt: skip
    return replace(queue, **fields)


def drained(left: int = -1, state: str | None = "success", **summary: Any) -> Drained:
    return Drained(drain(), state, [GroupSummary(**{"group": "g1", "status": Status.DONE, **summary})], left)


def test_a_queue_that_is_gone_is_complete_however_its_task_ended():
    recovery = Recovery([CLAIM], [drained(state="failed"), drained(left=0)])
    assert recovery.failures == []
    assert recovery.counts == {"completedRecoverQueues": 2, "failedRecoverQueues": 0}


def test_what_is_left_of_a_queue_is_a_failure_with_its_reason():
    ref = f"walferry,1,1/p-{DEAD}1"
    reasons = {
        "g1: failed: table t does not exist": drained(1, "failed", status=Status.FAILED, error="table t does not exist"),
        "g1: held: run x has it": drained(1, "failed", status=Status.HELD, error="run x has it"),
        "g1: the deadline came first": drained(1, status=Status.DEADLINE),
        "g1: the Spark job ended in the middle of it": drained(1, "failed", status=Status.RUNNING),
        "drain is upstream_failed: see the log of the Spark job there": Drained(drain(), "upstream_failed", [], 1),
        "position cannot be read": Drained(drain(expected="position cannot be read"), "failed", [], 1),
        "rs-1 was not claimed": Drained(drain(problem="rs-1 was not claimed"), None, [], 1),
        "nothing of it failed, but they are still queued; run again": drained(1),
    }  # fmt: skip
    for reason, queue in reasons.items():
        assert Recovery([CLAIM], [queue]).failures == [f"{ref}: 1 WAL left: {reason}"]


def test_what_is_left_of_a_paused_peer_s_queue_waits_and_is_no_failure():
    waits = Drained(drain(problem="peer p: it is paused", paused=True), None, [], 1)
    stopped = drained(1, status=Status.PAUSED, error="peer p: it is paused")
    recovery = Recovery([CLAIM], [waits, stopped])
    assert recovery.failures == []
    assert recovery.counts == {"completedRecoverQueues": 0, "failedRecoverQueues": 0}
    assert [row["state"] for row in report.as_dict(recovery)["queues"]] == ["paused", "paused"]


def test_a_claim_that_failed_fails_the_run_though_all_else_went_well():
    recovery = Recovery([], [drained()], problems=["claim of rs-2: held"])
    assert recovery.failures == ["claim of rs-2: held"]
    assert not report.as_dict(recovery)["ok"]


def test_people_see_who_died_who_claimed_and_what_became_of_each_queue():
    by_hbase = Drained(drain(2, server=LIVE, claimed_by="HBase"), "failed", [], 5)
    text = report.as_text(Recovery([CLAIM], [drained(shippedOps=1500), by_hbase], removed=[DEAD]))
    lines = text.splitlines()
    assert lines[0] == (
        f"Server {DEAD} died and left 2 queues of managed peers, 1 claimed by HBase, 1 claimed by Walferry; "
        "this run moved 1 of them."
    )
    assert lines[1].startswith("  left to others: ")
    assert lines[2].split()[:5] == ["state", "claimed", "by", "WALs", "bytes"]
    failed, complete = lines[4], lines[5]
    assert failed.split() == ["failed", "HBase", "2", "3.0", "kB", "5", "-", "-", f"{LIVE}/p-{DEAD}2"]
    assert complete.split()[:6] == ["complete", "Walferry", "2", "3.0", "kB", "-"]
    assert complete.split()[6] == "1,500"
    assert "completedRecoverQueues: 1" in lines
    assert "failedRecoverQueues: 1" in lines
    assert f"Removed the empty znode of {DEAD}." in lines
    assert lines[-1].startswith(f"FAILED {LIVE}/p-{DEAD}2: 5 WALs left: drain is failed")


def test_a_run_with_nothing_to_do_says_so():
    assert report.as_text(Recovery([], [])).splitlines()[0] == "No recovered queues to drain."
    handled = Recovery([], [], notes=["Server s: no queue of it is left, they were all handled before."])
    assert report.as_text(handled).splitlines()[0] == handled.notes[0]
    assert report.as_dict(handled)["ok"]


def test_a_report_of_very_many_queues_stays_small_and_shows_the_failed_ones():
    servers = [f"rs-{i},16020,1" for i in range(5000)]
    many = [Drained(drain(i, dead_server=server), "success", [], -1) for i, server in enumerate(servers)]
    many[4321] = Drained(drain(4321), "failed", [GroupSummary(group="g", status=Status.FAILED, error="x" * 100_000)], 7)
    claims = [replace(CLAIM, server=server) for server in servers]
    recovery = Recovery(claims, many, notes=["n" * 10_000] * 5000, removed=["s"] * 5000)
    pushed = report.as_dict(recovery)
    assert pushed["queues"][0]["left"] == 7
    assert pushed["queues_left_out"] == 4900
    assert pushed["totals"]["completedRecoverQueues"] == 4999
    assert len(json.dumps(pushed)) < 150_000


def test_a_report_s_text_takes_time_in_proportion_to_the_queues():
    """Each queue is looked at once, and not once a server."""

    def told(count: int) -> Callable[[], None]:
        servers = [f"rs-{i},16020,1" for i in range(count)]
        done = [Drained(drain(i, dead_server=server), "success", [], -1) for i, server in enumerate(servers)]
        recovery = Recovery([replace(CLAIM, server=server) for server in servers], done, removed=["s"] * count)

        def tell() -> None:
            assert f"({count - 20:,} more queues" in report.as_text(recovery)

        return tell

    assert growth(told, 5000) < LINEAR


def test_a_preview_has_each_wal_with_size_position_and_problem():
    wals = (
        PlannedWal("w.1", 300, 300, "file:///o/w.1", finished=True),
        PlannedWal("w.2", 85, 1085, "file:///o/w.2", finished=False),
        PlannedWal("w.3", 0, None, None, finished=False),
    )
    lines = report.preview(QUEUE, "Walferry", [GroupPlan("w", "s", "q", 3, wals, "WAL w.3 is queued, but there is no such file")])
    assert lines[0].endswith("claimed by Walferry: 3 WALs, at least 1.0 kB to ship")
    assert lines[1:5] == [
        "  w.1: 300 bytes, shipped to 300, nothing to ship, leaves the queue (file:///o/w.1)",
        "  w.2: 1,085 bytes, shipped to 85, 1,000 bytes left (file:///o/w.2)",
        "  w.3: of unknown size",
        "  PROBLEM WAL w.3 is queued, but there is no such file",
    ]
    assert lines[5] == "  deleted in ZooKeeper as they are shipped: 3 WALs, then the queue; no file is deleted"


@pytest.mark.parametrize(
    ("known", "total", "line"),
    [
        (0, "an unknown number of bytes", "of unknown size"),
        (85, "an unknown number of bytes", "at least 85 bytes"),
        (1085, "at least 1.0 kB", "at least 1,085 bytes"),
    ],
)
def test_a_file_that_a_dead_server_has_not_closed_is_not_called_as_long_as_hdfs_knows(known: int, total: str, line: str):
    group = GroupPlan("w", "s", "q", 1, (PlannedWal("w.1", 85, known, "hdfs://nn/w.1", finished=False, growing=True),), None)
    lines = report.preview(QUEUE, "Walferry", [group])
    assert lines[0].endswith(f"1 WAL, {total} to ship")
    assert lines[1] == (
        f"  w.1: {line}, as its dead server has not closed it and HDFS has yet to recover its lease; shipped to 85 (hdfs://nn/w.1)"
    )
    assert f", {total} not shipped: left" in report.orphan(QUEUE, [group], "left")
