"""Speaks TLS without I/O: bytes in, bytes out (ssl.SSLObject). It always checks a server's certificate and its host name."""

from __future__ import annotations

import functools
import os
import socket
import ssl
from collections.abc import Iterator, Sequence

from walferry.base.errors import WalferryError
from walferry.base.security.login import Tls, password_in
from walferry.base.security.pieces import Buffer, pieces
from walferry.base.security.waiting import ANY, Steps
from walferry.base.texts import one_line

ENCRYPTED_AT_ONCE = 1 << 20
DECRYPTED_AT_ONCE = 1 << 18
MAX_REASON_CHARS = 300


class TlsError(WalferryError):
    """TLS with a server is not possible; the message says why."""


class TlsSettingsError(TlsError):
    """A file that a login names is unusable; the message names it."""

    retry_helps = False


class TlsClient:
    """The client's side of one TLS connection to `host`. Call `handshake` first. Raises TlsError, TlsSettingsError."""

    def __init__(self, tls: Tls, host: str) -> None:
        self._host = host
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            self._object = context_of(tls).wrap_bio(self._in, self._out, server_hostname=host)
        except (ValueError, TypeError) as error:
            raise TlsError(f"no certificate can be for {one_line(repr(host), MAX_REASON_CHARS)}: {words_of(error)}") from error

    def handshake(self) -> Steps[None]:
        """Begin the connection. Raises TlsError."""
        while True:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                if out := self._out.read():
                    yield out
                came = yield ANY
                if not came:
                    raise TlsError(
                        f"{self._host} ended the connection in the TLS handshake",
                        "Its log says why. It may serve no TLS there, or demand a certificate of ours (tls_certificate)",
                    ) from None
                self._in.write(came)
            except (ssl.SSLError, ValueError) as error:
                raise _explained(self._host, error) from error
            else:
                if last := self._out.read():
                    yield last
                return

    @property
    def version(self) -> str:
        """The agreed protocol, e.g. "TLSv1.3"."""
        return self._object.version() or "TLS"

    @property
    def certificate(self) -> bytes:
        """The server's certificate, DER."""
        return self._object.getpeercert(binary_form=True) or b""

    def outgoing(self, buffers: Sequence[Buffer]) -> Iterator[bytes]:
        """Yield the encrypted bytes of `buffers`, piece by piece."""
        for piece in pieces(buffers, ENCRYPTED_AT_ONCE):
            self._object.write(piece)
            yield self._out.read()

    def incoming(self, data: Buffer) -> bytes:
        """Return the bytes that `data` decrypts to, often none. Raises TlsError."""
        self._in.write(data)
        found = []
        try:
            while piece := self._object.read(DECRYPTED_AT_ONCE):
                found.append(piece)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass  # after the latter, the end of the connection follows
        except ssl.SSLError as error:  # e.g. a refusal of our certificate, which TLS 1.3 reports after the handshake
            raise _explained(self._host, error) from error
        return b"".join(found)


def context_of(tls: Tls) -> ssl.SSLContext:
    """Return a login's settings with its files' present contents: certificates change while jobs run. Raises TlsSettingsError."""
    paths = [path for path in (tls.ca, tls.certificate, tls.key, tls.key_password_file) if path is not None]
    try:
        return _context(tls, tuple(_state(path) for path in paths))
    except OSError as error:
        problem = f"{error.filename or ' or '.join(paths)}: {error.strerror} (on {socket.gethostname()})"
        raise TlsSettingsError(problem, "The connection names this file for TLS") from error


def _state(path: str) -> tuple[int, int]:
    """Return a value that changes with the file. Raises OSError with the file's name if it is unreadable, unlike OpenSSL."""
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
    return found.st_mtime_ns, found.st_ino


@functools.lru_cache(maxsize=64)
def _context(tls: Tls, _: tuple[tuple[int, int], ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # this checks certificate and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cafile=tls.ca)
    except ssl.SSLError as error:
        raise TlsSettingsError(f"{tls.ca} holds no certificates in PEM that can be read: {words_of(error)}") from error
    if tls.certificate is not None:
        # Without a password, OpenSSL would ask for one at the terminal, so give it an empty one.
        password = _password(tls.key_password_file) if tls.key_password_file else b""
        try:
            context.load_cert_chain(tls.certificate, tls.key, password)
        except (ssl.SSLError, ValueError) as error:
            files = f"{tls.certificate} and {tls.key}" if tls.key else tls.certificate
            raise TlsSettingsError(
                f"{files} hold no certificate with its private key in PEM that can be read: {words_of(error)}",
                "The key must belong to the certificate, and tls_key_password_file must hold its password if it has one",
            ) from error
    return context


def _password(path: str) -> bytes:
    try:
        return password_in(path)
    except ValueError as error:
        raise TlsSettingsError(str(error)) from error


def _explained(host: str, error: Exception) -> TlsError:
    words = words_of(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsError(
            f"the certificate that {host} shows is not accepted: {one_line(error.verify_message, MAX_REASON_CHARS)}",
            "It must be signed by an authority in tls_ca, be valid now, and be for that host name",
        )
    if "WRONG_VERSION_NUMBER" in words or "RECORD_LAYER_FAILURE" in words:
        advice = "See whether TLS is on at the cluster (hbase.server.netty.tls.enabled)"
        return TlsError(f"{host} does not speak TLS there", advice)
    if "ALERT" in words:
        return TlsError(
            f"{host} ended TLS: {words}",
            "It may demand a certificate of ours that its authorities have signed (tls_certificate, tls_key)",
        )
    return TlsError(f"TLS with {host} failed: {words}")


def words_of(error: Exception) -> str:
    """Return the reason that OpenSSL gives for an error, or the error's text."""
    return one_line(str(getattr(error, "reason", None) or error), MAX_REASON_CHARS)
