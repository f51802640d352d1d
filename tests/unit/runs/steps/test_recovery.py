"""The facts about a recovery that need no cluster: which queues are its own, and how much of them is left."""

from __future__ import annotations

import pytest

from walferry.replication.queues.dead_servers import RecoveredQueue
from walferry.runs.reports.recovery import Drained
from walferry.runs.steps import batch
from walferry.runs.steps.recovery import _wals_left, wanted_by_claims
from walferry.runs.values import Claimed
from walferry.shipping.drains import Drain

A, B, C = "a,16020,1", "b,16020,1", "c,16020,1"
UNREAD = "its names take more than 4 MiB"


def test_a_queue_that_a_server_has_taken_and_left_behind_belongs_to_the_claim_of_the_first_one() -> None:
    wanted = wanted_by_claims([Claimed(A, ["p"], 0, [])])
    chained = RecoveredQueue("p", C, f"p-{A}-{B}", (), True, unread=UNREAD)
    assert chained.dead_server == B
    assert wanted(chained)
    assert not wanted_by_claims([Claimed(C, ["p"], 0, [])])(chained)
    assert not wanted_by_claims([Claimed(A, ["q"], 0, [])])(chained)


def test_a_queue_that_cannot_be_listed_is_known_again_after_another_claim() -> None:
    drain = Drain(peer="p", server=B, queue=f"p-{A}", dead_server=A, claimed_by="HBase", groups=(), wals=0, problem=UNREAD)
    renamed = RecoveredQueue("p", C, f"p-{A}-{B}", (), True, unread=UNREAD)
    (left,) = _wals_left([drain], [renamed])
    assert Drained(drain, None, (), left).reason
    assert _wals_left([drain], []) == [-1]


def test_what_has_become_free_while_a_job_shipped_other_groups_gets_one_more_job(monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext

    holders: dict[str, str] = {"a": "run x"}
    monkeypatch.setattr(batch, "open_session", lambda *_: nullcontext())
    monkeypatch.setattr(
        batch, "holders", lambda session, peer, groups: {group: holders[group] for group in groups if group in holders}
    )
    source, tried = None, set[str]()
    assert batch.again(source, "p", ["a", "b"], tried) == {"a", "b"}  # type: ignore[arg-type]
    assert batch.again(source, "p", ["a", "b"], tried) == {"a"}  # type: ignore[arg-type]
    holders.clear()
    assert batch.again(source, "p", ["a", "b"], tried) == {"a"}  # type: ignore[arg-type]
    assert batch.again(source, "p", ["a", "b"], tried) == set()  # type: ignore[arg-type]
    assert not batch.again(source, "p", (), tried)  # type: ignore[arg-type]
