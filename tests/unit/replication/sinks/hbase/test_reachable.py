"""The findings of a quick look at a peer cluster, against servers that misbehave."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from contextlib import ExitStack

import pytest

from tests.unit.hbase.rpc.fake_server import FakeServer, exception, raw, silence
from tests.unit.replication.sinks.hbase.test_replicate import closed_port, name
from walferry.base.security.login import Login
from walferry.hbase.errors import ClusterError
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import ConnectionFailed
from walferry.replication.peers.reading import Peer
from walferry.replication.sinks import of_peer
from walferry.replication.sinks.hbase import reachable
from walferry.replication.source.cluster import SourceCluster

PEER = Peer("2", "zk1:2181:/hbase", "DISABLED", {})
SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///hbase", login=Login(user="u"))


def look(monkeypatch: pytest.MonkeyPatch, *servers: ServerName, timeout_seconds: float = 1.0) -> str | None:
    monkeypatch.setattr(reachable, "_servers", lambda peer, login, timeout: servers)
    return of_peer.why_down(PEER, SOURCE, timeout_seconds)


def test_a_peer_cluster_with_one_server_that_answers_can_be_shipped_to(monkeypatch):
    with FakeServer() as good, FakeServer(silence) as bad:
        began = time.monotonic()
        assert look(monkeypatch, name(bad), closed_port(), name(good), timeout_seconds=20.0) is None
        assert time.monotonic() - began < 10  # it does not wait for the silent one


def test_an_answer_of_any_kind_will_do(monkeypatch):
    with FakeServer(exception("org.apache.hadoop.hbase.ipc.ServerNotRunningYetException", "not yet")) as server:
        assert look(monkeypatch, name(server)) is None


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 20])
def test_servers_that_are_silent_or_gone_are_named_in_time(monkeypatch, count):
    with ExitStack() as stack:
        silent = [name(stack.enter_context(FakeServer(silence))) for _ in range(count)]
        began = time.monotonic()
        why = look(monkeypatch, *silent)
        assert time.monotonic() - began < 4
    assert why
    assert why.startswith("peer cluster zk1:2181:/hbase: of ")
    assert "none answers (127.0.0.1:" in why
    assert ("16 of its 20 RegionServers" in why) == (count == 20)


@pytest.mark.long
def test_a_peer_cluster_that_has_lost_a_rack_can_be_shipped_to(monkeypatch):
    """Half of its servers are gone, and their ZooKeeper sessions have not ended yet."""
    servers = [ServerName(f"rs-{number}", 16020, 1) for number in range(40)]
    gone = ConnectionFailed("rs", "refused")
    monkeypatch.setattr(reachable, "why_silent", lambda server, login, timeout: None if int(server.host[3:]) % 2 == 0 else gone)
    for seed in range(300):
        reachable.random.seed(seed)
        assert look(monkeypatch, *servers) is None


DENIED = exception("org.apache.hadoop.hbase.security.AccessDeniedException", "Authentication is required", call_id=0xFFFFFFFF)


def test_a_peer_cluster_that_does_not_let_us_in_is_down_and_says_why(monkeypatch):
    with FakeServer(DENIED) as server:
        why = look(monkeypatch, closed_port(), name(server))
    assert why
    assert why.startswith("peer cluster zk1:2181:/hbase does not let us in: 127.0.0.1:")
    assert why.endswith("(the cluster is secured by Kerberos). Give its connection a principal and a keytab")


def test_a_peer_cluster_without_servers_is_down(monkeypatch):
    assert look(monkeypatch) == "peer cluster zk1:2181:/hbase has no live RegionServer"


def test_what_is_wrong_with_its_zookeeper_is_said_in_one_line(monkeypatch):
    def fail(peer, login, timeout):
        raise ClusterError("no HBase\ncluster")

    monkeypatch.setattr(reachable, "_servers", fail)
    assert of_peer.why_down(PEER, SOURCE) == "no HBase cluster"


@pytest.mark.long
def test_an_ensemble_that_cannot_be_reached_is_found_out_in_time():
    port = closed_port().port
    began = time.monotonic()
    why = of_peer.why_down(Peer("2", f"127.0.0.1:{port}:/hbase", "DISABLED", {}), SOURCE, 2.0)
    assert time.monotonic() - began < 10
    assert why
    assert "nothing listens on" in why
    assert "check the cluster key of peer 2" in why


def test_a_cluster_key_that_cannot_be_read_is_a_reason():
    assert "cluster key 'nonsense'" in (of_peer.why_down(Peer("2", "nonsense", "DISABLED", {}), SOURCE) or "")


@pytest.mark.long
def test_a_name_whose_look_up_hangs_is_not_waited_for(monkeypatch):
    hung = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: hung.wait(20) and [])
    began = time.monotonic()
    try:
        why = look(monkeypatch, ServerName("slow.example", 16020, 1))
        assert time.monotonic() - began < 5
    finally:
        hung.set()
    assert "none answers (slow.example:16020)" in (why or "")


def test_a_server_that_announces_a_huge_answer_is_not_listened_to(monkeypatch):
    with FakeServer(raw((60 << 20).to_bytes(4, "big") + b"x")) as server:
        began = time.monotonic()
        assert "none answers" in (look(monkeypatch, name(server), timeout_seconds=10.0) or "")
        assert time.monotonic() - began < 5


CONNECTED = bytes.fromhex("00000025 00000000 00004e20 0000000000000007 00000010") + b"p" * 16 + b"\0"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # kazoo's own thread ends
@pytest.mark.parametrize("error", [-999, 7, 0], ids=["no error that there is", "nor this", "a value longer than the answer"])
def test_a_zookeeper_that_answers_nonsense_is_a_reason(error):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_answer_nonsense, args=(listener, error), daemon=True).start()
        why = of_peer.why_down(Peer("2", f"127.0.0.1:{listener.getsockname()[1]}:/hbase", "DISABLED", {}), SOURCE, 2.0)
    assert why
    assert why.isprintable()


def _answer_nonsense(listener: socket.socket, error: int) -> None:
    """Take each connection as ZooKeeper does, and answer each request with `error` and a length without bytes."""
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):
                client.recv(4096)
                client.sendall(CONNECTED)
                while request := client.recv(4096):
                    body = request[4:8] + bytes(8) + struct.pack(">i", error) + b"\x7f\xff\xff\xff"
                    client.sendall(struct.pack(">i", len(body)) + body)
