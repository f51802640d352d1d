"""Secured servers that are not as others: before HBase 2.6 none can say which of several principals it has."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.unit.base.security.fake_gssapi import FakeContext, FakeCredential, offer
from tests.unit.hbase.rpc.fake_server import delimited, framed
from tests.unit.hbase.rpc.test_negotiation import fatal, refusal, token
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Kerberos, Login, Protection
from walferry.hbase.rpc import negotiation
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import NotAuthenticated, SaslRefused

ASKED = b"Securi"
LOGIN = Login(kerberos=Kerberos(principal="w@EAST", keytab="/k", servers=("hm/_HOST", "rs/_HOST")))


class OldServer:
    """Has the principal `mine`, which a client names in its first token, as the fake contexts here do."""

    def __init__(self, mine: str) -> None:
        self.mine = mine
        self.tried: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(sock, sock.makefile("rb")), daemon=True).start()

    def _serve(self, sock, came) -> None:
        with sock, came:
            preamble = came.read(6)
            if preamble == ASKED:
                self.tried.append("asked")
                sock.sendall(fatal("Expected HEADER=HBas but received HEADER=Secu from /127.0.0.1:1"))
                return
            assert preamble == b"HBas\0Q"
            principal = self._frame(came).decode()
            self.tried.append(principal.partition("/")[0])
            if principal != self.mine:
                sock.sendall(refusal("javax.security.sasl.SaslException", "GSS initiate failed"))
                return
            sock.sendall(token(b"") + token(offer("authentication")))
            self._frame(came)
            self._frame(came)
            self._frame(came)  # the connection's header
            while request := self._frame(came):
                header = pb.RequestHeader.FromString(request[1 : 1 + request[0]])
                sock.sendall(framed(delimited(pb.ResponseHeader(call_id=header.call_id).SerializeToString()) + delimited(b"")))

    @staticmethod
    def _frame(came) -> bytes:
        """The next frame; empty at the end of the connection."""
        length = came.read(4)
        return came.read(struct.unpack(">i", length)[0]) if length else b""


class Named(FakeContext):
    """Its first token is the name of the server that it is for."""

    def __init__(self, credential: FakeCredential, server: str) -> None:
        super().__init__()
        self._server = server

    def step(self, given: bytes) -> bytes:
        return super().step(given) and self._server.encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OldServer]:
    monkeypatch.setattr(negotiation, "credential_of", lambda login: FakeCredential())
    monkeypatch.setattr(negotiation, "Context", Named)
    server = OldServer("rs/127.0.0.1@EAST")
    yield server
    server.close()


def call(connection: Connection) -> None:
    connection.call("GetServerInfo", b"", pb.ReplicateWALEntryResponse)


def test_the_principals_are_tried_and_the_right_one_is_remembered(server: OldServer) -> None:
    with Connection("127.0.0.1", server.port, "AdminService", login=LOGIN) as connection:
        call(connection)
        assert server.tried == ["asked", "hm", "rs"]
        call(connection)
        connection.close()
        call(connection)
        assert server.tried == ["asked", "hm", "rs", "rs"]


def test_a_server_with_another_principal_is_asked_again_the_next_time(server: OldServer) -> None:
    with Connection("127.0.0.1", server.port, "AdminService", login=LOGIN) as connection:
        call(connection)
        connection.close()
        server.mine = "hm/127.0.0.1@EAST"
        with pytest.raises(SaslRefused, match="another one than rs/127"):
            call(connection)
        call(connection)
    assert server.tried == ["asked", "hm", "rs", "rs", "asked", "hm"]


def test_if_it_has_none_of_them_the_last_refusal_is_told(server: OldServer) -> None:
    server.mine = "hbase/127.0.0.1@EAST"
    with Connection("127.0.0.1", server.port, "AdminService", login=LOGIN) as connection, pytest.raises(SaslRefused):
        call(connection)
    assert server.tried == ["asked", "hm", "rs"]


def test_too_weak_a_protection_is_that_server_s_alone(server: OldServer) -> None:
    login = Login(kerberos=Kerberos(principal="w@EAST", keytab="/k", servers=("rs/_HOST",), protection=Protection.PRIVACY))
    weak = "offers authentication, but at least privacy is demanded"
    connection = Connection("127.0.0.1", server.port, "AdminService", login=login)
    with connection, pytest.raises(NotAuthenticated, match=weak) as caught:
        call(connection)
    assert (caught.value.retry_helps, caught.value.others_may) == (False, True)
