"""Reads the secret keys of a PKCS12 key store as Java writes it (sun.security.pkcs12.PKCS12KeyStore, RFC 7292).

A secret key is a SecretBag in a SafeContents that is not encrypted as a whole. The bag contains an EncryptedPrivateKeyInfo, and
the decrypted PrivateKeyInfo contains the key's algorithm and bytes. Keys are encrypted with PBES2 (PBKDF2 with HMAC, AES-CBC;
Java 16 and later, 8u301) or with pbeWithSHAAnd3-KeyTripleDES-CBC (before). A MAC over everything shows whether the store's
password is right.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from functools import partial

from asn1crypto import keys, pkcs12
from asn1crypto.algos import AlgorithmIdentifier
from asn1crypto.core import Any, Integer, OctetString, Sequence
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.padding import PKCS7

from walferry.hbase.crypto.jceks import MAX_ITERATIONS, Unlock, WrongPassword

_SHROUDED_KEY = "1.2.840.113549.1.12.10.1.2"
_ALGORITHMS = {"2.16.840.1.101.3.4.1": "AES"}  # Java's names; other algorithms keep their object identifier
_HASHES = ("sha1", "sha224", "sha256", "sha384", "sha512")


class _Purpose(enum.IntEnum):
    """The purposes of the PKCS12 derivation."""

    KEY = 1
    IV = 2
    MAC = 3


class _PlainKey(Sequence):  # type: ignore[misc]
    """PrivateKeyInfo for any algorithm. asn1crypto's own class knows only the algorithms of key pairs."""

    _fields = [  # noqa: RUF012 - asn1crypto's way
        ("version", Integer),
        ("algorithm", AlgorithmIdentifier),
        ("key", OctetString),
        ("attributes", Any, {"implicit": 0, "optional": True}),
    ]


def secret_keys(data: bytes, store_password: str | None) -> dict[str, Unlock]:
    """Return, for each alias of a secret key, a function from the key's password to the key's algorithm and bytes.

    That function raises WrongPassword. With `store_password`, this checks the store's MAC, and may raise WrongPassword too.
    Raises ValueError if `data` is not a PKCS12 store.
    """
    try:
        store = pkcs12.Pfx.load(data, strict=True)
        if store_password is not None and store["mac_data"]:
            _check_mac(store, store_password)
        return _secrets(store)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError("a broken entry") from error


def _secrets(store: pkcs12.Pfx) -> dict[str, Unlock]:
    found: dict[str, Unlock] = {}
    for content in store.authenticated_safe:
        if content["content_type"].native != "data":
            continue  # contents that are encrypted as a whole are certificates
        for bag in pkcs12.SafeContents.load(content["content"].native):
            if bag["bag_id"].native != "secret_bag" or bag["bag_value"]["secret_type_id"].native != _SHROUDED_KEY:
                continue
            sealed = keys.EncryptedPrivateKeyInfo.load(bag["bag_value"]["secret_value"].native)
            for attribute in bag["bag_attributes"]:
                if attribute["type"].native == "friendly_name":
                    found[attribute["values"].native[0]] = partial(_unseal, sealed)
    return found


def _unseal(sealed: keys.EncryptedPrivateKeyInfo, password: str) -> tuple[str, bytes]:
    plain = _decrypt(sealed["encryption_algorithm"], sealed["encrypted_data"].native, password)
    try:
        info = _PlainKey.load(plain, strict=True)
        identifier = info["algorithm"]["algorithm"].native
        return _ALGORITHMS.get(identifier, identifier), info["key"].native
    except Exception:  # a parser may raise anything for random bytes, and its message might show some of them
        raise WrongPassword from None


def _decrypt(algorithm: keys.EncryptionAlgorithm, data: bytes, password: str) -> bytes:
    name = algorithm["algorithm"].native
    if name == "pbes2":
        key, iv = _pbes2(algorithm, password)
        cipher, block_bits = Cipher(AES(key), modes.CBC(iv)), 128
    elif name == "pkcs12_sha1_tripledes_3key":
        salt, iterations = algorithm["parameters"]["salt"].native, _bounded(algorithm["parameters"]["iterations"].native)
        key, iv = (_pkcs12_kdf("sha1", password, salt, iterations, what, n) for what, n in ((_Purpose.KEY, 24), (_Purpose.IV, 8)))
        cipher, block_bits = Cipher(TripleDES(key), modes.CBC(iv)), 64
    else:
        raise ValueError(f"a key locked with {name}; PBES2 and pbeWithSHAAnd3-KeyTripleDES-CBC are known")
    decryptor, unpadder = cipher.decryptor(), PKCS7(block_bits).unpadder()
    try:
        return unpadder.update(decryptor.update(data) + decryptor.finalize()) + unpadder.finalize()
    except ValueError:
        raise WrongPassword from None


def _pbes2(algorithm: keys.EncryptionAlgorithm, password: str) -> tuple[bytes, bytes]:
    """Derive the key and the IV."""
    kdf, cipher = algorithm["parameters"]["key_derivation_func"], algorithm["parameters"]["encryption_scheme"]
    if kdf["algorithm"].native != "pbkdf2" or cipher.encryption_cipher != "aes" or cipher.encryption_mode != "cbc":
        raise ValueError(f"a key locked with {kdf['algorithm'].native} and {cipher['algorithm'].native}, not PBKDF2 and AES-CBC")
    parameters = kdf["parameters"]
    digest, salt = parameters["prf"]["algorithm"].native, parameters["salt"].native
    if digest not in _HASHES:
        raise ValueError(f"a key derived with HMAC-{digest}")
    iterations = _bounded(parameters["iteration_count"].native)
    key = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations, cipher.key_length)
    return key, cipher.encryption_iv


def _check_mac(store: pkcs12.Pfx, password: str) -> None:
    mac = store["mac_data"]
    digest = mac["mac"]["digest_algorithm"]["algorithm"].native
    if digest not in _HASHES:
        raise ValueError(f"a MAC with {digest}")
    salt, iterations = mac["mac_salt"].native, _bounded(mac["iterations"].native)
    key = _pkcs12_kdf(digest, password, salt, iterations, _Purpose.MAC, hashlib.new(digest).digest_size)
    if not hmac.compare_digest(hmac.digest(key, store["auth_safe"]["content"].native, digest), mac["mac"]["digest"].native):
        raise WrongPassword


def _bounded(iterations: int) -> int:
    if not 0 < iterations <= MAX_ITERATIONS:
        raise ValueError(f"{iterations} iterations")
    return iterations


def _pkcs12_kdf(digest: str, password: str, salt: bytes, iterations: int, purpose: _Purpose, length: int) -> bytes:
    """Derive `length` bytes from a password (RFC 7292, appendix B.2)."""
    block = hashlib.new(digest).block_size
    secret = password.encode("utf-16-be") + b"\0\0"
    blocks = b"".join(_repeated(part, block) for part in (salt, secret))
    derived = b""
    while len(derived) < length:
        a = bytes([purpose]) * block + blocks
        for _ in range(iterations):
            a = hashlib.new(digest, a, usedforsecurity=False).digest()
        derived += a
        add = int.from_bytes(_repeated(a, block)[:block]) + 1
        pieces = (int.from_bytes(blocks[at : at + block]) + add for at in range(0, len(blocks), block))
        blocks = b"".join((piece % (1 << 8 * block)).to_bytes(block) for piece in pieces)
    return derived[:length]


def _repeated(data: bytes, block: int) -> bytes:
    """Repeat `data` up to a whole number of blocks."""
    length = -(-len(data) // block) * block
    return (data * (length // max(1, len(data)) + 1))[:length]
