"""The client's calls end, whatever ZooKeeper does."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kazoo.handlers.threading import KazooTimeoutError

from embedded.zookeeper import ZooKeeperServer
from tests.cluster.proxy import proxied_zookeeper
from tests.zk.stranger import stranger
from walferry.base.zk import client
from walferry.base.zk.client import Whose, children, connect, connected, disconnect, read, read_all
from walferry.base.zk.errors import ConnectError
from walferry.hbase.cluster import cluster_id
from walferry.hbase.errors import ClusterError
from walferry.hbase.layout import ZNodes


@pytest.mark.parametrize(
    ("quorum", "why"),
    [("127.0.0.1:1", r"nothing listens on 127\.0\.0\.1:1"), ("no-such-host.invalid:1", r"the name no-such-host\.invalid does")],
)
def test_a_short_try_also_says_why_an_ensemble_cannot_be_reached(quorum: str, why: str) -> None:
    began = time.monotonic()
    with pytest.raises(ConnectError, match=f"^no ZooKeeper server of {quorum} can be reached: {why}"):
        connect(quorum, timeout=1)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("quorum", "why"),
    [
        ("no-such-host.invalid:2181", r"the name no-such-host\.invalid does not resolve \(Name or service not known\)"),
        ("no-such-host.invalid:2181,localhost:1", r"does not resolve .*; nothing listens on localhost:1 \(connection refused\)"),
    ],
)
def test_an_ensemble_that_cannot_be_reached_is_told_of_in_seconds(quorum: str, why: str) -> None:
    began = time.monotonic()
    with pytest.raises(ConnectError, match=f"^no ZooKeeper server of {quorum} can be reached: .*{why}"):
        connect(quorum)
    assert time.monotonic() - began < 10


def test_one_unknown_host_does_not_keep_from_the_others(zookeeper: ZooKeeperServer) -> None:
    with connected(f"no-such-host.invalid:2181,{zookeeper.quorum}") as zk:
        assert read(zk, "/") is not None


def test_an_ensemble_that_is_just_starting_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "UNREACHABLE_SECONDS", 25.0)  # this machine may be slow to start it
    with ZooKeeperServer(tmp_path) as server:
        server.stop()
        later = threading.Timer(1.5, server.start)
        later.start()
        try:
            with connected(server.quorum) as zk:
                assert read(zk, "/") is not None
        finally:
            later.join()


def test_a_server_that_accepts_and_says_nothing_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        quorum = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ConnectError, match=quorum):
            connect(quorum, timeout=2, session_timeout=2)


def test_a_server_that_is_no_zookeeper_is_told_in_seconds() -> None:
    began = time.monotonic()
    with stranger() as port, pytest.raises(ConnectError, match="what listens there answers, but not as a ZooKeeper server does"):
        connect(f"127.0.0.1:{port}")
    assert time.monotonic() - began < 10


def test_an_ensemble_that_is_not_there_is_named_with_whose_it_is_and_what_to_check() -> None:
    with pytest.raises(ConnectError, match="the source cluster: check host and port of its connection"):
        connect("127.0.0.1:1", timeout=0.1)
    peer_cluster = Whose("the cluster of peer 2", "the cluster key of peer 2", "the cluster key of peer 2")
    with pytest.raises(ConnectError, match="the cluster of peer 2: check the cluster key of peer 2 and") as raised:
        connect("127.0.0.1:1", timeout=0.1, whose=peer_cluster)
    assert "its connection" not in str(raised.value)


def test_a_call_to_a_peer_cluster_that_goes_away_names_the_peer_cluster(tmp_path: Path) -> None:
    peer_cluster = Whose("the cluster of peer 2", "the cluster key of peer 2", "the cluster key of peer 2")
    with ZooKeeperServer(tmp_path) as server:
        zk = connect(server.quorum, call_timeout=1, whose=peer_cluster)
        with pytest.raises(ClusterError, match=r"no HBase cluster has started under /hbase\. Check the cluster key of peer 2"):
            cluster_id(zk, ZNodes())
        server.stop()
        with pytest.raises(ConnectError, match="of the cluster of peer 2 at 127"):
            read(zk, "/a")
        disconnect(zk)


def test_a_silent_ensemble_is_left_long_before_a_session_would_end(zookeeper: ZooKeeperServer) -> None:
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        with pytest.raises(ConnectError):
            connect(f"127.0.0.1:{silent.getsockname()[1]}", timeout=1, session_timeout=300)
        assert time.monotonic() - started < 60
    with proxied_zookeeper(zookeeper.quorum) as proxy:
        zk = connect(f"127.0.0.1:{proxy.port}", session_timeout=300)
        proxy.answers.lock()
        started = time.monotonic()
        disconnect(zk)
        assert time.monotonic() - started < 60
    assert not [thread for thread in set(threading.enumerate()) - before if "kazoo" in thread.name.lower()]


@pytest.mark.slow
def test_a_call_ends_when_the_ensemble_goes_away_and_works_when_it_is_back(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server:
        zk = connect(server.quorum, call_timeout=5)
        zk.create("/a", b"1")
        server.stop()
        with pytest.raises(ConnectError, match=server.quorum):
            read(zk, "/a")
        with pytest.raises(KazooTimeoutError):
            zk.create("/b")
        server.start()
        znode = read(zk, "/a")
        assert znode is not None
        assert znode.value == b"1"
        disconnect(zk)


def test_disconnecting_leaves_no_thread(zookeeper: ZooKeeperServer) -> None:
    before = set(threading.enumerate())
    with connected(zookeeper.quorum) as zk:
        assert read(zk, "/") is not None
    assert set(threading.enumerate()) == before


def test_znodes_that_are_not_there_are_none(zookeeper: ZooKeeperServer) -> None:
    with connected(zookeeper.quorum) as zk:
        assert read(zk, "/nowhere") is None
        assert children(zk, "/nowhere") is None
        root, nothing = read_all(zk, ["/", "/nowhere"])
        assert root is not None
        assert nothing is None


@pytest.mark.parametrize("to", ["connect", "read"])
def test_an_answer_without_end_is_not_collected(to: str) -> None:
    """Runs in its own process, whose largest size is measured."""
    script = Path(__file__).with_name("endless_zookeeper.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "plugins")}
    done = subprocess.run(
        [sys.executable, str(script), to], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    error, grown_mb = done.stdout.splitlines()[-2:]
    assert error == "ConnectError"
    assert int(grown_mb) < 100


@pytest.mark.parametrize("quorum", ["127.0.0.1:99999", "[h:2181"])
def test_a_quorum_that_cannot_be_one_is_named(quorum: str) -> None:
    with pytest.raises(ConnectError, match="no ZooKeeper server of"):
        connect(quorum, timeout=3)
