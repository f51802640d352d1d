"""The cursor of an asset's watcher moves only over WALs that all of its subscribers have got to know."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome

from walferry.airflow.triggers import new_wals
from walferry.airflow.triggers.new_wals import NewWalsProducer
from walferry.replication.queues.new_wals import NewWals

FOUND = [NewWals({"g": 1}, 1), NewWals({"g": 2, "h": 7}, 2), NewWals({"g": 3}, 1)]


class Stream:
    """Announces what there is beyond the cursor, beside what was announced already."""

    def __init__(self) -> None:
        self.cursor: dict[str, int] = {}
        self.beside: list[Mapping[str, int]] = []
        self._left = list(FOUND)

    async def next(self, beside: Mapping[str, int]) -> NewWals:
        self.beside.append(beside)
        return self._left.pop(0)

    async def commit(self, newest: Mapping[str, int]) -> None:
        self.cursor |= newest

    def look_again(self) -> None:
        pass


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    stream = Stream()
    monkeypatch.setattr(new_wals, "NewWalsStream", lambda *_: stream)
    monkeypatch.setattr(new_wals.HBaseSourceHook, "get_conn", lambda _: None)
    return stream


@pytest.mark.parametrize(
    ("outcome", "moved"),
    [
        (AdvanceOutcome(acked=1, failed=0), True),
        (AdvanceOutcome(acked=3, failed=0), True),
        (AdvanceOutcome(acked=0, failed=1), False),
        (AdvanceOutcome(acked=2, failed=1), False),
        (AdvanceOutcome(acked=0, failed=0), False),
        (AdvanceOutcome(acked=1, failed=0, rejected=1), False),
    ],
)
def test_the_mark_moves_over_an_event_that_every_subscriber_has_stored(
    stream: Stream, outcome: AdvanceOutcome, moved: bool
) -> None:
    async def run() -> None:
        producer = NewWalsProducer("p", "k")
        events = producer.open_stream()
        _, first = await anext(events)
        _, second = await anext(events)
        await producer.advance([AdvanceItem(first, AdvanceOutcome(acked=1, failed=0)), AdvanceItem(second, outcome)])
        await anext(events)

    asyncio.run(run())
    assert stream.cursor == ({"g": 2, "h": 7} if moved else {"g": 1})
    assert stream.beside == [{}, {"g": 1}, {}]  # what is not beyond the cursor yet is announced again
