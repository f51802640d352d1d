"""Makes an authority, and certificates that it signs for servers and clients, in the formats that Python and Java read.

authority = Authority(folder / "ca")
server = authority.certificate("server", "localhost")
authority.pem, authority.truststore, server.certificate, server.key, server.keystore, server.password
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat, pkcs12
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
VALID = (-DAY, 30 * DAY)  # relative to now
EXPIRED = (-30 * DAY, -DAY)


@dataclass(frozen=True)
class Certificate:
    """A certificate with its private key, as files. The key stores have one password, which `password_file` also contains."""

    certificate: Path  # PEM, followed by the authority's certificate
    key: Path  # PEM, PKCS#8, not encrypted
    encrypted_key: Path  # the same key, encrypted by the password
    keystore: Path  # PKCS#12: the key and the chain
    password: str
    password_file: Path


class Authority:
    """An authority with a key of its own. Its files lie under `folder`."""

    def __init__(self, folder: Path, name: str = "Test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        key_usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key(), VALID)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(key_usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = folder / "ca.pem"
        self.pem.write_bytes(self._certificate.public_bytes(Encoding.PEM))
        self.password = secrets.token_hex(16)
        self.truststore = folder / "ca.p12"  # PKCS#12 with only the authority's certificate, marked as in Java's key stores
        trusted = pkcs12.serialize_java_truststore(
            [PKCS12Certificate(self._certificate, b"ca")], BestAvailableEncryption(self.password.encode())
        )
        self.truststore.write_bytes(trusted)
        self.password_file = folder / "ca.password"
        _write_secret(self.password_file, self.password.encode())

    def certificate(self, name: str, *hosts: str, valid: tuple[datetime.timedelta, datetime.timedelta] = VALID) -> Certificate:
        """Make a certificate "CN=name" for `hosts`, names or addresses. Each name is unique in this authority's folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self._name, key.public_key(), valid)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        password = secrets.token_hex(16)
        made = Certificate(
            certificate=self._folder / f"{name}.pem",
            key=self._folder / f"{name}.key",
            encrypted_key=self._folder / f"{name}.encrypted.key",
            keystore=self._folder / f"{name}.p12",
            password=password,
            password_file=self._folder / f"{name}.password",
        )
        chain = (signed, self._certificate)
        made.certificate.write_bytes(b"".join(each.public_bytes(Encoding.PEM) for each in chain))
        encryption = BestAvailableEncryption(password.encode())
        _write_secret(made.key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        _write_secret(made.encrypted_key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        store = pkcs12.serialize_key_and_certificates(name.encode(), key, signed, [self._certificate], encryption)
        _write_secret(made.keystore, store)
        _write_secret(made.password_file, password.encode())
        return made


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: tuple[datetime.timedelta, datetime.timedelta]
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + valid[0])
        .not_valid_after(now + valid[1])
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
