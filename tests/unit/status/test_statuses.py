"""What is kept of sources that nobody asks for any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from walferry.source.cluster import SourceCluster
from walferry.status import statuses as module
from walferry.status.cached import MAX_KEYS
from walferry.status.statuses import Statuses
from walferry.status.view import View


@contextmanager
def no_zookeeper(*_: object) -> Iterator[None]:
    yield


def test_only_so_many_sources_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "connected", no_zookeeper)
    monkeypatch.setattr(module, "view", lambda session: View(0.0, 0.0, (), (), {}))
    monkeypatch.setattr(module, "read_histories", lambda session, peers: ({}, []))
    statuses = Statuses(files_seconds=5.0)
    sources = [SourceCluster(quorum=f"zk{n}:2181", wal_root="file:///no/hbase") for n in range(2 * MAX_KEYS)]
    for source in sources:
        assert statuses.of(source).unreachable is None
    assert sources[-1] in statuses._views.keys() & statuses._files.keys() & statuses._histories.keys()
    for kept in (statuses._views, statuses._files, statuses._histories):
        assert len(kept) <= MAX_KEYS + 1
