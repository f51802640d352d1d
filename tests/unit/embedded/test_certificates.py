"""The certificates of tests and demo are accepted and refused as their names say."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from embedded.certificates import EXPIRED, VALID, Authority, Certificate


def handshake(authority: Authority, server: Certificate, host: str) -> None:
    """One TLS handshake in memory, in which the client checks the server. Raises ssl.SSLError."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server.certificate, server.encrypted_key, server.password)
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.load_verify_locations(authority.pem)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(down, up, server_hostname=host)
    other = serving.wrap_bio(up, down, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (client, other):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass


def test_a_certificate_is_for_its_hosts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.certificate("server", "localhost", "127.0.0.1")
    handshake(authority, server, "localhost")
    handshake(authority, server, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(authority, server, "example.org")


@pytest.mark.parametrize(
    ("valid", "own", "why"),
    [(EXPIRED, True, "has expired"), (VALID, False, "unable to get local issuer|self-signed certificate in certificate chain")],
    ids=["expired", "a stranger's"],
)
def test_an_expired_certificate_and_a_stranger_s_are_refused(tmp_path: Path, valid: tuple, own: bool, why: str) -> None:
    authority, other = Authority(tmp_path / "one", "one"), Authority(tmp_path / "other", "other")
    server = (authority if own else other).certificate("server", "localhost", valid=valid)
    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        handshake(authority, server, "localhost")


def test_nobody_else_can_read_keys_and_passwords(tmp_path: Path) -> None:
    made = Authority(tmp_path).certificate("server", "localhost")
    for path in (made.key, made.encrypted_key, made.keystore, made.password_file, tmp_path / "ca.password"):
        assert path.stat().st_mode & 0o077 == 0
    assert made.password_file.read_text() == made.password
