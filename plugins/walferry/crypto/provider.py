"""The cluster's key provider: a key store, read as HBase's KeyStoreKeyProvider reads it, and the keys of WALs unwrapped with it.

    jceks:///etc/hbase/conf/hbase.jceks?passwordFile=/etc/hbase/conf/hbase.passwords

That is the value of hbase.crypto.keyprovider.parameters: path of a key store on this machine, and of a properties file with the
password of each alias. Instead of `passwordFile` there may be `passwordEnv`, the name of an environment variable with the one
password of store and keys. HBase's `password` is refused: the URL travels in arguments and is written to logs.

A WAL names no key: each of the provider's aliases is tried (hbase.crypto.wal.key.name, hbase.crypto.master.key.name and
hbase.crypto.master.alternate.key.name), and the hash beside the wrapped key tells which one fits.

Source: HBase's KeyStoreKeyProvider, EncryptionUtil.unwrapWALKey, Encryption.hashWithAlg, AES (branch-2.6).
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, unquote_plus, urlsplit

from walferry.crypto.errors import KeyProviderError

DEFAULT_KEY_NAMES = ("hbase",)  # HBase's default is the name of the user that its servers run as
AES_KEY_BYTES = (16, 24, 32)
WAL_KEY_BYTES = 16  # of HBase's AES
IV_BYTES = 16
MAX_STORE_BYTES = 16 << 20
_TYPES = ("jceks", "jks", "pkcs12")
_OPTIONS = ("passwordFile", "passwordEnv")
_HASHES = {"MD5": "md5", "SHA": "sha1"} | {f"SHA{n}": f"sha{n}" for n in (1, 224, 256, 384, 512)}  # Java's names without dashes
_EXAMPLE = "'jceks:///etc/hbase/conf/hbase.jceks?passwordFile=/etc/hbase/conf/hbase.passwords'"
_WITHOUT_PASSWORD = (
    "This URL travels in arguments and is written to logs. Put the password into a file that only the user of the Spark tasks "
    "can read, a line <alias>=<password> for each key, and give ?passwordFile=<its path>; or into an environment variable of the "
    "tasks, and give ?passwordEnv=<its name>"
)


@dataclass(frozen=True)
class KeyStoreUrl:
    """The parts of a key provider's URL. `parse` refuses one that holds a password."""

    path: str
    password_file: str | None = None
    password_env: str | None = None

    @classmethod
    def parse(cls, url: str) -> KeyStoreUrl:
        """Raises KeyProviderError, whose text repeats nothing that may be a secret."""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise KeyProviderError(f"the key provider is no URL; it must be one such as {_EXAMPLE}") from None
        if parts.scheme.lower() not in _TYPES or not parts.path.startswith("/"):
            raise KeyProviderError(f"the key provider must be a URL such as {_EXAMPLE}, of type {', '.join(_TYPES)}")
        if "@" in parts.netloc:
            raise KeyProviderError(f"the key provider holds a user name or a password. {_WITHOUT_PASSWORD}")
        options: dict[str, str] = {}
        for option in filter(None, unquote(parts.query).split("&")):
            name, _, value = option.partition("=")
            name = unquote_plus(name)
            name = next((known for known in _OPTIONS if known.lower() == name.lower()), name)
            if name.lower() == "password":
                raise KeyProviderError(f"the key provider holds a password. {_WITHOUT_PASSWORD}")
            if name not in _OPTIONS or not value:
                raise KeyProviderError(f"an option of the key provider is unknown or empty; it takes {', '.join(_OPTIONS)}")
            options[name] = unquote_plus(value)
        if len(options) != 1 or parts.fragment:
            raise KeyProviderError(f"the key provider must have one of {', '.join(_OPTIONS)}, as in {_EXAMPLE}")
        return cls(unquote(parts.path), options.get("passwordFile"), options.get("passwordEnv"))


class KeyProvider:
    """Unwraps the keys of WALs. Key store and passwords are read at the first use, once.

    Raises KeyProviderError for a URL that is wrong or holds a password.
    """

    def __init__(self, url: str, names: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> None:
        self._text = url
        self._url = KeyStoreUrl.parse(url)
        self._names = tuple(names) or DEFAULT_KEY_NAMES
        self._environ = environ  # None: that of the process in which a key is asked for
        self._keys: dict[str, bytes | str] | None = None

    def __repr__(self) -> str:
        return f"KeyProvider({self._url.path!r}, names={self._names!r})"

    def __reduce__(self) -> tuple[type[KeyProvider], tuple[str, tuple[str, ...]]]:
        """Pickled, as on the way to a Spark worker, it is as new: no key and no password goes along."""
        return KeyProvider, (self._text, self._names)

    def __call__(self, wrapped: bytes) -> bytes:
        """The key of a WAL, from `encryption_key` of its header. Raises KeyProviderError."""
        if self._keys is None:
            self._keys = self._load()
        return self._unwrap(_parse(wrapped), self._keys)

    def _unwrap(self, wrapped: _Wrapped, keys: Mapping[str, bytes | str]) -> bytes:
        reasons = []
        for name in self._names:
            key = keys[name]
            if isinstance(key, str):
                reasons.append(key)
            elif (plain := wrapped.open_with(key)) is not None:
                return plain
            else:
                reasons.append(f"key {name!r} is not the one that this WAL's key is wrapped with")
        raise KeyProviderError(
            f"key store {self._url.path}: {'; '.join(reasons)}. Give the values of hbase.crypto.wal.key.name, "
            "hbase.crypto.master.key.name (by default the user that HBase runs as) and of its predecessors as the key names, and "
            "the key store of this cluster"
        )

    def _load(self) -> dict[str, bytes | str]:
        """Name → AES key, or what is wrong with it. Raises KeyProviderError for the store itself."""
        from walferry.crypto.jceks import JCEKS_MAGIC, JKS_MAGIC, WrongPassword, secret_keys
        from walferry.crypto.pkcs12 import secret_keys as pkcs12_secret_keys

        path, data = self._url.path, _read(self._url.path, "key store")
        password, passwords = self._passwords()
        read = secret_keys if data.startswith((JCEKS_MAGIC, JKS_MAGIC)) else pkcs12_secret_keys
        try:
            locked = {alias.lower(): unlock for alias, unlock in read(data, password).items()}
        except WrongPassword:
            raise KeyProviderError(f"key store {path}: {self._where()} does not hold its password. Correct it there") from None
        except ValueError as e:
            raise KeyProviderError(
                f"key store {path}: it is no JCEKS or PKCS12 key store, or is damaged ({e}). Copy the cluster's own here"
            ) from e
        found: dict[str, bytes | str] = {}
        for name in self._names:
            unlock, secret = locked.get(name.lower()), password if password is not None else passwords.get(name)
            if unlock is None:
                there = ", ".join(map(repr, sorted(locked))) or "none; a JKS store cannot hold any"
                found[name] = f"there is no secret key {name!r} in it (there are: {there})"
            elif secret is None:
                found[name] = f"{self._where()} has no password for {name!r}"
            else:
                try:
                    found[name] = _aes_key(name, *unlock(secret))
                except WrongPassword:
                    found[name] = f"the password for {name!r} in {self._where()} does not open it"
                except ValueError as e:
                    found[name] = f"key {name!r} cannot be read ({e})"
        return found

    def _passwords(self) -> tuple[str | None, dict[str, str]]:
        """The password of the store and of all its keys, or those of single keys."""
        from walferry.crypto.properties import parse_properties

        if self._url.password_env is None:
            assert self._url.password_file is not None
            return None, parse_properties(_read(self._url.password_file, "password file"))
        password = (os.environ if self._environ is None else self._environ).get(self._url.password_env)
        if not password:
            raise KeyProviderError(
                f"key store {self._url.path}: {self._where()} is not set. Set it to the store's password where the Spark tasks "
                "run, or give a passwordFile"
            )
        return password, {}

    def _where(self) -> str:
        if self._url.password_env is not None:
            return f"environment variable {self._url.password_env}"
        return f"password file {self._url.password_file}"


@dataclass(frozen=True)
class _Wrapped:
    """A WAL's key as its header has it."""

    data: bytes
    length: int
    iv: bytes
    hash: bytes
    hash_algorithm: str

    def open_with(self, key: bytes) -> bytes | None:
        """The WAL's key, or None if it was wrapped with another key."""
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        decryptor = Cipher(AES(key), CTR(self.iv)).decryptor()
        plain = (decryptor.update(self.data) + decryptor.finalize())[: self.length]
        digest = hashlib.new(self.hash_algorithm, plain, usedforsecurity=False).digest()
        return plain if hmac.compare_digest(digest, self.hash) else None


def _parse(wrapped: bytes) -> _Wrapped:
    """The delimited WrappedKey message, checked. Raises KeyProviderError."""
    from google.protobuf.message import DecodeError

    from walferry.protos.hbase_pb2 import WrappedKey
    from walferry.protos.parsing import parse_message

    damaged = "the header's encryption key is no wrapped key of HBase's. The file is damaged there"
    length, start = 0, 0
    for start, byte in enumerate(wrapped[:5], 1):
        length |= (byte & 0x7F) << 7 * (start - 1)
        if byte < 0x80:
            break
    try:
        message = parse_message(WrappedKey, wrapped[start : start + length])
    except DecodeError:
        raise KeyProviderError(damaged) from None
    # HBase has always written the hash. Without it a wrong key could not be told from a damaged file, which may be given up.
    if length > len(wrapped) - start or not message.hash:
        raise KeyProviderError(damaged)
    if message.algorithm.upper() != "AES":
        raise KeyProviderError(f"the WAL is encrypted with {message.algorithm!r} (hbase.crypto.wal.algorithm); only AES is known")
    algorithm = message.hash_algorithm.strip().upper().replace("-", "")
    if algorithm not in _HASHES:
        raise KeyProviderError(f"the WAL's key is hashed with {message.hash_algorithm!r}; known are {', '.join(_HASHES)}")
    if len(message.iv) != IV_BYTES or message.length not in AES_KEY_BYTES or len(message.data) < message.length:
        raise KeyProviderError(
            f"the WAL's key is {message.length} of {len(message.data)} bytes, wrapped with an IV of {len(message.iv)}; "
            f"HBase's AES has a key of {WAL_KEY_BYTES} and an IV of {IV_BYTES}"
        )
    return _Wrapped(message.data, message.length, message.iv, message.hash, _HASHES[algorithm])


def _aes_key(name: str, algorithm: str, key: bytes) -> bytes:
    if algorithm.upper() != "AES" or len(key) not in AES_KEY_BYTES:
        raise ValueError(f"it is a key of {8 * len(key)} bits for {algorithm}; one for AES of 128, 192 or 256 is needed")
    return key


def _read(path: str, what: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_STORE_BYTES + 1)
    except OSError as e:
        raise KeyProviderError(
            f"{what} {path}: {e.strerror or e}. It has to lie there on each machine that reads WALs, readable by the user of the "
            "Spark tasks, as it lies on each RegionServer"
        ) from e
    if len(data) > MAX_STORE_BYTES:
        raise KeyProviderError(f"{what} {path}: it has more than {MAX_STORE_BYTES} bytes and is none")
    return data
