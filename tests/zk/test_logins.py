"""Sessions with logins and TLS on real ZooKeeper servers: who gets in, as which user, and the errors for others."""

from __future__ import annotations

import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, SessionClosedRequireSaslError
from kazoo.protocol.states import KazooState
from kazoo.security import make_acl

from embedded.certificates import Authority
from embedded.zookeeper import ZooKeeperServer
from tests.cluster.proxy import TcpProxy
from tests.zk.secured_fixtures import HBASE, PASSWORD, SERVER, USER, WALFERRY, Secured
from walferry.base.errors import WalferryError
from walferry.base.security.gssapi import credential_of
from walferry.base.security.login import UNSECURED, Kerberos, Login, ZooKeeperAuth, ZooKeeperLogin
from walferry.base.zk.client import connect, connected, disconnect, read
from walferry.base.zk.errors import ConnectError, LoginFailed, LoginRefused, known
from walferry.base.zk.fenced_lock import FencedLock

MAY = {
    "Kerberos": lambda at: (at.kerberized.quorum, at.kerberos(), "walferry"),
    "Kerberos, with a host in the principal": lambda at: (at.kerberized.quorum, at.kerberos(HBASE), "hbase"),
    "Kerberos in TLS": lambda at: (at.kerberized.tls_quorum, at.kerberos(tls=at.tls()), "walferry"),
    "password": lambda at: (at.with_passwords.quorum, at.password(), USER),
    "password in TLS, with a certificate": lambda at: (
        at.with_passwords.tls_quorum, at.password(tls=at.tls(certificate="client")), USER,
    ),
}  # fmt: skip


@contextmanager
def proxied(quorum: str) -> Iterator[tuple[TcpProxy, str]]:
    """Yield a proxy in front of a server, and the quorum through it, with the name that is in principal and certificate."""
    with TcpProxy(("127.0.0.1", int(quorum.rpartition(":")[2]))) as proxy:
        yield proxy, f"localhost:{proxy.port}"


def connected_as(zk: KazooClient, state: str) -> threading.Event:
    """An event for the client's next change to `state`."""
    seen = threading.Event()
    zk.add_listener(lambda now: bool(seen.set() or True) if now == state else None)
    return seen


@pytest.mark.parametrize("way", MAY)
def test_what_a_login_creates_is_its_own(secured: Secured, way: str) -> None:
    quorum, login, user = MAY[way](secured)
    value = bytes(range(256)) * 3000
    with connected(quorum, login=login) as zk:
        zk.create("/own", value)
        multi = zk.transaction()
        multi.create("/own/child")
        multi.commit()
        try:
            assert zk.get("/own")[0] == value
            for path in ("/own", "/own/child"):
                assert make_acl("sasl", user, all=True) in zk.get_acls(path)[0]
                assert not [entry for entry in zk.get_acls(path)[0] if entry.id.scheme == "world"]
        finally:
            zk.delete("/own", recursive=True)


def test_tls_alone_is_an_anonymous_session(secured: Secured) -> None:
    with connected(secured.kerberized.tls_quorum, login=Login(zookeeper=ZooKeeperLogin(tls=secured.tls()))) as zk:
        zk.create("/anonymous", ephemeral=True)
        assert zk.get_acls("/anonymous")[0] == [make_acl("world", "anyone", all=True)]


def test_many_answers_that_come_at_once_inside_tls_are_all_read(secured: Secured) -> None:
    with connected(secured.kerberized.tls_quorum, login=secured.kerberos(tls=secured.tls())) as zk:
        zk.create("/many", b"x" * 5000)
        try:
            assert [len(each.get()[0]) for each in [zk.get_async("/many") for _ in range(500)]] == [5000] * 500
        finally:
            zk.delete("/many")


def unsecured(server: ZooKeeperServer) -> str:
    return server.quorum.replace("127.0.0.1", "localhost")


def by_address(quorum: str) -> str:
    return quorum.replace("localhost", "127.0.0.1")


def with_missing_password(at: Secured) -> Login:
    login = at.password()
    return replace(login, zookeeper=replace(login.zookeeper, password_file="/no/such/file"))


STRANGERS = "strangers' authority"
MAY_NOT: dict[str, tuple[Callable[[Secured, Authority], tuple[str, Login]], str]] = {
    "a principal that its keytab does not have": (
        lambda at, _: (at.kerberized.quorum, at.kerberos("nobody@EXAMPLE.COM", keytab=str(at.kdcs.keytab(WALFERRY)))),
        "as nobody@EXAMPLE.COM (keytab … no ticket for nobody@EXAMPLE.COM: … holds no key of nobody@EXAMPLE.COM",
    ),
    "a keytab that is not there": (
        lambda at, _: (at.kerberized.quorum, at.kerberos(keytab="/no/keytab")),
        "keytab /no/keytab cannot be read: No such file or directory",
    ),
    "a credential cache without tickets": (
        lambda at, _: (
            at.kerberized.quorum,
            Login(kerberos=Kerberos(), zookeeper=ZooKeeperLogin(auth=ZooKeeperAuth.KERBEROS, server=SERVER)),
        ),
        "as the principal of the credential cache with ZooKeeper … No Kerberos credentials available (… get a ticket by kinit",
    ),
    "a server that the KDC does not know": (
        lambda at, _: (at.kerberized.quorum, at.kerberos(server="zookeeper/nowhere")),
        "no access to zookeeper/nowhere@EXAMPLE.COM: Server zookeeper/nowhere@EXAMPLE.COM not found in Kerberos database",
    ),
    "a server whose key is another one's": (
        lambda at, _: (at.kerberized.quorum, at.kerberos(server="zookeeper/other")),
        "the server refuses the login. Compare the server's principal, … by this connection (zk_server_principal), and",
    ),
    "a realm that no KDC serves": (
        lambda at, _: (at.kerberized.quorum, at.kerberos(server="zookeeper/localhost@ELSEWHERE")),
        "no access to zookeeper/localhost@ELSEWHERE: ",
    ),
    "an address where the principal needs a name": (
        lambda at, _: (by_address(at.kerberized.quorum), at.kerberos()),
        "the principal zookeeper/_HOST needs the server's host name, but the quorum has the address 127.0.0.1",
    ),
    "Kerberos where passwords are wanted": (
        lambda at, _: (at.with_passwords.quorum, at.kerberos()),
        "the server wants a password (DIGEST-MD5), not Kerberos. Give the connection zk_auth=digest",
    ),
    "a password where Kerberos is wanted": (
        lambda at, _: (at.kerberized.quorum, at.password()),
        "as user walferry (password in … the server refuses the login. Compare zk_user and zk_password_file",
    ),
    "a wrong password": (
        lambda at, _: (at.with_passwords.quorum, at.password(password="wrong")),
        "as user walferry (password in … the server refuses the login. Compare zk_user and zk_password_file",
    ),
    "an unknown user": (
        lambda at, _: (at.with_passwords.quorum, at.password("nobody", "wrong")),
        "as user nobody (password in … the server refuses the login",
    ),
    "a password file that is not there": (
        lambda at, _: (at.with_passwords.quorum, with_missing_password(at)),
        "the password file /no/such/file cannot be read: No such file or directory",
    ),
    "a certificate of an unknown authority": (
        lambda at, strangers: (
            at.kerberized.tls_quorum, Login(zookeeper=ZooKeeperLogin(tls=replace(at.tls(), ca=str(strangers.pem)))),
        ),
        "the certificate that the server shows is not accepted: self-signed certificate in certificate chain. It must be",
    ),
    "a certificate of another host": (
        lambda at, _: (by_address(at.kerberized.tls_quorum), Login(zookeeper=ZooKeeperLogin(tls=at.tls()))),
        "the certificate that the server shows is not accepted: IP address mismatch",
    ),
    "no certificate where one is demanded": (
        lambda at, _: (at.with_passwords.tls_quorum, at.password(tls=at.tls())),
        "the server has ended TLS: … It may demand a certificate of ours that its authorities have signed (zk_tls_certificate)",
    ),
    "a stranger's certificate": (
        lambda at, strangers: (at.with_passwords.tls_quorum, at.password(tls=at.tls(strangers, "client"))),
        "the server has ended TLS: … It may demand a certificate",
    ),
    "an expired certificate": (
        lambda at, _: (at.with_passwords.tls_quorum, at.password(tls=at.tls(certificate="expired"))),
        "the server has ended TLS: … It may demand a certificate",
    ),
    "a file that is not a certificate": (
        lambda at, _: (at.kerberized.tls_quorum, Login(zookeeper=ZooKeeperLogin(tls=replace(at.tls(), ca="/no/ca.pem")))),
        "/no/ca.pem: No such file or directory",
    ),
    "TLS at a port for plain text": (
        lambda at, _: (at.kerberized.quorum, at.kerberos(tls=at.tls())),
        "the server does not talk TLS (… Put the ensemble's TLS port (secureClientPort) into the quorum",
    ),
    "plain text at a port for TLS": (
        lambda at, _: (at.kerberized.tls_quorum, at.kerberos()),
        "the server talks TLS, which this login does not. Give the connection zk_tls_ca",
    ),
    "plain text without a login at a port for TLS": (
        lambda at, _: (at.kerberized.tls_quorum, UNSECURED),
        "no session with ZooKeeper of the source cluster: localhost:… the server talks TLS, which this login does not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("who", MAY_NOT)
def test_who_does_not_get_in_is_told_why_and_what_to_do(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    strangers = Authority(tmp_path / "strangers", STRANGERS)
    strangers.certificate("client")
    make, reported = MAY_NOT[who]
    quorum, login = make(secured, strangers)
    before = set(threading.enumerate())
    with pytest.raises(LoginFailed, match=".*".join(re.escape(part.strip(" ")) for part in reported.split("…"))) as refused:
        connect(quorum, timeout=200, login=login)
    assert str(refused.value).startswith("no session ")
    assert quorum in str(refused.value)
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("by", ["kerberos", "password"])
def test_a_server_that_does_without_logins_is_refused(secured: Secured, zookeeper: ZooKeeperServer, by: str) -> None:
    login = secured.kerberos() if by == "kerberos" else secured.password()
    with pytest.raises(LoginRefused, match="the server does not authenticate clients, so the session would be an anonymous one"):
        connect(unsecured(zookeeper), login=login)


def test_one_server_that_refuses_does_not_keep_from_the_others(secured: Secured) -> None:
    with connected(f"{secured.with_passwords.quorum},{secured.kerberized.quorum}", login=secured.kerberos()) as zk:
        assert read(zk, "/") is not None


def test_no_secret_is_in_what_is_told(secured: Secured) -> None:
    with pytest.raises(LoginFailed) as refused:
        connect(secured.with_passwords.quorum, login=secured.password(password="hunter2"))
    assert "hunter2" not in f"{refused.value!r} {refused.value.__cause__!r}"


@pytest.mark.parametrize("way", MAY)
def test_a_session_logs_in_again_on_each_new_connection(secured: Secured, way: str) -> None:
    quorum, login, user = MAY[way](secured)
    with proxied(quorum) as (proxy, through), connected(through, login=login) as zk:
        zk.create("/held", ephemeral=True)
        again = connected_as(zk, KazooState.CONNECTED)
        proxy.cut()
        proxy.mend()
        assert again.wait(60)
        zk.set("/held", b"still ours")
        assert [entry.id.id for entry in zk.get_acls("/held")[0] if entry.id.scheme == "sasl"] == [user]


def test_a_session_outlives_a_kdc_that_is_away_and_calls_say_why_they_fail(secured: Secured) -> None:
    with proxied(secured.kerberized.quorum) as (proxy, through):
        login = secured.kerberos()
        assert login.kerberos
        zk = connect(through, session_timeout=120, call_timeout=2, login=login)
        try:
            zk.create("/outliving", ephemeral=True)
            secured.kdcs.stop()
            credential_of(login.kerberos).forget()  # as if the tickets had run out
            try:
                proxy.cut()
                proxy.mend()
                with pytest.raises(LoginFailed, match=r"no session as walferry@EXAMPLE\.COM .* Cannot contact any KDC") as failed:
                    read(zk, "/outliving")
                assert failed.value.retry_helps
                again = connected_as(zk, KazooState.CONNECTED)
            finally:
                secured.kdcs.start()
            assert again.wait(60)
            assert read(zk, "/outliving") is not None
        finally:
            disconnect(zk)


@pytest.mark.slow
def test_a_server_that_gets_another_key_in_mid_session_gets_another_ticket(secured: Secured) -> None:
    with connected(secured.kerberized.quorum, login=secured.kerberos()) as zk:
        zk.create("/rekeyed", ephemeral=True)
        again = connected_as(zk, KazooState.CONNECTED)
        secured.kerberized.stop()
        secured.kdcs.change_key(SERVER)
        secured.kerberized.start()
        assert again.wait(60)
        assert read(zk, "/rekeyed") is not None


def test_an_ensemble_that_demands_a_login_does_nothing_without_one(secured: Secured) -> None:
    with connected(secured.with_passwords.quorum) as zk:
        with pytest.raises(SessionClosedRequireSaslError) as refused:
            read(zk, "/")
        assert "The ensemble demands a login that it knows: give the connection one (zk_auth)" in str(known(refused.value))


def test_a_ticket_that_has_expired_is_told_and_a_new_one_serves(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "tickets"
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    login = secured.kerberos()
    login = replace(login, kerberos=Kerberos(principal=WALFERRY))

    def session() -> None:
        with connected(secured.kerberized.quorum, login=login) as zk:
            assert read(zk, "/") is not None

    with monkeypatch.context() as kinit:  # the library puts a ticket into the cache, as kinit does
        kinit.setenv("KRB5_CLIENT_KTNAME", str(secured.kdcs.keytab(WALFERRY)))
        session()
    session()
    let_expire(cache)
    with pytest.raises(LoginFailed, match=r"as walferry@EXAMPLE\.COM .*: Ticket expired\. Give the .* get a ticket by kinit"):
        session()


def let_expire(cache: Path) -> None:
    """Let the tickets in a file of MIT's have ended an hour ago. Their times stand there as big-endian seconds."""
    now, content = int(time.time()), bytearray(cache.read_bytes())
    for position in range(len(content) - 12):
        begun, _, end = struct.unpack_from(">3I", content, position)
        if now - 600 <= begun <= now + 1 and end > now + 3600:
            struct.pack_into(">I", content, position + 8, now - 3600)
    cache.write_bytes(content)


def test_a_right_that_is_lost_with_the_login_says_why(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    login = secured.password()
    login = replace(login, zookeeper=replace(login.zookeeper, password_file=str(file)))
    with proxied(secured.with_passwords.quorum) as (proxy, through), connected(through, login=login) as zk:
        lock = FencedLock(zk, "/right", lambda *_: WalferryError("held"), WalferryError)
        lock.acquire("a run")
        file.unlink()
        proxy.cut()
        proxy.mend()
        assert lock.lost.wait(60)
        with pytest.raises(WalferryError, match=r"session ended, because there is no session as user .* cannot be read"):
            lock.write(lambda multi: multi.create("/right/written"))


def test_an_anonymous_session_finds_what_is_protected_closed(secured: Secured) -> None:
    with connected(secured.kerberized.quorum, login=secured.kerberos()) as owner:
        owner.create("/closed", b"secret", acl=[make_acl("sasl", "walferry", all=True)], ephemeral=True)
        with connected(secured.kerberized.quorum) as zk, pytest.raises(NoAuthError):
            zk.get("/closed")


def test_an_ensemble_that_is_away_is_told_of_as_before(secured: Secured) -> None:
    with pytest.raises(ConnectError, match=r"nothing listens on localhost:1 \(connection refused\)") as away:
        connect("localhost:1", login=secured.kerberos(tls=secured.tls()))
    assert not isinstance(away.value, LoginFailed)
