"""TLS without I/O, against OpenSSL's server side: which servers it accepts, and its errors for others."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.certificates import EXPIRED, Authority, Certificate
from walferry.base.errors import WalferryError
from walferry.base.security.login import Tls
from walferry.base.security.tls import TlsClient, TlsError, TlsSettingsError, context_of
from walferry.base.security.waiting import ANY

HOST = "rs1.example.org"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.certificate("server", HOST)


class ServerSide:
    """A TLS server in memory. `client_authority`: it demands certificates that this one has signed."""

    def __init__(self, certificate: Certificate, client_authority: Authority | None = None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certificate, certificate.key)
        if client_authority:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_authority.pem)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._done = False

    def __call__(self, data: bytes) -> bytes:
        """The bytes that the server says to `data`: its part of the handshake, or an echo."""
        self._in.write(data)
        try:
            if not self._done:
                self.tls.do_handshake()
                self._done = True
            while True:
                self.tls.write(self.tls.read(1 << 16))
        except ssl.SSLError:  # it wants more, or its alert is on the way
            pass
        return self._out.read()


def shake_hands(tls: Tls, server: Callable[[bytes], bytes], host: str = HOST) -> TlsClient:
    client = TlsClient(tls, host)
    handshake, out = client.handshake(), b""
    try:
        wanted = next(handshake)
        while True:
            if wanted == ANY:
                said, out = out, b""
                wanted = handshake.send(server(said))
            else:
                out += wanted
                wanted = handshake.send(b"")
    except StopIteration:
        client.incoming(server(out))
    return client


def reported(tls: Tls, server: Callable[[bytes], bytes], host: str = HOST) -> str:
    with pytest.raises(TlsError) as caught:
        shake_hands(tls, server, host)
    return str(caught.value)


def test_what_goes_through_arrives(authority, certificate):
    server = ServerSide(certificate)
    client = shake_hands(Tls(ca=str(authority.pem)), server)
    data = os.urandom(3 << 20)
    found = b"".join(client.incoming(server(piece)) for piece in client.outgoing([data, b"", b"the end"]))
    assert found == data + b"the end"
    assert client.version == "TLSv1.3"
    assert client.certificate == ssl.PEM_cert_to_DER_cert(
        certificate.certificate.read_text().split("-----END")[0] + "-----END CERTIFICATE-----\n"
    )


def test_a_certificate_of_another_host_is_refused(authority, certificate):
    assert "not valid for 'rs2.example.org'" in reported(Tls(ca=str(authority.pem)), ServerSide(certificate), "rs2.example.org")


def test_a_certificate_that_nobody_vouches_for_is_refused(authority, certificate, tmp_path):
    why = reported(Tls(ca=str(Authority(tmp_path).pem)), ServerSide(certificate))
    assert "the certificate that rs1.example.org shows is not accepted" in why
    assert "signed by an authority in tls_ca" in why


def test_an_expired_certificate_is_refused(authority):
    expired = authority.certificate("expired", HOST, valid=EXPIRED)
    assert "certificate has expired" in reported(Tls(ca=str(authority.pem)), ServerSide(expired))


def test_a_server_without_tls_is_not_talked_to_in_plain_text(authority):
    why = reported(Tls(ca=str(authority.pem)), lambda data: b"\0\0\0\x0a plain text")
    assert why.startswith("rs1.example.org does not speak TLS there")
    assert "hbase.server.netty.tls.enabled" in why


def test_a_server_that_hangs_up_may_serve_no_tls(authority):
    assert "ended the connection in the TLS handshake" in reported(Tls(ca=str(authority.pem)), lambda data: b"")


def test_a_server_that_demands_a_certificate_says_so(authority, certificate):
    why = reported(Tls(ca=str(authority.pem)), ServerSide(certificate, authority))
    assert "rs1.example.org ended TLS" in why
    assert "tls_certificate" in why


@pytest.mark.parametrize("with_password", [False, True])
def test_our_own_certificate_is_shown(authority, certificate, with_password):
    own = authority.certificate("with-password" if with_password else "without", "client.example.org")
    tls = Tls(
        ca=str(authority.pem),
        certificate=str(own.certificate),
        key=str(own.encrypted_key if with_password else own.key),
        key_password_file=str(own.password_file) if with_password else None,
    )
    server = ServerSide(certificate, authority)
    shake_hands(tls, server)
    assert server.tls.getpeercert()["subjectAltName"] == (("DNS", "client.example.org"),)


def test_our_certificate_of_a_stranger_is_refused_by_the_server(authority, certificate, tmp_path):
    own = Authority(tmp_path).certificate("client", "client.example.org")
    tls = Tls(ca=str(authority.pem), certificate=str(own.certificate), key=str(own.key))
    assert "rs1.example.org ended TLS" in reported(tls, ServerSide(certificate, authority))


def test_files_are_read_anew_once_they_have_changed(authority, certificate, tmp_path):
    """Authorities rotate while jobs run."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(Authority(tmp_path / "old").pem.read_bytes())
    tls = Tls(ca=str(ca))
    reported(tls, ServerSide(certificate))
    new = tmp_path / "new.pem"
    new.write_bytes(authority.pem.read_bytes())
    new.replace(ca)
    shake_hands(tls, ServerSide(certificate))


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> Tls:
    own = authority.certificate("files", "client.example.org")
    return Tls(
        ca=str(authority.pem),
        certificate=str(own.certificate),
        key=str(own.encrypted_key),
        key_password_file=str(own.password_file),
    )


@pytest.mark.parametrize("name", ["ca", "certificate", "key", "key_password_file"])
def test_a_file_that_is_not_there_is_named(files, name):
    with pytest.raises(TlsSettingsError, match="/no/such: No such file or directory") as caught:
        context_of(replace(files, **{name: "/no/such"}))
    assert not caught.value.retry_helps


@pytest.mark.parametrize("name", ["ca", "certificate", "key", "key_password_file"])
def test_a_file_that_cannot_be_read_is_named(files, name, tmp_path):
    with pytest.raises(TlsSettingsError, match=f"^{tmp_path}: Is a directory"):
        context_of(replace(files, **{name: str(tmp_path)}))


@pytest.mark.parametrize("host", ["", ".example.org", "a\0b", "a" * 300])
def test_a_host_that_no_certificate_can_be_for_is_told(authority, host):
    with pytest.raises(TlsError, match="no certificate can be for '"):
        TlsClient(Tls(ca=str(authority.pem)), host)


@pytest.mark.parametrize("name", ["ca", "certificate", "key"])
def test_a_file_that_holds_something_else_is_named(files, name, tmp_path):
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("not PEM")
    with pytest.raises(TlsSettingsError, match=r"wrong\.pem"):
        context_of(replace(files, **{name: str(wrong)}))


def test_a_wrong_password_and_a_missing_one_are_told_without_asking_at_the_terminal(files, tmp_path):
    wrong = tmp_path / "password"
    wrong.write_text("wrong")
    for password in (str(wrong), None):
        with pytest.raises(TlsSettingsError, match="hold no certificate with its private key") as caught:
            context_of(replace(files, key_password_file=password))
        assert "wrong" not in str(caught.value)


def test_a_password_file_without_end_is_no_password(files):
    with pytest.raises(WalferryError, match="/dev/zero holds more than 1024 bytes"):
        context_of(replace(files, key_password_file="/dev/zero"))
