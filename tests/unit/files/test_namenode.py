"""Logging in to a NameNode: what it offers decides, and a fake one shows what it takes."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.security.fake_gssapi import FakeContext, FakeCredential
from walferry.files import hdfs
from walferry.files import namenode as module
from walferry.files.namenode import LoginRefused, NameNode, NameNodeError, NameNodeRefused
from walferry.protos import hdfs_pb2 as pb
from walferry.security.login import Kerberos

KERBEROS = Kerberos(principal="walferry@EAST", keytab="/k")
NEGOTIATE = 1


def answer(message: bytes, status: int = 0, **error: str) -> bytes:
    header = pb.RpcResponseHeader(callId=2**32 - 33, status=status, **error).SerializeToString()  # type: ignore[arg-type]
    body = bytes((len(header),)) + header + (bytes((len(message),)) + message if message else b"")
    return struct.pack(">i", len(body)) + body


def offer(*auths: pb.SaslAuth) -> bytes:
    return answer(pb.RpcSasl(state=NEGOTIATE, auths=auths).SerializeToString())


def method(name: str) -> pb.SaslAuth:
    return pb.SaslAuth(method=name, mechanism="", protocol="nn", serverId="nn1")


@pytest.fixture
def serving() -> Iterator[Callable[[bytes], int]]:
    """`serving(data)`: the port of a server that sends this to who has said something."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(data: bytes) -> None:
        sock, _ = listener.accept()
        with sock, contextlib.suppress(OSError):  # the client may hang up at any time
            sock.recv(7)
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass

    def start(data: bytes) -> int:
        threading.Thread(target=serve, args=(data,), daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    listener.close()


def test_a_name_node_that_demands_kerberos_refuses_a_client_without_a_login(serving: Callable[[bytes], int]) -> None:
    with pytest.raises(LoginRefused, match="demands Kerberos"):
        NameNode("127.0.0.1", serving(offer(method("TOKEN"), method("KERBEROS"))), None)


def test_a_name_node_without_kerberos_tells_its_space(serving: Callable[[bytes], int]) -> None:
    stats = pb.GetFsStatsResponse(capacity=300, used=100, remaining=200).SerializeToString()
    with NameNode("127.0.0.1", serving(offer(method("SIMPLE")) + answer(stats)), None) as namenode:
        assert namenode.space().remaining == 200


@pytest.mark.parametrize("names", [["SIMPLE"], ["KERBEROS", "SIMPLE"], ["TOKEN"], []])
def test_a_login_with_kerberos_is_never_given_up_for_less(serving: Callable[[bytes], int], names: list[str]) -> None:
    with pytest.raises(LoginRefused, match="does not demand Kerberos, but the login has a principal"):
        NameNode("127.0.0.1", serving(offer(*map(method, names))), KERBEROS)


def test_a_name_node_of_another_name_than_the_configured_one_gets_no_ticket(serving: Callable[[bytes], int]) -> None:
    with pytest.raises(LoginRefused, match="says that it is nn/nn1, but must be hdfs/127"):
        NameNode("127.0.0.1", serving(offer(method("KERBEROS"))), KERBEROS, "hdfs/_HOST@EAST")


@pytest.mark.parametrize(
    ("expected", "taken"),
    [
        ("nn/nn1@EAST", True),
        ("*", True),
        ("nn/*@EAST", True),
        ("{hdfs,nn}/nn?@EAST", True),
        ("hdfs/*@EAST", False),
        ("{hdfs,dn}/*", False),
        ("nn/nn1.*", False),
        ("nn/_HOST@EAST", True),  # by the name that the resolver has for 127.0.0.1
        ("hdfs/_HOST@EAST", False),
    ],
)
def test_the_configured_name_may_be_a_pattern_or_the_canonical_name_of_the_host(
    serving: Callable[[bytes], int], monkeypatch: pytest.MonkeyPatch, expected: str, taken: bool
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda host: "NN1" if host == "127.0.0.1" else host)
    monkeypatch.setattr(module, "credential_of", lambda _: FakeCredential())
    monkeypatch.setattr(module, "Context", lambda *_, **__: FakeContext())
    with pytest.raises(NameNodeError, match="hung up" if taken else "says that it is nn/nn1, but must be"):
        NameNode("127.0.0.1", serving(offer(method("KERBEROS"))), KERBEROS, expected)


def test_a_pattern_in_the_settings_is_asked_for_and_no_leave_to_be_anybody(
    serving: Callable[[bytes], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"dfs.namenode.kerberos.principal": "nn/nn1@EAST", "dfs.namenode.kerberos.principal.pattern": "hdfs/*@EAST"}
    entries = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(hdfs, "login_at", lambda _: KERBEROS)
    url = f"hdfs://127.0.0.1:{serving(offer(method('KERBEROS')))}/hbase"
    assert "says that it is nn/nn1, but must be hdfs/*" in str(hdfs.login_problem(url))


def test_a_refusal_says_what_the_name_node_says(serving: Callable[[bytes], int]) -> None:
    refusal = answer(b"", 2, exceptionClassName="javax.security.sasl.SaslException", errorMsg="GSS initiate failed\n\tat x")
    with pytest.raises(LoginRefused, match="refused the login: SaslException: GSS initiate failed"):
        NameNode("127.0.0.1", serving(refusal), KERBEROS)


def test_the_try_after_a_refusal_takes_new_tickets(serving: Callable[[bytes], int], monkeypatch: pytest.MonkeyPatch) -> None:
    credential = FakeCredential()
    monkeypatch.setattr(module, "credential_of", lambda _: credential)
    monkeypatch.setattr(module, "Context", lambda *_, **__: FakeContext())
    refusal = answer(b"", 2, exceptionClassName="javax.security.sasl.SaslException", errorMsg="GSS initiate failed")
    with pytest.raises(LoginRefused, match="refused the login"):
        NameNode("127.0.0.1", serving(offer(method("KERBEROS")) + refusal), KERBEROS)
    assert credential.forgotten == 1


@pytest.mark.parametrize("data", [b"", b"nonsense", answer(b"", 2, exceptionClassName="java.io.IOException", errorMsg="busy")])
def test_a_login_that_no_name_node_has_taken_is_a_problem(serving: Callable[[bytes], int], data: bytes) -> None:
    url = f"hdfs://127.0.0.1:{serving(data)}/hbase"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hdfs, "login_at", lambda _: KERBEROS)
        problem = hdfs.login_problem(url)
    assert problem
    assert url.split("/")[2] in problem


def test_a_standby_name_node_has_taken_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: object) -> None:
        raise NameNodeRefused("StandbyException: not here")

    monkeypatch.setattr(hdfs, "ask", ask)
    monkeypatch.setattr(hdfs, "login_at", lambda _: KERBEROS)
    assert hdfs.login_problem("hdfs://nn:8020/hbase") is None


@pytest.mark.parametrize("names", [["SIMPLE"], ["KERBEROS", "SIMPLE"]])
def test_one_name_node_that_does_without_kerberos_is_a_problem_though_another_demands_it(
    serving: Callable[[bytes], int], monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """hdfs-native would believe it, and asks the same ones in the same order."""
    fake, asked = serving(offer(*map(method, names))), hdfs.ask
    monkeypatch.setattr(hdfs, "namenodes", lambda _: [("127.0.0.1", fake), ("nn2", 8020)])
    monkeypatch.setattr(hdfs, "ask", lambda host, *rest: asked(host, *rest) if host == "127.0.0.1" else None)
    monkeypatch.setattr(hdfs, "login_at", lambda _: KERBEROS)
    problem = str(hdfs.login_problem("hdfs://service/hbase"))
    assert f"127.0.0.1:{fake} as walferry@EAST, keytab /k: it does not demand Kerberos" in problem


def test_one_name_node_that_refuses_a_login_is_none_if_another_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(host: str, *_: object) -> None:
        if host == "nn1":
            raise LoginRefused("refused the login: SaslException: GSS initiate failed")

    monkeypatch.setattr(hdfs, "namenodes", lambda _: [("nn1", 8020), ("nn2", 8020)])
    monkeypatch.setattr(hdfs, "ask", ask)
    monkeypatch.setattr(hdfs, "login_at", lambda _: KERBEROS)
    assert hdfs.login_problem("hdfs://service/hbase") is None


def test_a_name_node_that_sends_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    namenode = NameNode.__new__(NameNode)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(bytes(8))
        namenode._sock, namenode._give_up = ours, time.monotonic() - 1
        with pytest.raises(TimeoutError):
            namenode._from_socket(4)


@pytest.mark.parametrize("data", [b"", b"\0", b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">i", 0)])
def test_what_is_not_hadoop_s_rpc_is_told_as_such(serving: Callable[[bytes], int], data: bytes) -> None:
    with pytest.raises(NameNodeError, match=r"hung up without an answer|is not one of Hadoop's RPC"):
        NameNode("127.0.0.1", serving(data), None)


def test_a_name_node_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CALL_SECONDS", 0.2)
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, pytest.raises(TimeoutError):
        NameNode("127.0.0.1", silent.getsockname()[1], None)
