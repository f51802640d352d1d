"""Sessions that log in, against servers of the test's own that speak ZooKeeper's bytes and do what real ones seldom do."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedded.certificates import Authority
from walferry.base.security.login import Login, Tls, ZooKeeperAuth, ZooKeeperLogin
from walferry.base.zk.client import connect, disconnect, read
from walferry.base.zk.errors import ConnectError, LoginFailed, LoginRefused

SESSION = struct.pack(">iiqi", 0, 20_000, 1, 16) + bytes(17)
AUTH_FAILED = -115
NO_NODE = -101
CHALLENGE = b'realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess'


def framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def reply(xid: int, token: bytes | None, error: int = 0) -> bytes:
    buffer = struct.pack(">i", -1) if token is None else framed(token)
    return framed(struct.pack(">iqi", xid, 0, error) + (b"" if error else buffer))


@contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that lets `talk` talk on each connection; its quorum."""

    def one(sock: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error), sock:
            talk(sock)

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (more := sock.recv(count - len(data))):
            raise OSError
        data += more
    return data


def request(sock: socket.socket) -> bytes:
    return exactly(sock, struct.unpack(">i", exactly(sock, 4))[0])


def zookeeper(*answers: bytes) -> Callable[[socket.socket], None]:
    """A server that gives a session, and these answers to the requests that follow, and then ends the connection."""

    def talk(sock: socket.socket) -> None:
        request(sock)
        sock.sendall(framed(SESSION))
        for answer in answers:
            request(sock)
            sock.sendall(answer)
        request(sock)

    return talk


@pytest.fixture
def login(tmp_path: Path) -> Login:
    (tmp_path / "password").write_text("secret")
    at = ZooKeeperLogin(auth=ZooKeeperAuth.DIGEST, user="walferry", password_file=str(tmp_path / "password"))
    return Login(zookeeper=at)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([], "the server has ended the connection during the login"),
        ([reply(1, CHALLENGE)], "the server has ended the connection during the login"),
        ([reply(7, CHALLENGE)], "the server answers another request than the login's"),
        ([reply(1, None, AUTH_FAILED)], "the server refuses the login. Compare zk_user and zk_password_file"),
        ([reply(1, None)], "the server does not authenticate clients, so the session would be an anonymous one"),
        ([reply(1, CHALLENGE), reply(2, None)], "the server does not authenticate clients"),
        ([reply(1, CHALLENGE), reply(2, b"rspauth=00")], "the server does not prove that it knows the password"),
        ([reply(1, b"nonsense")], "the server's challenge cannot be parsed"),
        ([framed(b"")], "the server's answer to the login cannot be read"),
        ([framed(bytes(7))], "the server's answer to the login cannot be read"),
        ([framed(struct.pack(">iqi", 1, 0, 0))], "the server's answer to the login cannot be read"),
    ],
)
def test_a_login_that_fails_is_told_and_is_no_session(login: Login, answers: list[bytes], why: str) -> None:
    with listening(zookeeper(*answers)) as quorum, pytest.raises(LoginFailed) as failed:
        connect(quorum, timeout=200, login=login)
    assert str(failed.value).startswith("no session as user walferry (password in ")
    assert f"127.0.0.1:{quorum.partition(':')[2]}: {why}" in str(failed.value)
    assert "secret" not in str(failed.value)


@pytest.mark.long
def test_a_server_that_says_nothing_to_a_login_is_as_one_that_says_nothing_at_all(login: Login) -> None:
    def silent(sock: socket.socket) -> None:
        request(sock)
        sock.sendall(framed(SESSION))
        while True:
            request(sock)

    with listening(silent) as quorum, pytest.raises(ConnectError, match="answered within 1 s"):
        connect(quorum, timeout=1, session_timeout=60, login=login)


def test_nothing_but_tls_s_hello_goes_to_a_server_that_does_not_talk_it(tmp_path: Path) -> None:
    came: list[bytes] = []

    def talk(sock: socket.socket) -> None:
        came.append(sock.recv(65536))
        sock.sendall(framed(SESSION))

    tls = Tls(ca=str(Authority(tmp_path).pem))
    with listening(talk) as quorum, pytest.raises(LoginFailed, match="the server does not talk TLS"):
        connect(quorum, timeout=200, login=Login(zookeeper=ZooKeeperLogin(tls=tls)))
    assert came
    assert all(each[:2] == b"\x16\x03" for each in came)


def test_a_file_of_the_login_that_is_wrong_is_told_before_anything_is_said(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    tls = Tls(ca=str(tmp_path / "ca.pem"))
    with listening(lambda sock: None) as quorum, pytest.raises(LoginRefused, match=r"ca\.pem holds no certificates in PEM"):
        connect(quorum, timeout=200, login=Login(zookeeper=ZooKeeperLogin(tls=tls)))


@pytest.mark.parametrize(
    "unreadable",
    [
        framed(bytes(7)),  # no header
        framed(struct.pack(">iqi", -1, 0, 0)),  # no watch event
        framed(struct.pack(">iqiii", -1, 0, 0, 1, 3) + framed(b"\xff")),  # of no path
    ],
    ids=["header", "event", "path"],
)
def test_an_answer_that_cannot_be_read_ends_the_connection_and_not_the_client(unreadable: bytes) -> None:
    talks = iter([zookeeper(unreadable), zookeeper(reply(1, None, NO_NODE))])
    with listening(lambda sock: next(talks)(sock)) as quorum:
        zk = connect(quorum, timeout=200)
        try:
            assert read(zk, "/a") is None
        finally:
            disconnect(zk)
