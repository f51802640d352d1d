import random
import socket
import threading
from dataclasses import dataclass, field

import pytest

from tests.unit.hbase.rpc import fake_server
from tests.unit.hbase.rpc.fake_server import FakeServer, exception
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Login, Tls
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS
from walferry.hbase.rpc.errors import NotAuthenticated, NotSecured, RequestTooLarge, WrongServerPrincipal
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.answers import Answers
from walferry.replication.sinks.errors import PeerClusterUnreachable, Stopped
from walferry.replication.sinks.hbase import replicate
from walferry.replication.sinks.hbase.connections import connection_to
from walferry.replication.sinks.hbase.manager import SinkManager
from walferry.replication.sinks.hbase.replicate import Shipper
from walferry.replication.sinks.tries import SendTerms


@dataclass(frozen=True)
class Shipment:
    entries: tuple[bytes, ...] = (b"",)
    cells: tuple[bytes, ...] = (b"cells",)


@dataclass
class Time:
    """A clock that runs only during sleeps."""

    now: float = 1000.0
    sleeps: list[float] = field(default_factory=list)
    stop: bool = False

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.sleeps.append(seconds)
        self.now += seconds
        return self.stop


USER = Login(user="u")
NO_FILES = Login(user="u", tls=Tls(ca="/no/such.pem"))


def name(server: FakeServer) -> ServerName:
    return ServerName(server.host, server.port, 1)


def shipper(
    *servers: ServerName, time: Time, list_servers=None, stop=None, answers=None, bad_sink_threshold=3, login=USER, **settings
) -> Shipper:
    random.seed(7)
    manager = SinkManager(list_servers or (lambda: servers), 1.0, bad_sink_threshold=bad_sink_threshold, clock=time.clock)
    terms = SendTerms(
        "peer:2181:/hbase", stop or threading.Event(), login, PeerSettings(**settings), answers or Answers(), clock=time.clock,
        wait=time.wait,
    )  # fmt: skip
    return Shipper(manager, terms)


def closed_port() -> ServerName:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return ServerName("127.0.0.1", listener.getsockname()[1], 1)


def test_a_shipment_is_one_request_with_its_entries_and_its_cells():
    entry = pb.ReplicateWALEntryRequest(
        entry=[pb.WALEntry(key=pb.WALKey(encoded_region_name=b"r", table_name=b"t", log_sequence_number=1, write_time=2))]
    ).SerializeToString()
    with FakeServer() as server:
        ship = shipper(name(server), time=Time())
        assert ship.ship(Shipment((entry, entry), (b"ce", b"lls")), deadline=2000) == name(server)
        ship.close()
    (request,) = server.requests
    assert request.header.method_name == "ReplicateWALEntry"
    assert len(pb.ReplicateWALEntryRequest.FromString(request.param).entry) == 2
    assert request.cells == b"cells"
    assert request.connection.service_name == "AdminService"
    assert request.connection.cell_block_codec_class == KEY_VALUE_CODEC_WITH_TAGS
    assert request.connection.user_info.effective_user == "u"


def test_a_connection_is_kept_open_between_shipments():
    with FakeServer() as server:
        ship = shipper(name(server), time=Time())
        for _ in range(3):
            ship.ship(Shipment(), deadline=2000)
        ship.close()
    assert server.connections == 1


def test_settings_of_ours_that_cannot_be_right_are_told_at_once():
    time = Time()
    with FakeServer() as server:
        ship = shipper(name(server), time=time, login=NO_FILES)
        with pytest.raises(NotAuthenticated, match=r"/no/such\.pem: No such file"):
            ship.ship(Shipment(), deadline=2000)
        ship.close()
    assert (server.requests, time.sleeps) == ([], [])


class Stranger:
    """A connection to a server that is not what the servers of the peer cluster should be."""

    def __init__(self, server: ServerName, error: NotAuthenticated) -> None:
        self.server, self.error, self.called = server, error, 0

    def begin(self, *_: object, **__: object) -> None:
        self.called += 1
        raise self.error

    def close(self) -> None:
        pass


def strange(monkeypatch: pytest.MonkeyPatch, error: NotAuthenticated, *servers: ServerName) -> list[Stranger]:
    """Let connections to these servers fail so."""
    strangers = [Stranger(server, error) for server in servers]
    known = {stranger.server: stranger for stranger in strangers}
    monkeypatch.setattr(replicate, "connection_to", lambda server, *a, **o: known.get(server) or connection_to(server, *a, **o))
    return strangers


NOT_SECURED = NotSecured("rs9:1")
TOO_WEAK = NotAuthenticated("rs9:1", "it offers authentication", retry_helps=False, others_may=True)


@pytest.mark.parametrize("error", [NOT_SECURED, WrongServerPrincipal("rs9:1", "a", ["b"]), TOO_WEAK])
def test_a_server_that_is_not_as_secured_as_the_others_does_not_stop_them(monkeypatch, error):
    time = Time()
    with FakeServer() as server:
        (stranger,) = strange(monkeypatch, error, ServerName("rs9", 1, 1))
        ship = shipper(name(server), stranger.server, time=time)
        for _ in range(20):
            assert ship.ship(Shipment(), deadline=2000) == name(server)
        ship.close()
    assert (stranger.called, time.sleeps) == (1, [])


def test_if_no_server_is_as_secured_as_demanded_that_is_told_at_once(monkeypatch):
    time = Time()
    strangers = strange(monkeypatch, NOT_SECURED, ServerName("rs8", 1, 1), ServerName("rs9", 1, 1))
    ship = shipper(*(stranger.server for stranger in strangers), time=time)
    with pytest.raises(NotSecured):
        ship.ship(Shipment(), deadline=2000)
    assert [stranger.called for stranger in strangers] == [1, 1]
    assert time.sleeps == []


def test_what_is_wrong_with_our_own_keys_is_not_tried_at_each_server(monkeypatch):
    ours = NotAuthenticated("rs9:1", "no ticket: the keytab holds no key of it", retry_helps=False)
    strangers = strange(monkeypatch, ours, ServerName("rs8", 1, 1), ServerName("rs9", 1, 1))
    ship = shipper(*(stranger.server for stranger in strangers), time=Time())
    with pytest.raises(NotAuthenticated, match="the keytab holds no key"):
        ship.ship(Shipment(), deadline=2000)
    assert sum(stranger.called for stranger in strangers) == 1


def test_after_ten_failures_another_subset_is_drawn():
    time, listed = Time(), []
    with FakeServer(exception("java.io.IOException", "busy")) as bad, FakeServer() as server:

        def list_servers():
            listed.append(time.now)
            return [name(bad)] if len(listed) == 1 else [name(server)]

        ship = shipper(time=time, list_servers=list_servers, bad_sink_threshold=100)
        assert ship.ship(Shipment(), deadline=2000) == name(server)
        ship.close()
    assert time.sleeps == [float(n) for n in range(1, 11)]
    assert len(listed) == 2


def test_a_dead_member_of_the_subset_does_not_stop_the_others():
    time = Time()
    with FakeServer() as server:
        ship = shipper(name(server), closed_port(), time=time)
        for _ in range(20):
            assert ship.ship(Shipment(), deadline=100_000) == name(server)
        ship.close()
    assert ship.failed_batches <= 1  # then it has left the subset


def test_a_peer_cluster_without_servers_is_waited_for():
    time = Time()
    with FakeServer() as server:
        ship = shipper(time=time, list_servers=lambda: [name(server)] if time.now > 1030 else [])
        assert ship.ship(Shipment(), deadline=2000) == name(server)
        ship.close()
    assert time.now >= 1030


def test_a_peer_cluster_without_servers_until_the_deadline_is_unreachable():
    with pytest.raises(PeerClusterUnreachable, match="it has no live RegionServer"):
        shipper(time=Time()).ship(Shipment(), deadline=1100)


def test_a_first_try_that_begins_before_the_deadline_has_its_whole_time():
    with FakeServer() as server:
        ship = shipper(name(server), time=Time(), call_timeout_seconds=60)
        assert ship.ship(Shipment(), deadline=1000.001) == name(server)
        ship.close()
    (request,) = server.requests
    assert 50_000 < request.header.timeout <= 60_000


def test_a_shipment_over_the_request_limit_is_refused_before_anything_is_sent():
    with FakeServer() as server:
        ship = shipper(name(server), time=Time())
        with pytest.raises(RequestTooLarge, match="nothing was sent"):
            ship.ship(Shipment(cells=(memoryview(bytes(128 << 20)),) * 2), deadline=2000)
        assert ship.failed_batches == 0
    assert server.requests == []


def test_connecting_does_not_take_long_beyond_the_deadline(monkeypatch):
    timeouts = []

    def connect(address, timeout):
        timeouts.append(timeout)
        raise TimeoutError

    monkeypatch.setattr("walferry.hbase.rpc.connection.socket.create_connection", connect)
    with pytest.raises(PeerClusterUnreachable):
        shipper(ServerName("s", 1, 1), time=Time()).ship(Shipment(), deadline=1000.5)
    assert timeouts == [2.0]


def test_being_told_to_stop_ends_a_waiting_call():
    stop = threading.Event()
    with FakeServer(fake_server.silence) as server:
        ship = shipper(name(server), time=Time(stop=True), stop=stop)

        def abort() -> None:
            stop.set()
            ship.interrupt()

        timer = threading.Timer(0.2, abort)
        timer.start()
        with pytest.raises(Stopped):
            ship.ship(Shipment(), deadline=2000)
        timer.join()
        ship.close()


def test_nothing_is_sent_if_told_to_stop_while_a_server_is_chosen():
    """At that moment there is no call yet that could be ended."""
    stop = threading.Event()
    with FakeServer() as server:

        def list_servers():
            stop.set()
            ship.interrupt()
            return [name(server)]

        ship = shipper(time=Time(), list_servers=list_servers, stop=stop)
        with pytest.raises(Stopped):
            ship.ship(Shipment(), deadline=2000)
        assert server.requests == []


def test_connections_to_servers_that_left_the_subset_are_closed():
    with FakeServer() as first, FakeServer() as second:
        live = [name(first)]
        time = Time()
        ship = shipper(time=time, list_servers=lambda: list(live))
        ship.ship(Shipment(), deadline=2000)
        live[:] = [name(second)]
        time.now += 60
        ship.ship(Shipment(), deadline=2000)
        assert set(ship._connections) == {name(second)}
        ship.close()
