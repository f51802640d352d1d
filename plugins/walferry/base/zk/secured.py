"""Adds TLS, logins and bounds for answers to kazoo's client. A session counts as connected only once it has logged in.

kazoo itself has both, but it reports a session as connected before its login, goes on with the next server for ever after a
refused certificate, accepts each authority that the machine knows, and does not report why a login failed.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, MarshallingError
from kazoo.protocol.connection import ConnectionDropped
from kazoo.protocol.serialization import SASL, int_struct
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL

from walferry.base.errors import WalferryError
from walferry.base.security.digest import DigestError
from walferry.base.security.gssapi import KerberosError, NoKey
from walferry.base.security.login import Login, Tls, ZooKeeperAuth
from walferry.base.security.tls import MAX_REASON_CHARS, TlsError, TlsSettingsError, context_of, words_of
from walferry.base.texts import one_line
from walferry.base.zk.errors import LoginFailed, LoginRefused
from walferry.base.zk.login import Refusals, forget_tickets, prove, server_principal
from walferry.base.zk.session_time import listen

MAX_SKIPPED_BYTES = 512 << 20  # of an answer that is read to its end but dropped, so that the connection stays usable
SKIP_BYTES = 1 << 20  # bytes of a dropped answer that are read at once
REPLY_HEADER = struct.Struct(">iqi")  # xid, zxid, error
_CONNECTED = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)
_ENDED = (KeeperState.AUTH_FAILED, KeeperState.CLOSED)
_TALKS_TLS = LoginRefused(
    "the server talks TLS, which this login does not",
    "Give the connection zk_tls_ca, or put the ensemble's port for plain text (clientPort) into the quorum",
)


class SecuredClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """kazoo's client with a login. `settled` is set once the client has a session, or has given up.

    Only the client itself owns the znodes that it creates with a login, unless `default_acl` or a request says otherwise.
    """

    def __init__(self, login: Login, whose: str, **options: Any) -> None:
        self.login = login
        self.settled = threading.Event()
        self._refusals = Refusals(whose, login)
        self._anonymous = login.zookeeper.auth is ZooKeeperAuth.NONE
        self._proved = False
        self._had_session = False
        self._reached = KeeperState.CONNECTED
        self._server, self._address = ("", 0), ""  # of the present connection
        secure = {} if self._anonymous else {"sasl_options": {}, "default_acl": CREATOR_ALL_ACL}
        super().__init__(**secure, **options)
        self.heard = listen(self._connection)
        self._connection._authenticate_with_sasl = self._log_in
        self.handler.encrypted = self._encrypted
        self.handler.unreached = self._refusals.unreached

    @property
    def refusal(self) -> LoginFailed | None:
        """Why this client has no session, if a login failed since its last session."""
        return self._refusals.error() if self._refusals else None

    @property
    def over(self) -> bool:
        """Whether this client has given up for good, because no server accepts its login."""
        return self.settled.is_set() and self._state in _ENDED

    def wants_tls(self, seconds: float) -> bool:
        """Return whether a server uses TLS and this login does not. Such a server ends the connection without an error."""
        if self.login.zookeeper.tls is not None:
            return False
        for server in self.hosts:
            if _talks_tls(server, seconds):
                self._refusals.add(server, _TALKS_TLS, tries=Refusals.TRIES)
        return bool(self._refusals)

    def tls_ended(self, error: ssl.SSLError) -> None:
        """Report TLS that failed after its handshake: with TLS 1.3, a server refuses a client's certificate then."""
        if not self.connected and "ALERT" in (error.reason or ""):
            raise self._refused(tls_error(error)) from error

    def _encrypted(self, sock: socket.socket, host: str, address: tuple[str, int]) -> socket.socket:
        """Return the new connection, inside TLS if the login demands it."""
        self._server, self._address = (host, address[1]), address[0]
        tls = self.login.zookeeper.tls
        if tls is None:
            return sock
        try:
            return _handshaken(sock, tls, host)
        except TlsSettingsError as error:
            sock.close()
            raise self._refused(error, for_good=True) from error
        except (ssl.SSLError, OSError, ValueError) as error:
            sock.close()
            raise self._refused(tls_error(error)) from error

    def _refused(self, error: WalferryError, *, for_good: bool = False) -> Exception:
        """Note a failed login. Returns the exception that makes kazoo go on to the next server, or give up."""
        tries = Refusals.TRIES if for_good or not error.retry_helps else 1
        if self._had_session and (error.retry_helps or isinstance(error, NoKey)):
            # Keep the session as long as the ensemble does: a KDC may be back soon, or a keytab is just being replaced.
            tries = 0
        self._refusals.add(self._server, error, self._address, tries=tries)
        kind = AuthFailedError if self._refusals.hopeless(self.hosts) else ConnectionDropped
        refused: Exception = kind("the server does not take this login")
        return refused

    def _session_callback(self, state: str) -> None:
        if state in _CONNECTED:
            if not self._anonymous and not self._proved:
                self._reached = state  # kazoo calls _log_in next
                return
            self._refusals.clear()
            self._had_session = True
        super()._session_callback(state)
        if state in (*_CONNECTED, *_ENDED):
            self.settled.set()

    def _log_in(self, host: str, timeout: float) -> None:
        """Log in on the new connection to `host`. This replaces kazoo's own login."""
        if self._anonymous:
            raise RuntimeError("kazoo logs an anonymous client in")
        xid = 0

        def exchange(token: bytes) -> bytes | None:
            nonlocal xid
            xid += 1
            return self._exchange(token, xid, timeout, _advice(self.login, host))

        try:
            prove(self.login, host, exchange)
        except (KerberosError, DigestError, LoginRefused) as error:
            raise self._refused(error, for_good=True) from error
        except LoginFailed as error:
            forget_tickets(self.login)
            raise self._refused(error) from error
        self._proved = True
        try:
            self._session_callback(self._reached)
        finally:
            self._proved = False

    def _exchange(self, token: bytes, xid: int, timeout: float, advice: str) -> bytes | None:
        connection = self._connection
        request = int_struct.pack(xid) + int_struct.pack(SASL.type) + bytes(SASL(token).serialize())
        connection._write(int_struct.pack(len(request)) + request, timeout)
        try:
            header, answer, offset = connection._read_header(timeout)
            if header.xid != xid:
                raise LoginFailed("the server answers another request than the login's")
            if header.err:
                kind = LoginRefused if self.login.zookeeper.user else LoginFailed  # a key may come soon, but a password is wrong
                raise kind("the server refuses the login", advice)
            found: bytes | None = SASL.deserialize(answer, offset)[0]
        except ConnectionDropped as error:  # servers before 3.5 hang up on a login that they refuse
            raise LoginFailed("the server has ended the connection during the login", advice) from error
        except struct.error as error:
            raise LoginFailed("the server's answer to the login cannot be read", "Find out what listens there") from error
        return found


def bound_answers(zk: SecuredClient, most_bytes: int) -> None:
    """Drop a server that announces an impossibly long answer, and skip one that is only too long. kazoo collects up to 2 GiB."""
    read = zk._connection._read
    zk.handler.most_bytes = most_bytes

    def skipped(length: int, timeout: float) -> bytes:
        """Read and drop an answer; return its header, with an error in place of the rest."""
        xid, zxid, error = REPLY_HEADER.unpack(read(REPLY_HEADER.size, timeout))
        left = length - REPLY_HEADER.size
        while left:
            left -= len(read(min(left, SKIP_BYTES), timeout))
        return REPLY_HEADER.pack(xid, zxid, error or MarshallingError.code)

    def bounded(length: int, timeout: float) -> Any:
        if not 0 <= length <= (MAX_SKIPPED_BYTES if zk.connected else most_bytes):
            zk.handler.no_zookeeper |= not zk.connected
            raise ConnectionDropped(f"an answer of {length} bytes; at most {most_bytes} are accepted")
        try:
            return read(length, timeout) if length <= most_bytes else skipped(length, timeout)
        except ConnectionDropped as dropped:
            zk.handler.dropped |= not zk.connected
            if isinstance(dropped.__context__, ssl.SSLError):
                zk.tls_ended(dropped.__context__)
            raise

    zk._connection._read = bounded


def drop_unreadable(zk: SecuredClient) -> None:
    """Drop a server whose answer cannot be parsed: such an answer would end kazoo's thread, and so the client for good."""
    read = zk._connection._read_socket

    def dropping(timeout: float) -> Any:
        try:
            return read(timeout)
        except (struct.error, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConnectionDropped(f"an answer that cannot be read: {error!r}") from error

    zk._connection._read_socket = dropping


def _advice(login: Login, host: str) -> str:
    if login.zookeeper.user:
        return "Compare zk_user and zk_password_file with the section Server of the servers' JAAS file. Their log says more"
    return (
        f"Compare the server's principal, {server_principal(login, host)} by this connection (zk_server_principal), and its "
        "keytab with the ones in its JAAS file. Its log says more"
    )


def _handshaken(sock: socket.socket, tls: Tls, host: str) -> ssl.SSLSocket:
    secure = context_of(tls).wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    try:
        secure.do_handshake()
    except BaseException:
        secure.close()
        raise
    return secure


def tls_error(error: Exception) -> TlsError | LoginRefused:
    """Return the reason why TLS has failed, in the handshake or at the first read."""
    words = words_of(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return LoginRefused(
            f"the certificate that the server shows is not accepted: {one_line(error.verify_message, MAX_REASON_CHARS)}",
            "It must be signed by an authority in zk_tls_ca, be valid now, and be for the host name in the quorum",
        )
    if "ALERT" in words:
        return LoginRefused(
            f"the server has ended TLS: {words}",
            "It may demand a certificate of ours that its authorities have signed (zk_tls_certificate)",
        )
    return TlsError(
        f"the server does not talk TLS ({words})",
        "Put the ensemble's TLS port (secureClientPort) into the quorum, or leave zk_tls_ca out of the connection",
    )


def _talks_tls(server: tuple[str, int], seconds: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent to the server, nor believed
    try:
        with socket.create_connection(server, seconds) as sock, context.wrap_socket(sock):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
