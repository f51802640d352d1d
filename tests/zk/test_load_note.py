"""The note of a load's progress, in a real ZooKeeper."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session
from walferry.shipping.bulkload import load_note
from walferry.shipping.bulkload.load_note import MAX_CHARS, LoadNote, read_load_note


@pytest.fixture
def session(zk: KazooClient, hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> Session:
    return Session(
        SourceCluster(quorum=zookeeper.quorum, wal_root="file:///none", znode_parent=hbase.nodes.base, root=hbase.root), zk
    )


def test_what_was_told_last_is_read_until_the_load_is_over(session: Session) -> None:
    with LoadNote(session.source, "p", "run/é 1") as note:
        assert read_load_note(session, "p", "run/é 1") == ""
        for text in ("read 1 of 2", "read 2 of 2"):
            note.tell(text)
            assert read_load_note(session, "p", "run/é 1") == text
        assert read_load_note(session, "p", "another run") == ""
    assert read_load_note(session, "p", "run/é 1") == ""
    note.tell("too late")
    assert read_load_note(session, "p", "run/é 1") == ""


def test_nothing_that_is_wrong_with_the_note_fails_the_load(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(quorum: str) -> None:
        raise OSError("away")

    monkeypatch.setattr(load_note, "connect", connect)
    with LoadNote(session.source, "p", "run") as note:
        note.tell("read 1 of 2")


def test_a_note_of_a_stranger_is_one_bounded_line(session: Session) -> None:
    session.zk.create(session.own.loading("p", "run"), b"\x1b[2J\xff\n" + b"x" * 100_000, makepath=True)
    found = read_load_note(session, "p", "run")
    assert len(found) <= MAX_CHARS
    assert found.isprintable()
