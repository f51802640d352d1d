"""The RPC server with our own client, and with clients that are slow, greedy or broken."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Login
from walferry.hbase.rpc import codec
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import ConnectionFailed, FatalConnection, RemoteError, RpcError, ServerNotReady
from walferry.hbase.rpc.server import Caller, CannotListen, Method, RpcServer, ServerLimits
from walferry.hbase.rpc.server_codec import CallRefused, JavaException

HELLO = codec.preamble() + codec.connection_header("S", "hbase")
MIB = 1 << 20


def echo(param: pb.NameStringPair, caller: Caller) -> pb.NameStringPair:
    return pb.NameStringPair(name=param.value, value=f"{caller.user}@{caller.host}")


def refuse(param: pb.NameStringPair, caller: Caller) -> pb.NameStringPair:
    raise CallRefused(JavaException.NOT_RUNNING_YET, "not now")


def fail(param: pb.NameStringPair, caller: Caller) -> pb.NameStringPair:
    raise ZeroDivisionError("a bug")


SERVICES = {"S": {name: Method(pb.NameStringPair, f) for name, f in {"echo": echo, "refuse": refuse, "fail": fail}.items()}}


@contextmanager
def serving(**limits: float) -> Iterator[RpcServer]:
    with RpcServer(SERVICES, limits=ServerLimits(**limits)) as server:
        yield server


def client(server: RpcServer, service: str = "S") -> Connection:
    return Connection("127.0.0.1", server.port, service, login=Login(user="tester"), call_timeout=10)


def call(connection: Connection, text: str, method: str = "echo") -> str:
    found = connection.call(method, pb.NameStringPair(name="n", value=text), pb.NameStringPair)
    assert found.value == "tester@127.0.0.1"
    return found.name


def raw(server: RpcServer, data: bytes) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    sock.sendall(data)
    return sock


def is_closed(sock: socket.socket, within: float) -> bool:
    """Return whether the server closes the connection, with or without last words."""
    sock.settimeout(within)
    with suppress(ConnectionError):
        while True:
            try:
                if not sock.recv(65536):
                    return True
            except TimeoutError:
                return False
    return True


def await_that(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_many_clients_get_each_its_own_answers():
    with serving() as server, ThreadPoolExecutor(8) as pool:

        def talk(number: int) -> None:
            with client(server) as connection:
                for i in range(20):
                    assert call(connection, f"{number}:{i}") == f"{number}:{i}"

        list(pool.map(talk, range(8)))


def test_a_refused_call_names_its_exception_and_the_connection_lives_on():
    with serving() as server, client(server) as connection:
        with pytest.raises(ServerNotReady, match="ServerNotRunningYetException: not now"):
            call(connection, "x", "refuse")
        with pytest.raises(RemoteError, match="UnsupportedOperationException: S has no method 'nothing' here"):
            call(connection, "x", "nothing")
        with pytest.raises(RemoteError, match=r"IOException: fail: ZeroDivisionError\('a bug'\)"):
            call(connection, "x", "fail")
        with pytest.raises(RemoteError, match=r"DoNotRetryIOException: echo: .*name"):
            connection.call("echo", b"", pb.NameStringPair)
        assert call(connection, "still") == "still"
        await_that(lambda: len(server._open) == 1)


def test_an_unknown_service_is_refused_with_its_name():
    refused = pytest.raises(FatalConnection, match="'Admin' is not served")
    with serving() as server, client(server, "Admin") as connection, refused:
        call(connection, "x")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"HBas\x00\x51",
        codec.preamble() + b"\x7f\xff\xff\xff",
        HELLO + b"\x7f\xff\xff\xff",
        HELLO + b"\0\0\0\1x",
    ],
)
def test_a_broken_client_is_told_why_and_ends_alone(data):
    with serving() as server, client(server) as other:
        assert call(other, "before") == "before"
        with raw(server, data) as sock:
            (length,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
            assert b"Exception" in sock.recv(length, socket.MSG_WAITALL)
            assert sock.recv(1) == b""
        assert call(other, "after") == "after"


@pytest.mark.parametrize("data", [b"", b"HB", codec.preamble(), codec.preamble() + b"\0\0"])
def test_a_hello_has_its_time(data):
    with serving(hello_seconds=0.3) as server, raw(server, data) as sock:
        assert is_closed(sock, 5)


def test_a_request_that_comes_byte_by_byte_has_its_time():
    with serving(request_seconds=0.5) as server, raw(server, HELLO + struct.pack(">i", 1000)) as sock:
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 5:
                sock.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - began < 5


@pytest.mark.long
def test_a_client_may_pause_between_requests_and_is_closed_when_idle_too_long():
    with serving(request_seconds=0.1, idle_seconds=1.0) as server, client(server) as connection:
        assert call(connection, "a") == "a"
        sock = connection._channel.sock
        time.sleep(0.2)  # longer than a request may take
        assert call(connection, "b") == "b"
        assert connection._channel.sock is sock, "the same connection"
        assert is_closed(sock, 5)
        assert call(connection, "c") == "c", "over a new connection"


@pytest.mark.long
def test_a_client_that_never_stops_sending_requests_is_not_taken_for_a_slow_one():
    request = b"".join(codec.encode_request(1, "echo", pb.NameStringPair(name="n", value="v").SerializeToString()))
    with serving(request_seconds=0.3) as server, raw(server, HELLO) as sock:
        reader = threading.Thread(target=is_closed, args=(sock, 0.3), daemon=True)
        reader.start()
        for _ in range(20):  # each time the end of a request and the beginning of the next one
            sock.sendall(request[:5])
            time.sleep(0.05)
            sock.sendall(request[5:])
        assert len(server._open) == 1
        reader.join(5)


def test_a_client_that_takes_no_answers_is_closed():
    request = b"".join(codec.encode_request(1, "echo", pb.NameStringPair(name="n", value="v" * MIB).SerializeToString()))
    with serving(request_seconds=0.5) as server, raw(server, HELLO) as sock:
        sock.settimeout(5)
        with suppress(ConnectionError, TimeoutError):
            for _ in range(200):
                sock.sendall(request)
        await_that(lambda: not server._open)


def test_the_bytes_that_arrive_in_all_are_bounded():
    with serving(waiting_bytes=3 * MIB) as server:
        greedy = [raw(server, HELLO + struct.pack(">i", 8 * MIB)) for _ in range(4)]
        for sock in greedy:
            with suppress(ConnectionError):
                sock.sendall(bytes(MIB))
        await_that(lambda: len(server._open) < 4)
        with client(server) as connection:
            assert call(connection, "small") == "small"
        for sock in greedy:
            sock.close()
        await_that(lambda: not server._waiting_bytes)


def test_a_method_s_name_is_shown_on_one_line_of_the_log(caplog):
    with serving() as server, client(server) as connection, caplog.at_level("INFO"), pytest.raises(RemoteError, match="has no"):
        call(connection, "x", "echo\n\x1b[2J" + "x" * MIB)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("echo  [2Jxxx")
    assert len(line) < 5000


def test_the_longest_idle_connection_makes_room_for_a_new_one():
    with serving(connections=3) as server:
        connections = [client(server) for _ in range(4)]
        for i, connection in enumerate(connections):
            assert call(connection, str(i)) == str(i)
        assert len(server._open) == 3
        assert is_closed(connections[0]._channel.sock, 5)
        assert call(connections[3], "again") == "again"
        for connection in connections:
            connection.close()


def test_the_end_frees_the_port_and_the_threads():
    before = threading.active_count()
    with serving() as server:
        connections = [client(server) for _ in range(5)]
        for connection in connections:
            call(connection, "x")
        port = server.port
    assert threading.active_count() == before
    with pytest.raises(RpcError):
        call(connections[0], "too late")
    with pytest.raises(ConnectionFailed), Connection("127.0.0.1", port, "S", connect_timeout=1) as connection:
        call(connection, "x")
    with RpcServer(SERVICES, port=port):
        pass


def test_an_address_that_cannot_be_listened_on_is_named():
    with serving() as server, pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{server.port}: .*use"):
        RpcServer(SERVICES, port=server.port)
    with pytest.raises(CannotListen, match=r"cannot listen on no\.such\.host\.invalid:0"):
        RpcServer(SERVICES, "no.such.host.invalid")


def test_it_listens_on_this_machine_only_unless_told_otherwise():
    with serving() as server:
        assert server._listener.getsockname()[0] == "127.0.0.1"
