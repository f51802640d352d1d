"""Peer clusters are asked side by side, and no question waits for a silent one."""

from __future__ import annotations

import threading
import time

import pytest

from walferry.observe.status.peer_clusters import MOST_AT_ONCE, STALE_SECONDS, PeerClusters
from walferry.replication.peers.reading import Peer
from walferry.replication.source.cluster import SourceCluster

SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///hbase")


def peer(
    peer_id: str, cluster_key: str = "", endpoint: str = "", *, state: str = "DISABLED", managed: bool = True
) -> Peer:  # fmt: skip
    config = {"walferry.managed": "true"} if managed else {}
    return Peer(peer_id, cluster_key or f"{peer_id}:2181:/hbase", state, config, endpoint_impl=endpoint)


class Asked:
    """Answers at once, unless the peer cluster is silent."""

    def __init__(self, *silent: str) -> None:
        self.calls: list[str] = []
        self.silent = silent
        self.answer = threading.Event()

    def __call__(self, asked: Peer, source: SourceCluster, seconds: float) -> str | None:
        self.calls.append(asked.id)
        if asked.id in self.silent:
            assert self.answer.wait(30)
        if asked.id == "strange":
            raise RuntimeError("boo")
        return "it is down" if asked.id == "down" else None


def test_a_silent_peer_cluster_delays_no_other_and_is_not_asked_again_meanwhile() -> None:
    asked = Asked("silent")
    peer_clusters = PeerClusters(asked)
    began = time.monotonic()
    found = peer_clusters.statuses([peer("silent"), peer("up"), peer("down")], SOURCE, 0.2)
    assert time.monotonic() - began < 5
    assert (found["up"].reachable, found["up"].why) == (True, None)
    assert (found["down"].reachable, found["down"].why) == (False, "it is down")
    assert (found["silent"].reachable, found["silent"].why) == (None, "it is being asked")
    peer_clusters.statuses([peer("silent")], SOURCE, 0.0)
    asked.answer.set()
    assert peer_clusters.statuses([peer("silent")], SOURCE, 10)["silent"].reachable
    assert asked.calls.count("silent") == 1


def test_an_answer_is_kept_for_a_while_and_shared_by_peers_of_one_peer_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    peer_clusters = PeerClusters(asked)
    both = [peer("a", "zk:2181:/hbase"), peer("b", "zk:2181:/hbase")]
    assert all(status.reachable for status in peer_clusters.statuses(both, SOURCE, 10).values())
    peer_clusters.statuses(both, SOURCE, 10)
    assert len(asked.calls) == 1
    monkeypatch.setattr("walferry.observe.status.peer_clusters.KEEP_SECONDS", 0)
    forgetful = PeerClusters(asked)
    for _ in range(2):
        forgetful.statuses([peer("a")], SOURCE, 10)
    assert len(asked.calls) == 3


def test_an_old_answer_is_not_told_as_if_it_were_new(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, now = Asked(), time.monotonic()
    peer_clusters = PeerClusters(asked)
    assert peer_clusters.statuses([peer("p")], SOURCE, 10)["p"].reachable
    asked.silent = ("p",)
    monkeypatch.setattr("walferry.observe.status.peer_clusters.time.monotonic", lambda: now + STALE_SECONDS - 10)
    assert peer_clusters.statuses([peer("p")], SOURCE, 0)["p"].reachable
    monkeypatch.setattr("walferry.observe.status.peer_clusters.time.monotonic", lambda: now + STALE_SECONDS + 10)
    assert peer_clusters.statuses([peer("p")], SOURCE, 0)["p"].why == "it is being asked"
    asked.answer.set()


def test_only_so_many_are_asked_at_a_time() -> None:
    names = [f"p{number}" for number in range(MOST_AT_ONCE + 1)]
    asked = Asked(*names)
    peer_clusters = PeerClusters(asked)
    found = peer_clusters.statuses([peer(name) for name in names], SOURCE, 0.1)
    assert found[names[-1]].why == "too many peer clusters are being asked"
    asked.answer.set()
    peer_clusters.statuses([peer(name) for name in names], SOURCE, 10)
    assert all(status.reachable for status in peer_clusters.statuses([peer(name) for name in names], SOURCE, 10).values())


def test_the_peer_clusters_of_others_peers_are_not_asked() -> None:
    asked = Asked()
    peers = [peer("theirs", state="ENABLED", managed=False), peer("idle", managed=False), peer("ours")]
    found = PeerClusters(asked).statuses(peers, SOURCE, 10)
    assert asked.calls == ["ours"]
    assert (found["theirs"].reachable, found["theirs"].why) == (None, "it was not asked: HBase ships this peer")
    assert (found["idle"].reachable, found["idle"].why) == (None, "it was not asked: nobody ships this peer")


def test_what_is_not_a_cluster_is_not_asked_and_a_failing_look_is_told() -> None:
    asked = Asked()
    peer_clusters = PeerClusters(asked)
    found = peer_clusters.statuses([peer("kafka", endpoint="org.example.ToKafka"), peer("strange")], SOURCE, 10)
    assert found["kafka"].reachable is None
    assert found["kafka"].why == "its endpoint org.example.ToKafka is not HBase's own"
    assert found["strange"].reachable is None
    assert "boo" in (found["strange"].why or "")
    assert asked.calls == ["strange"]
