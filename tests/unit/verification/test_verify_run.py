"""A comparison's answers belong to the ranges that were asked for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.threads_backend import Threads
from walferry.base.jobs import Backend, BackendFailed
from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.source.cluster import SourceCluster
from walferry.verification.job import TableRange
from walferry.verification.outcome import VerificationOutcome
from walferry.verification.plan import VerifyPlan
from walferry.verification.verify_run import VerifyRun

RUN = VerifyRun(source=SourceCluster(quorum="zk1:2181", wal_root="file:///hbase"), peer_id="2", run_id="r")
RANGES = (TableRange("t", (b"f",), b"", b"m"), TableRange("t", (b"f",), b"m", b""))
PLAN = VerifyPlan(Peer("2", "h:2181:/hbase", DISABLED, {}), RANGES, {"u": "it is not there"})


def answering(table: str) -> Backend:
    def answers(_: object, items: Any) -> list[VerificationOutcome]:
        return [VerificationOutcome(table, good=2) for _ in items]

    return cast(Backend, Threads(answers))


def test_the_ranges_of_a_table_are_its_outcome_beside_what_cannot_be_compared() -> None:
    outcomes = RUN.compare(PLAN, answering("t"), print)
    assert [(each.table, each.good, each.problem) for each in outcomes] == [("t", 4, ""), ("u", 0, "it is not there")]


def test_an_answer_for_another_table_is_no_comparison() -> None:
    with pytest.raises(BackendFailed, match="the answer for table t is one for other"):
        RUN.compare(PLAN, answering("other"), print)
