"""Calls that a server works on are left alone; others end at the deadline, or when the patience is over."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.hbase.rpc.fake_server import Behaviour, FakeServer, Request, answer, exception, hang_up, silence
from tests.unit.replication.sinks.hbase.edits import shipment_of
from tests.unit.replication.sinks.hbase.scripted_peer_cluster import ScriptedPeerCluster
from tests.unit.replication.sinks.hbase.test_direct import halves, rows
from tests.unit.replication.sinks.hbase.test_replicate import Shipment, name
from walferry.base.security.login import UNSECURED, Login
from walferry.base.zk.errors import ConnectError
from walferry.hbase.names import ServerName
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.errors import PeerClusterUnreachable
from walferry.replication.sinks.hbase import peer_cluster as module
from walferry.replication.sinks.hbase.locations import Locations
from walferry.replication.sinks.hbase.peer_cluster import PeerCluster

PEER = Peer("2", "zk1:2181:/hbase", "DISABLED", {})


class Looking:
    """Looks after a peer cluster's calls all the time, as the supervisor does."""

    def __init__(self, peer_cluster: PeerCluster, deadline: float) -> None:
        self._peer_cluster, self._deadline = peer_cluster, deadline
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            self._peer_cluster.look_after_calls(self._deadline)

    def __enter__(self) -> Looking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10)


def slow(seconds: float) -> Behaviour:
    """Takes its time with shipments, and answers everything else at once."""

    def behave(request: Request) -> bytes:
        time.sleep(seconds if request.header.method_name == "ReplicateWALEntry" else 0)
        return answer(request)

    return behave


def peer_cluster_of_fakes(monkeypatch, *servers: FakeServer, ping_seconds: float = 0.3, **settings: object) -> PeerCluster:
    """`ping_seconds` is short for servers that are silent; those that answer get as long as a busy machine may need."""
    peer_cluster = PeerCluster(PEER, PeerSettings(ratio=1.0, **settings), 0.0, login=Login(user="u"), stop=threading.Event())
    monkeypatch.setattr(module, "PING_SECONDS", ping_seconds)
    monkeypatch.setattr(peer_cluster._sinks, "_list_servers", lambda: [name(server) for server in servers])
    return peer_cluster


def shipments(server: FakeServer) -> int:
    return sum(request.header.method_name == "ReplicateWALEntry" for request in server.requests)


def busy(request: Request) -> bytes:
    """Does not answer shipments, but everything else."""
    return silence(request) if request.header.method_name == "ReplicateWALEntry" else answer(request)


@pytest.mark.parametrize(("behaviour", "ended"), [(busy, False), (silence, True)])
def test_after_the_deadline_the_call_of_a_silent_server_is_ended(monkeypatch, behaviour, ended):
    monkeypatch.setattr(module, "PING_SECONDS", 0.3 if ended else 30.0)
    with FakeServer(behaviour) as server, ThreadPoolExecutor() as pool:
        stop = threading.Event()
        peer_cluster = PeerCluster(PEER, PeerSettings(ratio=1.0), 0.0, login=Login(user="u"), stop=stop)
        monkeypatch.setattr(peer_cluster._sinks, "_list_servers", lambda: [name(server)])
        shipper = peer_cluster.shipper()
        call = pool.submit(shipper.ship, Shipment(), time.monotonic() + 0.2)
        while not server.requests:
            time.sleep(0.01)
        time.sleep(0.3)
        peer_cluster.look_after_calls(time.monotonic() - 1)
        if ended:
            with pytest.raises(PeerClusterUnreachable, match=r"in 1 try; the last: .* took the call and answers nothing else"):
                call.result(30)
        else:
            time.sleep(0.3)
            assert not call.done()
        stop.set()
        peer_cluster.interrupt()


def test_an_ensemble_that_is_away_is_an_outage_after_each_try_and_ends_at_the_deadline(monkeypatch):
    now, tried, said = [1000.0], [], []

    def connect(quorum, timeout, **options):
        tried.append(timeout)
        now[0] += timeout
        raise ConnectError(f"no ZooKeeper server of {quorum}: check {options['whose'].check}")

    class Stop(threading.Event):
        def wait(self, timeout=None):
            now[0] += timeout
            return False

    monkeypatch.setattr(module, "connect", connect)
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    peer_cluster = PeerCluster(PEER, PeerSettings(), 1060.0, login=UNSECURED, stop=Stop(), on_failure=lambda: said.append(now[0]))
    peer_cluster.answers._clock = peer_cluster.answers._epoch_clock = lambda: now[0]
    with (
        pytest.raises(PeerClusterUnreachable, match=r"in 5 tries; .* check the cluster key of peer 2, zk1:2181:/hbase"),
        peer_cluster,
    ):
        pass
    assert tried == [5.0, 10.0, 15.0, 20.0, 2.0]
    assert said == [1007.0, 1019.0, 1036.0, 1058.0]
    assert now[0] <= 1062.0
    outage = peer_cluster.answers.outage
    assert outage
    assert (outage.since, outage.tries) == (1000.0, 5)


@pytest.mark.long
def test_a_silent_peer_cluster_is_given_up_when_the_patience_is_over(monkeypatch):
    with FakeServer(silence) as server:
        peer_cluster = peer_cluster_of_fakes(monkeypatch, server, patience_seconds=1.0)
        deadline, began = time.monotonic() + 600, time.monotonic()
        with Looking(peer_cluster, deadline), pytest.raises(PeerClusterUnreachable) as caught:
            peer_cluster.shipper().ship(Shipment(), deadline)
        assert 1.0 <= time.monotonic() - began < 4.0
        assert "for more than 1 s, in 1 try; the last:" in str(caught.value)
        assert "took the call and answers nothing else" in caught.value.last_error
        assert not caught.value.answered


@pytest.mark.long
def test_a_silent_server_s_direct_call_is_ended_and_what_other_servers_have_taken_is_not_sent_again(monkeypatch):
    monkeypatch.setattr(module, "PING_SECONDS", 0.3)
    silent = threading.Event()

    def reply(server: int, request: Request) -> bytes | None:
        return silence(request) if server == 1 and not silent.is_set() else None

    with ScriptedPeerCluster(regions=halves(), reply=reply) as scripted, ThreadPoolExecutor() as pool:
        peer_cluster = PeerCluster(
            PEER, PeerSettings(patience_seconds=1.0, sleep_seconds=0.05), 0.0, login=Login(user="u"), stop=threading.Event()
        )
        monkeypatch.setattr(peer_cluster, "_tables", scripted.as_tables)
        peer_cluster._locations = Locations(scripted.as_tables)
        deadline = time.monotonic() + 600
        with Looking(peer_cluster, deadline):
            direct = peer_cluster.direct_shipper()
            shipping = pool.submit(direct.ship, shipment_of([rows(b"a", b"z")]), deadline)
            with pytest.raises(PeerClusterUnreachable) as error:
                shipping.result(30)
        assert "took the call and answers nothing else" in error.value.last_error
        assert [server for server, _ in scripted.multis] == [0]
        silent.set()
        direct.close()


def test_a_look_asks_no_more_servers_than_it_has_time_for_and_ends_only_calls_of_those(monkeypatch):
    monkeypatch.setattr(module, "MAX_PINGS", 5)
    monkeypatch.setattr(module, "_PINGS_AT_ONCE", 2)
    most, lock, asked, ended = [0, 0], threading.Lock(), set(), set()

    class Sender:
        overdue = False
        calls = frozenset(ServerName("h", 1, i) for i in range(12))

        def interrupt(self, why: str, server: ServerName) -> None:
            ended.add(server)
            self.calls -= {server}

    def ping(server: ServerName) -> bool:
        with lock:
            most[0] += 1
            most[1] = max(most)
        time.sleep(0.01)
        with lock:
            most[0] -= 1
            asked.add(server)
        return False

    peer_cluster = PeerCluster(PEER, PeerSettings(), 0.0, login=Login(user="u"), stop=threading.Event())
    monkeypatch.setattr(peer_cluster, "_answers_ping", ping)
    peer_cluster._shippers.append(Sender())  # type: ignore[arg-type]
    for done in (5, 10, 12):
        peer_cluster.look_after_calls(0.0)
        assert len(asked) == done
        assert ended == asked
    assert most[1] == 2


@pytest.mark.long
@pytest.mark.parametrize("failure", [hang_up, exception("java.io.IOException", "no region")])
def test_a_peer_cluster_that_only_fails_is_given_up_when_the_patience_is_over(monkeypatch, failure):
    with FakeServer(failure) as server:
        peer_cluster = peer_cluster_of_fakes(monkeypatch, server, patience_seconds=1.0, sleep_seconds=0.05)
        began = time.monotonic()
        with pytest.raises(PeerClusterUnreachable) as caught:
            peer_cluster.shipper().ship(Shipment(), began + 600)
        assert 1.0 <= time.monotonic() - began < 4.0
        assert caught.value.tries > 3
        assert caught.value.answered == (failure is not hang_up)


@pytest.mark.long
@pytest.mark.parametrize("timeout", [60.0, 0.25])
def test_a_peer_cluster_that_is_only_slow_is_not_given_up(monkeypatch, timeout):
    """Whether one call takes long, or calls time out and are tried again with more time."""
    with FakeServer(slow(0.7)) as server:
        peer_cluster = peer_cluster_of_fakes(
            monkeypatch, server, ping_seconds=30.0, patience_seconds=0.45, call_timeout_seconds=timeout, sleep_seconds=0.05
        )
        deadline = time.monotonic() + 600
        with Looking(peer_cluster, deadline):
            peer_cluster.shipper().ship(Shipment(), deadline)
        assert shipments(server) == (1 if timeout == 60 else 3)


def test_a_long_call_is_not_sent_again_while_a_server_works_on_it(monkeypatch):
    """Like a bulk load that takes longer than an ordinary call may, and longer than expected (HBASE-30238)."""
    with FakeServer(slow(0.8)) as server, FakeServer(slow(0.8)) as other:
        peer_cluster = peer_cluster_of_fakes(monkeypatch, server, other, ping_seconds=30.0, call_timeout_seconds=0.3)
        deadline = time.monotonic() + 600
        shipper = peer_cluster.shipper()
        with Looking(peer_cluster, deadline):
            shipper.ship(Shipment(), deadline, expected_seconds=0.5)
        assert shipments(server) + shipments(other) == 1
        assert shipper.failed_batches == 0


@pytest.mark.long
def test_a_long_call_goes_to_another_server_once_the_first_falls_silent(monkeypatch):
    """The peer cluster as a whole is not silent: other senders might be acknowledged all the time."""
    with FakeServer(silence) as bad, FakeServer(slow(0.1)) as good:
        peer_cluster = peer_cluster_of_fakes(monkeypatch, bad, good, call_timeout_seconds=0.5)
        deadline, began = time.monotonic() + 600, time.monotonic()
        # the bad one while it is there
        monkeypatch.setattr(random, "choice", min if name(bad) < name(good) else max)
        with Looking(peer_cluster, deadline):
            assert peer_cluster.shipper().ship(Shipment(), deadline, expected_seconds=60.0) == name(good)
        assert (shipments(bad), shipments(good)) == (1, 1)
        assert time.monotonic() - began < 5
