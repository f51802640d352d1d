import contextlib
import errno
import getpass
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tests.unit.hbase.rpc import fake_server
from tests.unit.hbase.rpc.fake_server import FakeServer, Request, answer, exception, raw
from walferry.base.protos.hbase_pb2 import (
    ListReplicationPeersResponse,
    ReplicateWALEntryResponse,
    RollWALWriterRequest,
    RollWALWriterResponse,
)
from walferry.base.security.login import Login
from walferry.hbase.rpc import channel
from walferry.hbase.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS, CodecError
from walferry.hbase.rpc.connection import Connection, delivery_seconds, first_to_answer
from walferry.hbase.rpc.errors import (
    AccessDenied,
    ConnectionFailed,
    ProtocolError,
    RemoteError,
    RequestTooLarge,
    RpcTimeout,
    TableNotFound,
)


def connect(server: FakeServer, **options) -> Connection:
    return Connection(server.host, server.port, "AdminService", **options)


def roll(connection: Connection, **options) -> RollWALWriterResponse:
    return connection.call("RollWALWriter", RollWALWriterRequest(), RollWALWriterResponse, **options)


def test_a_call_carries_user_service_codec_and_timeout():
    with (
        FakeServer() as server,
        connect(server, login=Login(user="hbase"), cell_codec=KEY_VALUE_CODEC_WITH_TAGS, call_timeout=7) as connection,
    ):
        roll(connection)
    (request,) = server.requests
    assert request.preamble == b"HBas\x00\x50"
    assert request.connection.user_info.effective_user == "hbase"
    assert request.connection.service_name == "AdminService"
    assert request.connection.cell_block_codec_class == KEY_VALUE_CODEC_WITH_TAGS
    assert request.header.method_name == "RollWALWriter"
    assert 0 < request.header.timeout <= 7000


@pytest.mark.parametrize("host", ["a..b", "h" * 70, "a\0b"])
def test_a_server_with_an_impossible_name_is_not_reached(host):
    with Connection(host, 16020, "AdminService") as connection, pytest.raises(ConnectionFailed, match="connecting"):
        roll(connection)


@pytest.mark.parametrize("port", [1 << 16, 1 << 32])
def test_a_server_with_an_impossible_port_is_not_reached(port):
    with Connection("127.0.0.1", port, "AdminService") as connection, pytest.raises(ConnectionFailed, match="connecting"):
        roll(connection)


def test_the_operating_systems_user_is_the_default():
    with FakeServer() as server, connect(server) as connection:
        roll(connection)
    assert server.requests[0].connection.user_info.effective_user == getpass.getuser()


def test_the_result_comes_back_decoded():
    result = ListReplicationPeersResponse().SerializeToString() + b""
    with FakeServer(lambda request: answer(request, result)) as server, connect(server) as connection:
        assert connection.call("ListReplicationPeers", b"", ListReplicationPeersResponse) == ListReplicationPeersResponse()


def test_calls_share_one_connection_and_have_ids_of_their_own():
    with FakeServer() as server, connect(server) as connection:
        for _ in range(3):
            roll(connection)
    assert server.connections == 1
    assert len({request.header.call_id for request in server.requests}) == 3


def test_thousands_of_pieces_small_and_big_arrive_in_order():
    param = [bytes([i % 256]) * 37 for i in range(5000)]
    cells = [bytes([i % 256]) * (200_000 if i % 7 == 0 else 11) for i in range(500)]
    with FakeServer() as server, connect(server) as connection:
        connection.call("ReplicateWALEntry", param, ReplicateWALEntryResponse, cells)
    (request,) = server.requests
    assert request.param == b"".join(param)
    assert request.cells == b"".join(cells)


def test_more_big_pieces_than_the_kernel_takes_at_once_arrive_in_order():
    cells = [memoryview(bytes([i % 256]) * 65_536) for i in range(1200)]
    with FakeServer() as server, connect(server) as connection:
        connection.call("ReplicateWALEntry", b"", ReplicateWALEntryResponse, cells)
    assert server.requests[0].cells == b"".join(cells)


def test_a_request_over_the_limit_does_not_even_connect():
    with FakeServer() as server, connect(server) as connection:
        with pytest.raises(RequestTooLarge):
            connection.call("ReplicateWALEntry", b"", ReplicateWALEntryResponse, [bytes(128 << 20)] * 2)
        assert server.connections == 0


def test_the_servers_exception_is_typed_and_the_connection_lives_on():
    missing = exception("org.apache.hadoop.hbase.TableNotFoundException", "'t1'", do_not_retry=True)
    with FakeServer(missing, answer) as server, connect(server) as connection:
        with pytest.raises(TableNotFound, match="table t1 does not exist there"):
            roll(connection)
        roll(connection)
    assert server.connections == 1


def test_an_exception_of_the_whole_connection_ends_it():
    denied = exception("org.apache.hadoop.hbase.security.AccessDeniedException", "Authentication is required", call_id=0xFFFFFFFF)
    with FakeServer(denied, answer) as server, connect(server) as connection:
        with pytest.raises(AccessDenied, match=r"secured by Kerberos.*Give its connection a principal"):
            roll(connection)
        roll(connection)
    assert server.connections == 2


@pytest.mark.parametrize("behaviour", [fake_server.hang_up, fake_server.half_an_answer])
def test_a_server_that_closes_before_it_has_answered_is_a_failed_connection_and_the_next_call_reconnects(behaviour):
    with FakeServer(behaviour, answer) as server, connect(server) as connection:
        with pytest.raises(ConnectionFailed, match=f"{server.port} failed: the server closed the connection without an answer"):
            roll(connection)
        roll(connection)
    assert server.connections == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">i", 0x7FFFFFFF), "a response of 2147483647 bytes"),
        (struct.pack(">i", -1), "a response of -1 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a response of 1213486160 bytes"),
        (struct.pack(">i", 3) + b"\x02\x08\x63", "no length of the result"),
        (struct.pack(">i", 4) + b"\x02\x08\x63\x00", "an answer to call 99, while only 1 is under way"),
        (struct.pack(">i", 6) + b"\x02\x08\x01\x02\xff\xff", "RollWALWriter: Error parsing"),
    ],
)
def test_garbage_is_a_protocol_error_and_the_next_call_reconnects(data, message):
    with FakeServer(raw(data), answer) as server, connect(server) as connection:
        with pytest.raises(ProtocolError, match=message):
            roll(connection)
        roll(connection)
    assert server.connections == 2


def test_a_silent_server_is_a_timeout_and_its_late_answer_does_not_answer_the_next_call():
    with FakeServer(fake_server.silence, answer) as server, connect(server) as connection:
        with pytest.raises(RpcTimeout, match=r"RollWALWriter took longer than 0\.2 s"):
            roll(connection, timeout=0.2)
        roll(connection)
    assert server.connections == 2


def test_calls_to_several_servers_are_under_way_side_by_side():
    together = threading.Barrier(2, timeout=10)

    def wait_for_the_other(request: Request) -> bytes:
        together.wait()
        return answer(request)

    servers = FakeServer(wait_for_the_other), FakeServer(wait_for_the_other)
    with servers[0] as one, servers[1] as other, connect(one) as first, connect(other) as second:
        for connection in (first, second):
            connection.begin("RollWALWriter", RollWALWriterRequest())
        assert [connection.end(lambda result: result.message) for connection in (first, second)] == [b"", b""]


@pytest.mark.parametrize(
    ("behaviour", "end"),
    [(answer, lambda connection: None), (fake_server.silence, Connection.interrupt), (fake_server.silence, Connection.close)],
    ids=["answered", "interrupted", "closed"],
)
def test_of_several_calls_the_one_that_comes_to_an_end_first_is_found(behaviour, end):
    with (
        FakeServer(fake_server.silence) as silent, connect(silent) as waiting, FakeServer(behaviour) as server,
        connect(server) as first,
    ):  # fmt: skip
        for connection in (waiting, first):
            connection.begin("RollWALWriter", RollWALWriterRequest(), timeout=60)
        end(first)
        assert first_to_answer([waiting, first]) == 1


def test_of_several_calls_the_one_whose_time_is_over_is_found_if_nothing_comes():
    with FakeServer(fake_server.silence) as server, connect(server) as one, connect(server) as other:
        one.begin("RollWALWriter", RollWALWriterRequest(), timeout=60)
        other.begin("RollWALWriter", RollWALWriterRequest(), timeout=0.2)
        assert first_to_answer([one, other]) == 1
        with pytest.raises(RpcTimeout):
            other.end(lambda result: result)


def test_an_answer_that_came_in_time_is_taken_though_another_server_was_waited_for_longer():
    with FakeServer() as server, connect(server) as connection:
        connection.begin("RollWALWriter", RollWALWriterRequest(), timeout=0.2)
        time.sleep(0.5)
        assert connection.end(lambda result: result.call_id) == server.requests[0].header.call_id


def test_a_call_that_ends_while_nobody_waits_for_it_has_failed():
    with FakeServer(fake_server.silence, answer) as server, connect(server) as connection:
        connection.begin("RollWALWriter", RollWALWriterRequest())
        connection.interrupt()
        with pytest.raises(ConnectionFailed):
            connection.end(lambda result: result)
        connection.begin("RollWALWriter", RollWALWriterRequest())
        connection.close()
        with pytest.raises(ConnectionFailed, match="closed before the answer came"):
            connection.end(lambda result: result)
        roll(connection)


def test_an_answer_that_cannot_be_parsed_is_a_protocol_error():
    def parse(result: object) -> None:
        raise CodecError("no such thing")

    with FakeServer() as server, connect(server) as connection:
        connection.begin("RollWALWriter", RollWALWriterRequest())
        with pytest.raises(ProtocolError, match="RollWALWriter: no such thing"):
            connection.end(parse)


def test_a_server_that_reads_nothing_is_a_timeout():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = Connection("127.0.0.1", listener.getsockname()[1], "AdminService")
        with connection, pytest.raises(RpcTimeout, match="ReplicateWALEntry"):
            connection.call("ReplicateWALEntry", b"", ReplicateWALEntryResponse, [bytes(64 << 20)], timeout=0.3)


def test_a_server_that_trickles_is_bound_by_the_whole_calls_deadline():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        trickling = threading.Thread(target=trickle, args=(listener,))
        trickling.start()
        with Connection("127.0.0.1", listener.getsockname()[1], "AdminService") as connection, pytest.raises(RpcTimeout):
            roll(connection, timeout=0.5)
        trickling.join(10)


def trickle(listener: socket.socket) -> None:
    sock, _ = listener.accept()
    with sock, contextlib.suppress(OSError):
        for byte in struct.pack(">i", 1000) + bytes(1000):
            time.sleep(0.05)
            sock.send(bytes([byte]))


def test_a_port_without_a_server_is_a_failed_connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Connection("127.0.0.1", port, "AdminService") as connection, pytest.raises(ConnectionFailed, match="refused"):
        roll(connection)


def test_a_host_without_an_address_is_a_failed_connection():
    expected = pytest.raises(ConnectionFailed, match=r"no-such-host\.invalid:1 failed: connecting")
    with Connection("no-such-host.invalid", 1, "AdminService") as connection, expected:
        roll(connection)


def test_a_connection_that_the_server_closed_while_idle_is_replaced_unnoticed():
    with FakeServer() as server, connect(server) as connection:
        roll(connection)
        server.drop_connections()
        wait_until_closed(connection)
        roll(connection)
    assert server.connections == 2


def test_a_connection_may_be_opened_before_its_first_call():
    with FakeServer() as server, connect(server) as connection:
        assert not connection.is_open
        connection.open(10)
        assert connection.is_open
        connection.open(10)
        roll(connection)
    assert server.connections == 1


def test_a_connection_that_the_server_closed_is_not_open_and_can_be_opened_again():
    with FakeServer() as server, connect(server) as connection:
        roll(connection)
        server.drop_connections()
        wait_until_closed(connection)
        assert not connection.is_open
        connection.open(10)
        roll(connection)
    assert server.connections == 2


def test_opening_a_connection_to_a_port_without_a_server_fails_as_a_call_does():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Connection("127.0.0.1", port, "AdminService") as connection, pytest.raises(ConnectionFailed, match="refused"):
        connection.open(10)


def wait_until_closed(connection: Connection) -> None:
    sock = connection._channel.sock
    sock.settimeout(10)
    assert sock.recv(1, socket.MSG_PEEK) == b""


def test_a_refusal_midway_through_a_big_request_says_why():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = Connection("127.0.0.1", listener.getsockname()[1], "AdminService")
        refused = threading.Thread(target=refuse_after_the_head, args=(listener,))
        refused.start()
        with connection, pytest.raises((RemoteError, ConnectionFailed)) as caught:
            connection.call("ReplicateWALEntry", b"", ReplicateWALEntryResponse, [bytes(128 << 20)], timeout=20)
        refused.join(10)
    assert "RequestTooBigException: too big" in str(caught.value)


def refuse_after_the_head(listener: socket.socket) -> None:
    sock, _ = listener.accept()
    sock.recv(1 << 16)
    header = fake_server.pb.ResponseHeader(call_id=1)
    header.exception.exception_class_name = "org.apache.hadoop.hbase.exceptions.RequestTooBigException"
    header.exception.stack_trace = "too big"
    sock.sendall(fake_server.framed(fake_server.delimited(header.SerializeToString())))
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(1 << 20):
        pass
    sock.close()


def test_another_thread_can_end_a_waiting_call():
    with FakeServer(fake_server.silence) as server, connect(server) as connection:
        timer = threading.Timer(0.2, connection.interrupt)
        timer.start()
        with pytest.raises(ConnectionFailed):
            roll(connection, timeout=60)
        timer.join()


def open_and_roll(connection: Connection, **options) -> RollWALWriterResponse:
    connection.open(60)
    return roll(connection, **options)


@pytest.mark.parametrize("first_call", [roll, open_and_roll])
def test_a_call_that_was_ended_while_connecting_is_never_sent(monkeypatch, first_call):
    connecting, ended = threading.Event(), threading.Event()
    create_connection = socket.create_connection

    def slow(*args, **options):
        connecting.set()
        assert ended.wait(10)
        return create_connection(*args, **options)

    monkeypatch.setattr(socket, "create_connection", slow)
    with FakeServer() as server, connect(server) as connection, ThreadPoolExecutor() as pool:
        call = pool.submit(first_call, connection, timeout=60)
        assert connecting.wait(10)
        connection.interrupt()
        ended.set()
        with pytest.raises(ConnectionFailed, match="ended before it was sent"):
            call.result(60)
        assert server.requests == []
        roll(connection)


class Deaf:
    """A server that takes a connection and reads nothing, until it is asked what has come after all."""

    def __enter__(self) -> "Deaf":
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.host, self.port = self._listener.getsockname()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def has_reset(self) -> bool:
        """Return whether the client has dropped what it had not delivered; else it comes, and then the end of the connection."""
        accepted, _ = self._listener.accept()
        with accepted:
            accepted.settimeout(10)
            try:
                while accepted.recv(1 << 20):
                    pass
            except ConnectionResetError:
                return True
        return False


class Unsure(Exception):
    pass


def too_much(connection: Connection, **how: object) -> None:
    connection.begin("Multi", [bytes(1 << 20)] * 16, **how)  # type: ignore[arg-type]


def test_a_request_whose_time_is_over_is_not_delivered_any_more():
    with Deaf() as server, Connection(server.host, server.port, "ClientService") as connection:
        with pytest.raises(RpcTimeout):
            too_much(connection, timeout=0.5)
        assert server.has_reset()


def test_a_call_that_has_timed_out_delivers_nothing_more_of_its_request():
    with Deaf() as server, Connection(server.host, server.port, "ClientService") as connection:
        connection.begin("Multi", [bytes(40_000)], timeout=0.3)  # all of it is in the kernel
        with pytest.raises(RpcTimeout):
            connection.end(lambda result: None)
        assert server.has_reset()


def test_a_request_that_may_not_go_on_is_asked_about_while_it_waits_and_is_not_delivered_any_more(monkeypatch):
    monkeypatch.setattr(channel, "ASK_SECONDS", 0.02)
    asked: list[float] = []

    def may_go_on() -> None:
        asked.append(time.monotonic())
        if len(asked) == 20:
            raise Unsure

    with Deaf() as server, Connection(server.host, server.port, "ClientService") as connection:
        with pytest.raises(Unsure):
            too_much(connection, timeout=60, may_go_on=may_go_on)
        assert server.has_reset()
    assert asked[-1] - asked[0] < 10


def test_a_connection_that_is_closed_with_a_call_under_way_delivers_nothing_more_of_it():
    with Deaf() as server, Connection(server.host, server.port, "ClientService") as connection:
        connection.begin("Multi", [bytes(40_000)], timeout=60)  # all of it is in the kernel
        connection.close()
        assert server.has_reset()


@pytest.mark.parametrize("seconds", [2, 60, 3600])
def test_the_kernel_gives_a_connection_up_whose_other_side_takes_nothing(seconds):
    with FakeServer() as server, Connection(server.host, server.port, "AdminService") as connection:
        connection.begin("RollWALWriter", RollWALWriterRequest(), timeout=seconds)
        given_up = connection._channel.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert given_up == int(1000 * delivery_seconds(seconds))
        connection.end(lambda result: None)


def test_what_the_kernel_has_given_up_is_not_tried_until_the_deadline():
    def given_up(*_: object) -> int:
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    sock = SimpleNamespace(settimeout=lambda _: None, sendmsg=given_up)
    with pytest.raises(TimeoutError, match="Connection timed out"):
        channel._send_all(sock, [b"x"], time.monotonic() + 5, lambda: None)
