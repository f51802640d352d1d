"""Logs a session in to ZooKeeper, and reports why that fails.

ZooKeeper's SASL does not negotiate mechanisms: the server's JAAS file decides, and the client has to know. The server answers a
token with a token, or with nothing at the end (ZooKeeperServer.processSasl). A server without SASL answers the first token with
nothing, and treats the session as an anonymous one. This client refuses that.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from functools import partial

from walferry.base.errors import WalferryError
from walferry.base.security.digest import DigestClient
from walferry.base.security.gssapi import Context, Credential, KdcSilent, check_host, credential_of
from walferry.base.security.login import HOST, Login, Protection, ZooKeeperAuth, password_in
from walferry.base.security.sasl import GssapiClient
from walferry.base.security.waiting import within
from walferry.base.zk.errors import LoginFailed, LoginRefused

KDC_SECONDS = 10.0  # the Kerberos libraries wait for each KDC of a realm, one after the other
DIGEST_URI = "zookeeper/zk-sasl-md5"  # all ZooKeeper servers use this one (SecurityUtils.java)

Exchange = Callable[[bytes], bytes | None]  # sends a token, and returns the server's


def _by_kerberos(credential: Credential, server: str, exchange: Exchange) -> None:
    def in_time(step: Callable[[], bytes]) -> bytes:
        try:
            return within(KDC_SECONDS, step, f"{credential} in {server.rpartition('@')[2]}")
        except TimeoutError as error:
            raise KdcSilent(credential, server) from error

    client = GssapiClient(Context(credential, server), server, Protection.AUTHENTICATION)
    token = in_time(client.first)
    while client.protection is None:
        answer = _something(exchange(token))
        if b"nonce=" in answer:
            raise LoginRefused(
                "the server wants a password (DIGEST-MD5), not Kerberos",
                "Give the connection zk_auth=digest, or the server a section Server for Kerberos in its JAAS file",
            )
        token = in_time(partial(client.answer, answer))
    if client.protection is not Protection.AUTHENTICATION:
        raise LoginRefused(f"{server} wants to wrap each message, which ZooKeeper's protocol does not know")
    exchange(token)  # the server may answer with nothing now


def _by_password(user: str, password: bytes, exchange: Exchange) -> None:
    client, token = DigestClient(user, password, DIGEST_URI), b""
    while not client.proved:
        token = client.answer(_something(exchange(token)))


def _something(answer: bytes | None) -> bytes:
    """Return the server's answer. Raises LoginRefused if it is nothing."""
    if answer is None:
        raise LoginRefused(
            "the server does not authenticate clients, so the session would be an anonymous one",
            "Give the server SASL (a section Server in its JAAS file), or the connection zk_auth=none",
        )
    return answer


def identity_of(login: Login) -> str | None:
    """Return the identity that a login proves; None if the login is anonymous."""
    at, kerberos = login.zookeeper, login.kerberos
    if at.auth is ZooKeeperAuth.NONE:
        return None
    if at.auth is ZooKeeperAuth.DIGEST:
        return f"user {at.user} (password in {at.password_file})"
    if kerberos is None or not kerberos.principal:
        return "the principal of the credential cache"
    return f"{kerberos.principal} (keytab {kerberos.keytab})" if kerberos.keytab else kerberos.principal


def prove(login: Login, host: str, exchange: Exchange) -> None:
    """Prove our identity to the server on `host`. This reads keytab or password again for each connection.

    Raises KerberosError, DigestError, LoginFailed, and the errors of `exchange`.
    """
    at, kerberos = login.zookeeper, login.kerberos
    if at.auth is ZooKeeperAuth.DIGEST:
        if not at.user or not at.password_file:
            raise LoginRefused("a login by a password needs a user and a password file")
        _by_password(at.user, password_of(at.password_file), exchange)
        return
    if kerberos is None:
        raise LoginRefused("a login by Kerberos needs a principal with its keytab, or a credential cache")
    check_host(kerberos, host)
    if HOST in at.server and _is_address(host):
        raise LoginRefused(
            f"the principal {at.server} needs the server's host name, but the quorum has the address {host}",
            "Put the host names of the servers' principals into the quorum",
        )
    _by_kerberos(credential_of(kerberos), server_principal(login, host), exchange)


def forget_tickets(login: Login) -> None:
    """Do not use the present tickets next time: the server may have a new key by now."""
    if login.kerberos is not None and login.zookeeper.auth is ZooKeeperAuth.KERBEROS:
        credential_of(login.kerberos).distrust()


def server_principal(login: Login, host: str) -> str:
    """Return the principal that ZooKeeper's server on `host` must have. A pattern without a realm means our own realm."""
    server = login.zookeeper.server.replace(HOST, host.lower())
    realm = login.kerberos.realm if login.kerberos else None
    return f"{server}@{realm}" if "@" not in server and realm else server


def password_of(path: str) -> bytes:
    """Return the password in a file. Raises LoginRefused."""
    try:
        password = password_in(path)
    except OSError as error:
        raise LoginRefused(
            f"the password file {path} cannot be read: {error.strerror} (on {socket.gethostname()})",
            "It must be on each machine that talks to the cluster, readable by the user that runs this",
        ) from error
    except ValueError as error:
        raise LoginRefused(f"the password file {error}") from error
    if not password:
        raise LoginRefused(f"the password file {path} is empty")
    return password


class Refusals:
    """The refusals of a login by an ensemble's servers since one last accepted it, and whether another try has any hope.

    Each server is tried twice: it may have ended the connection for another reason, or have a new key by now. One name may belong
    to several servers, which differ by their addresses.
    """

    TRIES = 2

    def __init__(self, whose: str, login: Login) -> None:
        self._whose = whose
        self._as = f" as {identity}" if (identity := identity_of(login)) else ""
        self._tries: dict[tuple[str, int], dict[str, int]] = {}  # by address
        self._errors: dict[tuple[str, int], WalferryError] = {}
        self._unreached: set[tuple[tuple[str, int], str]] = set()

    def __bool__(self) -> bool:
        return bool(self._errors)

    def clear(self) -> None:
        """Forget the refusals, because a server has accepted the login."""
        self._tries.clear()
        self._errors.clear()
        self._unreached.clear()

    def add(self, server: tuple[str, int], error: WalferryError, address: str = "", *, tries: int = 1) -> None:
        """Note a failed login. `tries` is TRIES if another try makes no sense. Without `address`, the name has one server."""
        found = self._tries.setdefault(server, {})
        found[address] = found.get(address, 0) + tries
        self._unreached.discard((server, address))  # the server is reachable again
        self._errors[server] = error

    def unreached(self, server: tuple[str, int], address: str) -> None:
        """Note an unreachable address: once the name's other servers have refused, this one is not waited for."""
        self._unreached.add((server, address))

    def hopeless(self, servers: list[tuple[str, int]]) -> bool:
        """Return whether every server has refused the login for good."""
        return all(self._is_hopeless((host.strip(), port)) for host, port in servers)

    def _is_hopeless(self, server: tuple[str, int]) -> bool:
        tries = self._tries.get(server, {})
        if server not in self._errors:
            return False
        every = tries if len(tries) == 1 and "" in tries else {*tries, *_addresses(*server)}
        return all((server, address) in self._unreached or tries.get(address, 0) >= self.TRIES for address in every)

    def error(self) -> LoginFailed:
        """Return all refusals in one error."""
        reported: dict[str, str] = {}
        errors = dict(self._errors)  # the client's thread may add an error
        for (host, port), error in errors.items():
            problem = str(error).removesuffix(f". {error.advice}") if error.advice else str(error)
            reported.setdefault(problem, f"{host}:{port}")
        text = "; ".join(f"{server}: {problem}" for problem, server in reported.items())
        kind = LoginFailed if any(error.retry_helps for error in errors.values()) else LoginRefused
        advice = ". ".join(dict.fromkeys(error.advice for error in errors.values() if error.advice))
        return kind(f"no session{self._as} with ZooKeeper of {self._whose}: {text}", advice)


def _addresses(host: str, port: int) -> set[str]:
    try:
        return {str(address[0]) for *_, address in socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)}
    except (OSError, UnicodeError):
        return set()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
