"""The watch of queues in tests of failover notices everything that must never happen."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.cluster.queue_watch import QueueWatch
from tests.zk.hbase_znodes import DEAD, SERVER, HBaseZNodes, wal
from walferry.replication.source.cluster import SourceCluster

FIRST, SECOND = wal(1, DEAD), wal(2, DEAD)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder with the files of a dead server's two WALs."""
    folder = tmp_path / "oldWALs"
    folder.mkdir()
    for name in (FIRST, SECOND):
        (folder / name).touch()
    return folder


@pytest.fixture
def watch(zk: KazooClient, hbase: HBaseZNodes, folder: Path) -> QueueWatch:
    """A watch of a queue with these two WALs."""
    for name in (FIRST, SECOND):
        hbase.add_wal(DEAD, "p", name)
    host, port = zk.hosts[0]
    source = SourceCluster(quorum=f"{host}:{port}", wal_root=f"file://{folder.parent}", znode_parent=hbase.nodes.base)
    return QueueWatch(source, "p")


def look(watch: QueueWatch) -> None:
    """Wait for two whole looks from now on."""
    before, give_up = watch.looks, time.monotonic() + 30
    while watch.looks < before + 3:
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_a_claim_and_a_drain_are_as_they_should_be(watch: QueueWatch, hbase: HBaseZNodes, folder: Path) -> None:
    with watch:
        look(watch)
        assert watch.queued == {FIRST, SECOND}
        claimed = hbase.claim(DEAD, "p", SERVER)
        look(watch)
        watch.shipping([FIRST.rpartition(".")[0]])
        hbase.zk.delete(hbase.nodes.wal(SERVER, str(claimed), FIRST))
        (folder / FIRST).unlink()
        look(watch)
    assert watch.wrong == []
    assert (watch.seen, watch.queued) == ({FIRST, SECOND}, {SECOND})
    assert watch.longest_chain == 1
    assert watch.longest_pinned_s > 0


def test_a_wal_in_two_queues_is_seen(watch: QueueWatch, hbase: HBaseZNodes) -> None:
    with watch:
        hbase.add_wal(SERVER, f"p-{DEAD}", FIRST)
        look(watch)
    (wrong,) = watch.wrong
    assert wrong.startswith(f"{FIRST} is in 2 queues")


def test_a_wal_that_left_its_queue_unshipped_is_seen(watch: QueueWatch, hbase: HBaseZNodes) -> None:
    with watch:
        look(watch)
        hbase.zk.delete(hbase.nodes.wal(DEAD, "p", FIRST))
        look(watch)
    assert watch.wrong == [f"{FIRST} is in no queue, and nobody has shipped it"]


def test_a_queued_wal_whose_file_was_deleted_is_seen(watch: QueueWatch, folder: Path) -> None:
    with watch:
        look(watch)
        (folder / SECOND).unlink()
        look(watch)
    assert watch.wrong == [f"{SECOND} is queued, and has no file"]


def test_a_watch_that_ends_early_says_so(watch: QueueWatch, hbase: HBaseZNodes) -> None:
    with watch:
        look(watch)
        hbase.zk.create(hbase.nodes.wal(DEAD, "p", "no WAL at all"))
        time.sleep(1)
    assert len(watch.wrong) == 1
    assert "the watch itself ended" in watch.wrong[0]
