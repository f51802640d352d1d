"""Logging in to a NameNode: its offers decide the protection, and a fake NameNode shows what it accepts."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.base.security.fake_gssapi import FakeContext, FakeCredential
from tests.unit.base.security.fake_gssapi import offer as offer_of_protections
from walferry.base.protos import hdfs_pb2 as pb
from walferry.base.security.gssapi import HostNotNamed
from walferry.base.security.login import Kerberos, Protection
from walferry.base.security.sasl import ProtectionRefused
from walferry.hbase.files import hdfs
from walferry.hbase.files import namenode as module
from walferry.hbase.files.namenode import LoginRefused, NameNode, NameNodeError, NameNodeRefused

KERBEROS = Kerberos(principal="walferry@EAST", keytab="/k")
NEGOTIATE, CHALLENGE = 1, 3


def answer(message: bytes, status: int = 0, **error: str) -> bytes:
    header = pb.RpcResponseHeader(callId=2**32 - 33, status=status, **error).SerializeToString()  # type: ignore[arg-type]
    body = bytes((len(header),)) + header + (bytes((len(message),)) + message if message else b"")
    return struct.pack(">i", len(body)) + body


def offer(*auths: pb.SaslAuth) -> bytes:
    return answer(pb.RpcSasl(state=NEGOTIATE, auths=auths).SerializeToString())


def method(name: str, host: str = "nn1", service: str = "nn") -> pb.SaslAuth:
    return pb.SaslAuth(method=name, mechanism="", protocol=service, serverId=host)


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The principals of the servers that contexts are made for."""
    seen: list[str] = []

    def context(_: object, server: str) -> FakeContext:
        seen.append(server)
        return FakeContext()

    monkeypatch.setattr(module, "credential_of", lambda _: FakeCredential())
    monkeypatch.setattr(module, "principal_of", lambda service: f"{service}@")
    monkeypatch.setattr(module, "Context", context)
    return seen


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
        ("nn/_HOST@EAST", False),
        (None, False),
    ],
)
def test_the_configured_name_may_be_a_pattern(
    serving: Callable[[bytes], int], contexts: list[str], expected: str | None, taken: bool
) -> None:
    with pytest.raises(NameNodeError, match="hung up" if taken else "says that it is nn/nn1, but must be"):
        NameNode("127.0.0.1", serving(offer(method("KERBEROS"))), KERBEROS, expected)


@pytest.mark.parametrize("expected", ["nn/_HOST@EAST", None])
def test_by_default_a_name_node_is_one_of_its_host(
    serving: Callable[[bytes], int], contexts: list[str], expected: str | None
) -> None:
    with pytest.raises(NameNodeError, match="hung up"):
        NameNode("127.0.0.1", serving(offer(method("KERBEROS", "127.0.0.1"))), KERBEROS, expected)
    assert contexts == ["nn/127.0.0.1@"]


@pytest.mark.parametrize("expected", ["nn/_HOST@EAST", None])
def test_who_has_the_address_of_a_host_does_not_say_what_it_is_called(
    serving: Callable[[bytes], int], contexts: list[str], monkeypatch: pytest.MonkeyPatch, expected: str | None
) -> None:
    """The name that the resolver has for an address (PTR) is that which the owner of the address gives it."""
    monkeypatch.setattr(socket, "gethostbyaddr", lambda _: ("nn1", [], ["127.0.0.1"]))
    with pytest.raises(LoginRefused, match=r"says that it is nn/nn1, but must be (nn|\*)/127\.0\.0\.1\. If it is the NameNode"):
        NameNode("127.0.0.1", serving(offer(method("KERBEROS"))), KERBEROS, expected)
    assert contexts == []


@pytest.mark.parametrize("names", [{"host": "nn1\0x"}, {"service": "nn/nn1@WEST"}, {"host": ""}])
def test_what_is_no_name_of_a_service_or_host_gets_no_ticket(
    serving: Callable[[bytes], int], contexts: list[str], names: dict[str, str]
) -> None:
    with pytest.raises(LoginRefused, match="says that it is"):
        NameNode("127.0.0.1", serving(offer(method("KERBEROS", **names))), KERBEROS, "*")
    assert contexts == []


def test_a_host_that_only_a_peer_cluster_names_is_not_even_connected_to(serving: Callable[[bytes], int]) -> None:
    peer_cluster = replace(KERBEROS, hosts=("nn.west",), only_hosts=True)
    with pytest.raises(
        HostNotNamed, match=r"walferry@EAST is not used with the host '127\.0\.0\.1', which only the peer cluster names"
    ):
        NameNode("127.0.0.1", 1, peer_cluster)


def test_a_host_that_a_peer_cluster_names_is_none_that_its_connection_does_not_whatever_the_pattern(
    serving: Callable[[bytes], int], contexts: list[str]
) -> None:
    """A NameNode on the one host says that it is the other, to pass our login on to it."""
    peer_cluster = replace(KERBEROS, hosts=("127.0.0.1",), only_hosts=True)
    with pytest.raises(HostNotNamed, match="is not used with the host 'nn1'"):
        NameNode("127.0.0.1", serving(offer(method("KERBEROS"))), peer_cluster, "*")
    assert contexts == []


def challenges(*offered: str) -> bytes:
    """What a NameNode says in a negotiation: its proof, and the protections that it offers."""
    tokens = (b"AP-REP", offer_of_protections(*offered))
    return b"".join(answer(pb.RpcSasl(state=CHALLENGE, token=each).SerializeToString()) for each in tokens)


@pytest.mark.usefixtures("contexts")
def test_a_name_node_that_protects_nothing_is_refused_unless_the_connection_accepts_it(serving: Callable[[bytes], int]) -> None:
    """Whoever stands between could change what it says."""
    begin = offer(method("KERBEROS", "127.0.0.1")) + challenges("authentication")
    with pytest.raises(ProtectionRefused, match=r"offers authentication, but at least integrity is demanded.*Set hadoop\.rpc"):
        NameNode("127.0.0.1", serving(begin), KERBEROS)
    with pytest.raises(NameNodeError, match="hung up"):  # it has gone on
        NameNode("127.0.0.1", serving(begin), replace(KERBEROS, protection=Protection.AUTHENTICATION))
    with pytest.raises(NameNodeError, match="hung up"):
        NameNode("127.0.0.1", serving(offer(method("KERBEROS", "127.0.0.1")) + challenges("integrity")), KERBEROS)


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


@pytest.mark.usefixtures("contexts")
def test_the_try_after_a_refusal_takes_new_tickets(serving: Callable[[bytes], int], monkeypatch: pytest.MonkeyPatch) -> None:
    credential = FakeCredential()
    monkeypatch.setattr(module, "credential_of", lambda _: credential)
    refusal = answer(b"", 2, exceptionClassName="javax.security.sasl.SaslException", errorMsg="GSS initiate failed")
    with pytest.raises(LoginRefused, match="refused the login"):
        NameNode("127.0.0.1", serving(offer(method("KERBEROS", "127.0.0.1")) + refusal), KERBEROS)
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
