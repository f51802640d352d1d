"""A group that gives its peer cluster up leaves a note, so the other groups of the job need not find out themselves."""

from __future__ import annotations

import json

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.engine.summary import GroupSummary, Status
from walferry.replication.peers.reading import Peer
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session
from walferry.shipping import peer_down
from walferry.shipping.peer_down import MAX_NOTES, TRUSTED_SECONDS, forget_down, known_down, note_down
from walferry.shipping.runs import begin_run, read_run, write_group

PEER = Peer("p", "zk1:2181:/hbase", "DISABLED", {})


@pytest.fixture
def session(zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(peer_down, "why_down", lambda peer, source: pytest.fail("the peer cluster is asked"))
    source = SourceCluster(quorum="", wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)
    return session_of(zk, source)


def test_a_note_counts_for_the_groups_of_its_run(session):
    begin_run(session, "p", "run", 60)
    assert known_down(session, PEER, "run") is None
    note_down(session, "p", "run", "peer cluster x has\nacknowledged nothing")
    assert known_down(session, PEER, "run") == "peer cluster x has acknowledged nothing"
    assert known_down(session, PEER, "another run") is None
    assert known_down(session, Peer("q", PEER.cluster_key, "DISABLED", {}), "run") is None


def test_other_jobs_of_the_peer_leave_a_run_its_note(session):
    """A batch and the drains of dead servers' queues ship the same peer side by side."""
    begin_run(session, "p", "batch", 60)
    note_down(session, "p", "batch", "down")
    for drain in ("drain 1", "drain 2"):
        begin_run(session, "p", drain, 60)
        forget_down(session, "p", drain)
        assert known_down(session, PEER, drain) is None
        note_down(session, "p", drain, f"down for {drain}")
    assert known_down(session, PEER, "batch") == "down"
    assert known_down(session, PEER, "drain 1") == "down for drain 1"


def test_the_notes_stay_few_and_small(session):
    begin_run(session, "p", "run", 60)
    for run in range(MAX_NOTES + 5):
        note_down(session, "p", f"run {run}", "x" * 5000)
    assert known_down(session, PEER, "run 4") is None
    assert known_down(session, PEER, f"run {MAX_NOTES + 4}") is not None
    assert len(session.zk.get(session.own.runs("p"))[0]) < 500_000


def test_a_job_that_begins_again_forgets_the_note(session):
    begin_run(session, "p", "run", 60)
    note_down(session, "p", "run", "down")
    forget_down(session, "p", "run")
    assert known_down(session, PEER, "run") is None


def test_the_note_is_none_of_the_summaries(session):
    begin_run(session, "p", "run", 60)
    down = GroupSummary(group="g", status=Status.PEER_DOWN, error="down")
    write_group(session, "p", "run", down)
    note_down(session, "p", "run", "down")
    assert read_run(session, "p", "run") == [down]


def test_without_a_run_there_is_nothing_to_note(session):
    note_down(session, "p", "run", "down")
    forget_down(session, "p", "run")
    assert known_down(session, PEER, "run") is None


@pytest.mark.parametrize("why", [None, "it is still down"])
def test_an_old_note_is_looked_into_and_left_anew_if_it_is_still_true(session, monkeypatch, why):
    begin_run(session, "p", "run", 60)
    note_down(session, "p", "run", "down")
    now = peer_down.time.time() + TRUSTED_SECONDS + 1
    monkeypatch.setattr(peer_down.time, "time", lambda: now)
    asked = []
    monkeypatch.setattr(peer_down, "why_down", lambda peer, source: asked.append(peer) or why)  # type: ignore[func-returns-value]
    assert known_down(session, PEER, "run") == why
    assert known_down(session, PEER, "run") == why
    assert len(asked) == (1 if why else 2)


@pytest.mark.parametrize(
    "note",
    [
        b"no JSON", b"\xff\xfe", b"[]", b"7", b"null", b"[" * 100_000, b"9" * 5000,
        b'{"run": 7}', b'{"run": {}}', b'{"run": {"time": "now", "error": "x"}}', b'{"run": {"time": 1e999}}',
    ],
)  # fmt: skip
def test_a_note_that_makes_no_sense_is_no_note(session, monkeypatch, note):
    monkeypatch.setattr(peer_down, "why_down", lambda peer, source: None)
    begin_run(session, "p", "run", 60)
    session.zk.set(session.own.runs("p"), note)
    assert known_down(session, PEER, "run") is None


def test_a_note_is_told_in_one_short_line(session):
    begin_run(session, "p", "run", 60)
    note = {"time": peer_down.time.time(), "error": "x\nFAILED\x1b[31m" + "y" * 100_000}
    session.zk.set(session.own.runs("p"), json.dumps({"run": note}).encode())
    reported = known_down(session, PEER, "run")
    assert reported
    assert reported.isprintable()
    assert len(reported) <= peer_down.MAX_ERROR_CHARS
