"""Statuses share passes over ZooKeeper, and do not wait for what takes long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.unit.observe.status.views import HOUR, NOW, queue, wal
from tests.unit.observe.status.views import view as view_of
from walferry.base.errors import WalferryError
from walferry.base.security.login import Login
from walferry.hbase.layout import QueueLayout
from walferry.observe.status import statuses as module
from walferry.observe.status.cached import MAX_KEYS
from walferry.observe.status.files import Files, FilesSeen
from walferry.observe.status.peer_clusters import PeerClusters, PeerClusterStatus
from walferry.observe.status.statuses import Statuses
from walferry.observe.status.view import ZooKeeperView
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session

SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///no/hbase")


class Passes:
    """Stands for ZooKeeper: counts the passes over it."""

    def __init__(self) -> None:
        self.count = 0
        self.error: WalferryError | None = None

    def view(self, session: Session) -> ZooKeeperView:
        self.count += 1
        if self.error:
            raise self.error
        return view_of(queue(wal(NOW - 2 * HOUR), wal(NOW - HOUR)), peers=())


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    @contextmanager
    def no_zookeeper(*_: object, login: Login) -> Iterator[None]:
        yield

    made = Passes()
    monkeypatch.setattr(module, "STATUS_SECONDS", 600.0)
    monkeypatch.setattr(module, "connected", no_zookeeper)
    monkeypatch.setattr(module, "view", made.view)
    monkeypatch.setattr(module, "read_histories", lambda session, peers: ({"p": ()}, []))
    return made


def test_only_so_many_sources_are_kept(passes: Passes) -> None:
    statuses = Statuses(files_seconds=5.0)
    sources = [SourceCluster(quorum=f"zk{n}:2181", wal_root="file:///no/hbase") for n in range(2 * MAX_KEYS)]
    for source in sources:
        assert statuses.of(source).unreachable is None
    assert statuses.histories(sources[-1]) == {"p": ()}
    assert statuses.histories(sources[0]) == {}
    assert sources[-1] in statuses._files
    assert len(statuses._files) <= MAX_KEYS + 1


def test_all_looks_at_a_source_take_the_queues_of_one_pass(passes: Passes) -> None:
    statuses = Statuses(files_seconds=30.0)
    assert statuses.of(SOURCE).orphaned is not None
    old = statuses.old_wals(SOURCE, wait_seconds=30.0)
    assert old is not None
    assert "no such folder" in (old.problem or "")
    assert passes.count == 1


def test_what_cannot_be_read_is_told_by_each_look(passes: Passes) -> None:
    passes.error = WalferryError("no ZooKeeper")
    statuses = Statuses()
    assert statuses.of(SOURCE).unreachable == "no ZooKeeper"
    old = statuses.old_wals(SOURCE, wait_seconds=30.0)
    assert old is not None
    assert old.problem == "no ZooKeeper"
    assert statuses.histories(SOURCE) == {}


def test_a_silent_source_of_hbase_3_is_not_blamed_on_zookeeper_alone(passes: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.1)
    monkeypatch.setattr(module, "view", lambda session: go_on.wait(30) and passes.view(session))
    in_table = replace(SOURCE, queue_layout=QueueLayout.TABLE)
    assert Statuses().of(SOURCE).unreachable == "ZooKeeper at zk:2181 has not answered for 0.1 s"
    assert "ZooKeeper at zk:2181, or hbase:meta or table hbase:replication," in (Statuses().of(in_table).unreachable or "")
    go_on.set()


@pytest.mark.parametrize(("from_begin", "waited"), [(False, 8.0), (True, 3.0)], ids=["a command", "a page"])
def test_only_one_who_comes_back_soon_counts_the_seconds_of_the_pass(
    passes: Passes, monkeypatch: pytest.MonkeyPatch, from_begin: bool, waited: float
) -> None:
    asked = []

    def peer_clusters(self: PeerClusters, peers: object, source: object, wait_seconds: float) -> dict[str, PeerClusterStatus]:
        asked.append(wait_seconds)
        return {}

    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: 0.0, monotonic=lambda: 5.0 * passes.count))
    monkeypatch.setattr(PeerClusters, "statuses", peer_clusters)
    Statuses(peer_clusters_seconds=8.0, from_begin=from_begin).of(SOURCE)
    assert asked == [waited]


@pytest.mark.parametrize("seconds", [0.0, 0.2], ids=["after the status", "while it is made"])
def test_bytes_are_unknown_and_not_0_while_files_are_looked_at(
    passes: Passes, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    go_on, began = threading.Event(), threading.Event()

    def look(files: Files, queues: object) -> FilesSeen:
        began.set()
        assert go_on.wait(30)
        return FilesSeen({wal(NOW - 2 * HOUR).name.text: 700})

    monkeypatch.setattr(Files, "look", look)
    monkeypatch.setattr(module, "STATUS_SECONDS", 0.0)
    statuses = Statuses(files_seconds=seconds, from_begin=True)
    (first,) = statuses.of(SOURCE).orphaned or ()
    assert first.groups[0].bytes_left is None
    assert began.wait(30)
    go_on.set()
    assert statuses._looks.get(SOURCE, 30.0) is not None
    (then,) = statuses.of(SOURCE).orphaned or ()
    assert then.groups[0].bytes_left is not None
    assert (then.groups[0].bytes_left.known, then.groups[0].bytes_left.unsure) == (700, 0)
