"""Reads the secret keys of a JCEKS key store, Java's own format, as SunJCE's JceKeyStore writes it.

    store  = 0xCECECECE int32 version (1, 2) int32 count entry{count} SHA-1(password "Mighty Aphrodite" all before)
    entry  = int32 tag UTF alias int64 date …         tag 1: private key, 2: certificate, 3: secret key
    secret = a serialized SealedObjectForKeyProtector: the serialized key, encrypted with PBEWithMD5AndTripleDES

A JKS store (0xFEEDFEED) has the same format with tags 1 and 2 only, so it contains no secret keys.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import io
import struct
from collections.abc import Callable
from functools import partial

from asn1crypto.core import Integer, OctetString, Sequence
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.padding import PKCS7

from walferry.hbase.crypto.java_objects import JavaObject, read_object

JCEKS_MAGIC = b"\xce\xce\xce\xce"
JKS_MAGIC = b"\xfe\xed\xfe\xed"
MAX_ITERATIONS = 5_000_000  # SunJCE's own bound


class EntryTag(enum.IntEnum):
    """The kinds of a store's entries."""

    PRIVATE_KEY = 1
    CERTIFICATE = 2
    SECRET_KEY = 3


_SEALED = "com.sun.crypto.provider.SealedObjectForKeyProtector"
_ALGORITHM = "PBEWithMD5AndTripleDES"
_DIGEST_BYTES = 20


class WrongPassword(ValueError):
    """The password is not the one that was used to encrypt."""


class _PbeParameters(Sequence):  # type: ignore[misc]
    _fields = [("salt", OctetString), ("iterations", Integer)]  # noqa: RUF012 - asn1crypto's way


Unlock = Callable[[str], tuple[str, bytes]]


def secret_keys(data: bytes, store_password: str | None) -> dict[str, Unlock]:
    """Return, for each alias of a secret key, a function from the key's password to the key's algorithm and bytes.

    That function raises WrongPassword. With `store_password`, this checks the store's digest, and may raise WrongPassword too.
    Raises ValueError if `data` is not a JCEKS store.
    """
    if store_password is not None:
        secret = store_password.encode("utf-16-be") + b"Mighty Aphrodite"
        digest = hashlib.sha1(secret + data[:-_DIGEST_BYTES], usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, data[-_DIGEST_BYTES:]):
            raise WrongPassword
    try:
        return _entries(io.BytesIO(data[:-_DIGEST_BYTES]))
    except (struct.error, UnicodeDecodeError):
        raise ValueError("it ends early") from None


def _entries(stream: io.BytesIO) -> dict[str, Unlock]:
    _, version, count = struct.unpack(">4sii", stream.read(12))
    if version not in (1, 2):
        raise ValueError(f"version {version}")
    found: dict[str, Unlock] = {}
    for _ in range(count):
        (tag,) = struct.unpack(">i", stream.read(4))
        alias = _utf(stream)
        stream.read(8)
        if tag == EntryTag.PRIVATE_KEY:
            _block(stream)
            for _ in range(struct.unpack(">i", stream.read(4))[0]):
                _certificate(stream, version)
        elif tag == EntryTag.CERTIFICATE:
            _certificate(stream, version)
        elif tag == EntryTag.SECRET_KEY:
            found[alias] = partial(_unseal, read_object(stream))
        else:
            raise ValueError(f"an entry with tag {tag}")
    return found


def _unseal(sealed: JavaObject, password: str) -> tuple[str, bytes]:
    if sealed.name != _SEALED or sealed.text("sealAlg") != _ALGORITHM:
        raise ValueError(f"it is locked in another way than {_ALGORITHM}")
    parameters = _PbeParameters.load(sealed.octets("encodedParams"), strict=True)
    salt, iterations = parameters["salt"].native, parameters["iterations"].native
    if len(salt) != 8 or not 0 < iterations <= MAX_ITERATIONS:
        raise ValueError(f"a salt of {len(salt)} bytes and {iterations} iterations")
    derived = _derive(password, salt, iterations)
    decryptor = Cipher(TripleDES(derived[:24]), modes.CBC(derived[24:])).decryptor()
    unpadder = PKCS7(64).unpadder()
    try:
        plain = decryptor.update(sealed.octets("encryptedContent")) + decryptor.finalize()
        plain = unpadder.update(plain) + unpadder.finalize()
        key = read_object(io.BytesIO(plain))
    except ValueError:
        raise WrongPassword from None
    # These are the names of the fields of SecretKeySpec and of KeyRep.
    return key.text("algorithm"), key.octets("key" if "key" in key.fields else "encoded")


def _derive(password: str, salt: bytes, iterations: int) -> bytes:
    """Derive key and IV like SunJCE's PBES1Core: iterated MD5 of each half of the salt, which must differ, and the password."""
    secret = password.encode("ascii", "replace")  # Java accepts only ASCII passwords for a key
    halves = [salt[:4], salt[4:]]
    if halves[0] == halves[1]:
        first = halves[0]
        halves[0] = bytes((first[3], first[0], first[1], first[3]))  # SunJCE means to reverse the bytes, but makes a mistake
    derived = b""
    for half in halves:
        for _ in range(iterations):
            half = hashlib.md5(half + secret, usedforsecurity=False).digest()
        derived += half
    return derived


def _utf(stream: io.BytesIO) -> str:
    (length,) = struct.unpack(">H", stream.read(2))
    return stream.read(length).decode()


def _block(stream: io.BytesIO) -> bytes:
    (length,) = struct.unpack(">i", stream.read(4))
    data = stream.read(length) if length >= 0 else b""
    if len(data) != length:
        raise ValueError("an entry that leaves the file")
    return data


def _certificate(stream: io.BytesIO, version: int) -> None:
    if version == 2:
        _utf(stream)
    _block(stream)
