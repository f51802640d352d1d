"""Counts come back from ZooKeeper unchanged, whatever times and tables a WAL contains."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.engine.counters import Counters
from walferry.engine.summary import LATEST_MS, GroupSummary
from walferry.replay.run import _largest
from walferry.replay.scan import TableCount

LONG, ODD = 3000, "a\nFAILED \x1b[2J\u202e"


def request(last_write_time: int) -> Any:
    return SimpleNamespace(
        entry_count=1, row_count=1, cell_count=1, cell_bytes=1, hfile_count=0, last_write_time=last_write_time
    )  # fmt: skip


@pytest.mark.parametrize("time", [-(1 << 63), -1, 0, 1 << 62, (1 << 63) - 1, (1 << 64) - 1])
def test_a_write_time_may_be_any_number(time: int) -> None:
    counters = Counters(GroupSummary(group="g"))
    counters.shipped(request(time))
    counters.next_to_replicate(time)
    found = GroupSummary.from_json(counters.summary().to_json())
    assert found.shippedOps == 1
    assert found.timestampOfLastShippedOp == found.timestampOfNextToReplicate == min(max(0, time), LATEST_MS)


def test_a_summary_fits_into_a_znode_whatever_tables_were_dropped() -> None:
    counters = Counters(GroupSummary(group="g"))
    counters.deleted([f"{i}{ODD}{'x' * LONG}" for i in range(1000)])
    text = counters.summary().to_json()
    assert len(text) < 900_000
    assert all(name.isprintable() for name in GroupSummary.from_json(text).deletedAtBoth)


def test_a_summary_of_an_interval_fits_into_a_znode_whatever_tables_there_are() -> None:
    tables = {f"{i}{ODD}{'x' * LONG}": TableCount(i, 2, 3) for i in range(1000)}
    shown = _largest(tables)
    assert sum(count.edits for count in shown.values()) == sum(count.edits for count in tables.values())
    assert len(json.dumps(list(shown))) < 500_000
    assert all(name.isprintable() for name in shown)
    assert _largest({"t": TableCount(1), "t" * LONG: TableCount(1), "t" * (LONG + 1): TableCount(1)})["t"].edits == 1
