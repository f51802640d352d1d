"""What is held in memory of a root while it is looked at."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import Any

from walferry.admin import own_root
from walferry.zk.client import ZNode

SUMMARY_BYTES = 20_000


def test_of_very_many_summaries_of_runs_no_values_are_held(monkeypatch):
    """A root of a source with 1,000 servers has them by the hundred thousand: of each run, peer and WAL group."""

    def read_all(_: Any, paths: list[str]) -> list[ZNode]:
        return [ZNode(bytes(SUMMARY_BYTES), SimpleNamespace(ephemeralOwner=0)) for _ in paths]

    monkeypatch.setattr(own_root, "read_all", read_all)
    record = "/walferry/loads/%2Fhbase/p/1"
    summaries = [f"/walferry/runs/%2Fhbase/p/run/group{i}" for i in range(5000)]
    tracemalloc.start()
    try:
        found = own_root._values(SimpleNamespace(), "/walferry", ["/walferry", *summaries, record])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == 5002
    assert len(found[record].value) == SUMMARY_BYTES
    assert list(found)[-1] == record
    assert peak < 1000 * SUMMARY_BYTES
