"""Logins to ZooKeeper without a server: the messages sent, the ends of a login, and the verdict on several servers' refusals."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.unit.base.security.fake_gssapi import FakeContext, FakeCredential, offer, wrapped
from walferry.base.security.gssapi import HostNotNamed, KdcSilent, KerberosError
from walferry.base.security.login import MAX_PASSWORD_BYTES, Kerberos, Login, ZooKeeperAuth, ZooKeeperLogin
from walferry.base.zk import login as logins
from walferry.base.zk.errors import LoginFailed, LoginRefused
from walferry.base.zk.login import Refusals, identity_of, password_of, prove

KERBEROS = Login(
    kerberos=Kerberos(principal="walferry@EXAMPLE.COM", keytab="/k"), zookeeper=ZooKeeperLogin(auth=ZooKeeperAuth.KERBEROS)
)


def by_password(file: object, user: str | None = "walferry") -> Login:
    return Login(zookeeper=ZooKeeperLogin(auth=ZooKeeperAuth.DIGEST, user=user, password_file=str(file)))


class Server:
    """Answers with its tokens, one after the other, and keeps what it was sent."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = list(answers)
        self.got: list[bytes] = []

    def __call__(self, token: bytes) -> bytes | None:
        self.got.append(token)
        return self._answers.pop(0)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The principals of the servers that contexts are made for."""
    seen: list[str] = []

    def context(_: object, server: str) -> FakeContext:
        seen.append(server)
        return FakeContext()

    monkeypatch.setattr(logins, "Context", context)
    monkeypatch.setattr(logins, "credential_of", lambda _: FakeCredential())
    return seen


@pytest.mark.parametrize("end", [None, b""])
def test_a_login_by_kerberos_ends_with_the_server_s_silence(servers: list[str], end: bytes | None) -> None:
    server = Server(b"AP-REP", offer("authentication"), end)
    prove(KERBEROS, "ZK1.example.org", server)
    assert server.got == [b"token", b"", wrapped(bytes((1, 0, 0, 0)))]
    assert servers == ["zookeeper/zk1.example.org@EXAMPLE.COM"]


@pytest.mark.parametrize(
    ("server", "principal"),
    [
        ("zk/_HOST", "zk/h@EXAMPLE.COM"),
        ("zookeeper/_HOST@OTHER", "zookeeper/h@OTHER"),
        ("zookeeper/all", "zookeeper/all@EXAMPLE.COM"),
    ],
)
def test_the_server_s_principal_is_that_of_the_login(servers: list[str], server: str, principal: str) -> None:
    at = ZooKeeperLogin(auth=ZooKeeperAuth.KERBEROS, server=server)
    prove(Login(kerberos=KERBEROS.kerberos, zookeeper=at), "h", Server(b"AP-REP", offer("authentication"), None))
    assert servers == [principal]


def test_the_host_of_a_cluster_key_that_no_connection_names_gets_no_token(servers: list[str]) -> None:
    server = Server()
    with pytest.raises(
        HostNotNamed, match=r"walferry@EXAMPLE\.COM is not used with the host 'evil', which only the peer cluster names"
    ):
        prove(KERBEROS.for_peer_clusters("zk1"), "evil", server)
    assert (server.got, servers) == ([], [])
    prove(KERBEROS.for_peer_clusters("zk1"), "zk1", Server(b"AP-REP", offer("authentication"), None))


@pytest.mark.parametrize("answers", [[None], [b"AP-REP", None]])
def test_a_server_that_ends_the_login_before_it_has_proved_itself_is_refused(servers: list[str], answers: list[bytes]) -> None:
    with pytest.raises(LoginRefused, match="does not authenticate clients"):
        prove(KERBEROS, "h", Server(*answers))


def test_a_server_that_wants_each_message_wrapped_is_refused(servers: list[str]) -> None:
    with pytest.raises(LoginRefused, match="wants to wrap each message"):
        prove(KERBEROS, "h", Server(b"AP-REP", offer("privacy")))


def test_a_server_that_wants_a_password_gets_none(servers: list[str]) -> None:
    with pytest.raises(LoginRefused, match="wants a password"):
        prove(KERBEROS, "h", Server(b'realm="zk-sasl-md5",nonce="n"'))


def test_kdcs_that_do_not_answer_in_time_are_told(servers: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    class Waiting(FakeContext):
        def step(self, token: bytes) -> bytes:
            answered.wait(20)
            return super().step(token)

    monkeypatch.setattr(logins, "Context", lambda *_: Waiting())
    monkeypatch.setattr(logins, "KDC_SECONDS", 0.05)
    server = Server()
    with pytest.raises(KdcSilent, match=r"for zookeeper/h@EXAMPLE\.COM in time: no KDC has answered yet"):
        prove(KERBEROS, "h", server)
    answered.set()
    assert not server.got


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]"])
def test_an_address_has_no_principal(servers: list[str], host: str) -> None:
    with pytest.raises(LoginRefused, match="needs the server's host name"):
        prove(KERBEROS, host, Server())


@pytest.mark.parametrize("answers", [[None], [b'nonce="n",algorithm=md5-sess', None]])
def test_a_server_that_skips_the_password_is_refused(tmp_path: Path, answers: list[bytes | None]) -> None:
    (tmp_path / "p").write_text("secret\n")
    server = Server(*answers)
    with pytest.raises(LoginRefused, match="does not authenticate clients"):
        prove(by_password(tmp_path / "p"), "h", server)
    assert not any(b"secret" in token for token in server.got)


@pytest.mark.parametrize(
    ("login", "lacks"),
    [
        (Login(zookeeper=ZooKeeperLogin(auth=ZooKeeperAuth.KERBEROS)), "needs a principal with its keytab"),
        (by_password("/p", user=None), "needs a user and a password file"),
    ],
)
def test_a_login_that_lacks_something_is_refused(login: Login, lacks: str) -> None:
    with pytest.raises(LoginRefused, match=lacks):
        prove(login, "h", Server())


@pytest.mark.parametrize(
    ("login", "text"),
    [
        (KERBEROS, "walferry@EXAMPLE.COM (keytab /k)"),
        (Login(kerberos=Kerberos(principal="p@R"), zookeeper=KERBEROS.zookeeper), "p@R"),
        (Login(kerberos=Kerberos(), zookeeper=KERBEROS.zookeeper), "the principal of the credential cache"),
        (by_password("/p"), "user walferry (password in /p)"),
    ],
)
def test_a_login_says_whose_it_is(login: Login, text: str) -> None:
    assert identity_of(login) == text


def test_an_anonymous_login_needs_no_proof() -> None:
    assert identity_of(Login(kerberos=KERBEROS.kerberos)) is None


@pytest.mark.parametrize(
    ("content", "why"), [("", "is empty"), ("\n", "is empty"), ("x" * (MAX_PASSWORD_BYTES + 1), "more than 1024 bytes")]
)
def test_a_file_that_holds_no_password_is_named(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "p").write_text(content)
    with pytest.raises(LoginRefused, match=f"{tmp_path}/p .*{why}"):
        password_of(str(tmp_path / "p"))


SERVERS = [("a", 1), ("b", 1)]


def test_there_is_hope_until_each_server_has_refused_for_good() -> None:
    refusals = Refusals("the source", KERBEROS)
    assert not refusals
    refusals.add(SERVERS[0], LoginFailed("no"), tries=Refusals.TRIES)
    refusals.add(SERVERS[1], LoginFailed("no"))
    assert not refusals.hopeless(SERVERS)
    refusals.add(SERVERS[1], LoginFailed("no"))
    assert refusals.hopeless(SERVERS)
    refusals.clear()
    assert not refusals.hopeless(SERVERS)


def test_a_name_of_several_addresses_is_hopeless_once_each_of_them_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a headless service, behind which one server of three may be broken."""
    every = [(2, 1, 6, "", (f"10.0.0.{n}", 1)) for n in (1, 2, 3)]
    monkeypatch.setattr(logins.socket, "getaddrinfo", lambda host, port, **_: every if host == "a" else [])
    refusals = Refusals("the source", KERBEROS)
    refusals.unreached(("a", 1), "10.0.0.3")
    assert not refusals
    assert not refusals.hopeless([("a", 1)])
    refusals.add(("a", 1), LoginFailed("no"), "10.0.0.1", tries=Refusals.TRIES)
    refusals.add(("a", 1), LoginFailed("no"), "10.0.0.2")
    assert not refusals.hopeless([("a", 1)])
    refusals.add(("a", 1), LoginFailed("no"), "10.0.0.2")
    assert refusals.hopeless([("a", 1)])
    refusals.clear()
    refusals.unreached(("a", 1), "10.0.0.3")
    assert not refusals.hopeless([("a", 1)])


def test_a_server_that_was_away_for_a_while_is_not_one_that_has_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins.socket, "getaddrinfo", lambda host, port, **_: [(2, 1, 6, "", ("10.0.0.1", 1))])
    refusals = Refusals("the source", KERBEROS)
    refusals.unreached(("a", 1), "10.0.0.1")
    refusals.add(("a", 1), LoginFailed("a new key"), "10.0.0.1", tries=0)  # of a session that goes on
    assert not refusals.hopeless([("a", 1)])


def test_what_several_servers_say_is_one_error_with_each_reason_once() -> None:
    refusals = Refusals("the source", KERBEROS)
    refusals.add(("a", 1), KerberosError("no ticket", "Do this"))
    refusals.add(("b", 2), KerberosError("no ticket", "Do this"))
    refusals.add(("c", 3), LoginRefused("another reason", "Do that"))
    error = refusals.error()
    assert str(error) == (
        "no session as walferry@EXAMPLE.COM (keytab /k) with ZooKeeper of the source: "
        "a:1: no ticket; c:3: another reason. Do this. Do that"
    )
    assert error.retry_helps


def test_refusals_that_do_not_pass_are_an_error_that_does_not_either() -> None:
    refusals = Refusals("the source", KERBEROS)
    refusals.add(("a", 1), LoginRefused("no"))
    assert isinstance(refusals.error(), LoginRefused)
