"""The planning of an interval that is shipped again."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.hbase.files.listing import WalFile
from walferry.hbase.names import parse_wal_name
from walferry.replay.files import FoundWals
from walferry.replay.interval import Interval
from walferry.replication.queues.rolling import Rolled
from walferry.runs.steps import replay

OPEN: Any = SimpleNamespace(name=parse_wal_name("rs1%2C1%2C1.5"))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[WalFile, ...]]:
    """The WALs that each look at the source finds open; the last look is repeated."""
    looks: list[tuple[WalFile, ...]] = []

    def find_left(*_: object) -> FoundWals:
        return FoundWals((), (), looks.pop(0) if len(looks) > 1 else looks[0])

    monkeypatch.setattr(replay, "open_session", lambda source: nullcontext())
    monkeypatch.setattr(replay, "check_peer", lambda session, peer: None)
    monkeypatch.setattr(replay, "check_tables", lambda peer, tables: None)
    monkeypatch.setattr(replay, "check_copied", lambda session, peer: None)
    monkeypatch.setattr(replay, "find_left", find_left)
    monkeypatch.setattr(replay.rolling, "roll", lambda session, peers: Rolled(1))
    monkeypatch.setattr(replay, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(replay, "CLOSED_SECONDS", 0.1)
    return looks


def problems() -> list[str]:
    planned = replay.plan(None, "2", Interval(1, 2), "run.1", tables=(), roll=True, whole=False)  # type: ignore[arg-type]
    return list(planned.problems)


def test_a_rolled_wal_may_take_some_time_to_be_closed(looks):
    looks += [(OPEN,), (OPEN,), (OPEN,), ()]
    assert problems() == []


def test_a_wal_that_stays_open_after_the_roll_is_named(looks):
    looks += [(OPEN,)]
    (problem,) = problems()
    assert "rs1%2C1%2C1.5" in problem
    assert "is still open" in problem
