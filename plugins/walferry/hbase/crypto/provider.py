"""Reads a cluster's key store like HBase's KeyStoreKeyProvider, and unwraps the keys of WALs with it.

    jceks:///etc/hbase/conf/hbase.jceks?passwordFile=/etc/hbase/conf/hbase.passwords

This is the value of hbase.crypto.keyprovider.parameters: the path of a key store on this machine, and of a properties file with
the password of each alias. Instead of `passwordFile` it may give `passwordEnv`, the name of an environment variable with the one
password of the store and its keys. HBase's `password` is refused, because the URL travels in arguments and is written to logs.

A WAL does not name its key. So the provider tries each of its aliases (hbase.crypto.wal.key.name, hbase.crypto.master.key.name
and hbase.crypto.master.alternate.key.name). The hash stored with the wrapped key shows which alias fits.

Source: HBase's KeyStoreKeyProvider, EncryptionUtil.unwrapWALKey, Encryption.hashWithAlg, AES (branch-2.6).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, unquote_plus, urlsplit

from walferry.base.errors import WalferryError

DEFAULT_KEY_NAMES = ("hbase",)  # HBase's default is the name of its servers' user
AES_KEY_BYTES = (16, 24, 32)
WAL_KEY_BYTES = 16  # HBase's AES
IV_BYTES = 16
MAX_STORE_BYTES = 16 << 20
_TYPES = ("jceks", "jks", "pkcs12")
_OPTIONS = ("passwordFile", "passwordEnv")
_HASHES = {"MD5": "md5", "SHA": "sha1"} | {f"SHA{n}": f"sha{n}" for n in (1, 224, 256, 384, 512)}  # Java's names without dashes
_EXAMPLE = "'jceks:///etc/hbase/conf/hbase.jceks?passwordFile=/etc/hbase/conf/hbase.passwords'"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", re.DOTALL)
_WITHOUT_PASSWORD = (
    "This URL travels in arguments and is written to logs. Put the password into a file that only the user of the Spark tasks "
    "can read, with a line <alias>=<password> for each key, and give ?passwordFile=<its path>; or put it into an environment "
    "variable of the tasks, and give ?passwordEnv=<its name>"
)


class KeyProviderError(WalferryError):
    """The key provider cannot give a key. The message names the key store or the setting, and says what to do."""

    retry_helps = False


@dataclass(frozen=True)
class KeyStoreUrl:
    """The parts of a key provider's URL. `parse` refuses a URL that contains a password."""

    path: str
    password_file: str | None = None
    password_env: str | None = None

    @classmethod
    def parse(cls, url: str) -> KeyStoreUrl:
        """Parse a URL. Raises KeyProviderError, whose text never repeats a possible secret."""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise KeyProviderError("the key provider is not a URL", f"Give one such as {_EXAMPLE}") from None
        if parts.scheme.lower() not in _TYPES or not parts.path.startswith("/"):
            raise KeyProviderError(f"the key provider must be a URL such as {_EXAMPLE}, of type {', '.join(_TYPES)}")
        if "@" in parts.netloc:
            raise KeyProviderError("the key provider holds a user name or a password", _WITHOUT_PASSWORD)
        options: dict[str, str] = {}
        for option in filter(None, unquote(parts.query).split("&")):
            name, _, value = option.partition("=")
            name = unquote_plus(name)
            name = next((known for known in _OPTIONS if known.lower() == name.lower()), name)
            if name.lower() == "password":
                raise KeyProviderError("the key provider holds a password", _WITHOUT_PASSWORD)
            if name not in _OPTIONS or not value:
                raise KeyProviderError(f"an option of the key provider is unknown or empty; it takes {', '.join(_OPTIONS)}")
            options[name] = unquote_plus(value)
        if len(options) != 1 or parts.fragment:
            raise KeyProviderError(f"the key provider must have one of {', '.join(_OPTIONS)}, as in {_EXAMPLE}")
        return cls(unquote(parts.path), options.get("passwordFile"), options.get("passwordEnv"))


class KeyProvider:
    """Unwraps the keys of WALs. Reads the key store and the passwords once, at the first use.

    Raises KeyProviderError for a URL that is wrong or contains a password.
    """

    def __init__(self, url: str, names: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> None:
        self._text = url
        self._url = KeyStoreUrl.parse(url)
        self._names = tuple(names) or DEFAULT_KEY_NAMES
        self._environ = environ  # None means the environment of the process that asks for a key
        self._keys: dict[str, bytes | str] | None = None

    def __repr__(self) -> str:
        return f"KeyProvider({self._url.path!r}, names={self._names!r})"

    def __reduce__(self) -> tuple[type[KeyProvider], tuple[str, tuple[str, ...]]]:
        """Pickle the provider as new, e.g. for a Spark worker, without any key or password."""
        return KeyProvider, (self._text, self._names)

    def __call__(self, wrapped: bytes) -> bytes:
        """Unwrap the key of a WAL, given the `encryption_key` of its header. Raises KeyProviderError."""
        if self._keys is None:
            self._keys = self._load()
        open_with, reasons = _parse(wrapped), []
        for name in self._names:
            key = self._keys[name]
            if isinstance(key, str):
                reasons.append(key)
            elif (plain := open_with(key)) is not None:
                return plain
            else:
                reasons.append(f"this WAL's key is not wrapped with key {name!r}")
        raise KeyProviderError(
            f"key store {self._url.path}: {'; '.join(reasons)}",
            "Give the values of hbase.crypto.wal.key.name, hbase.crypto.master.key.name (by default the user that HBase runs as) "
            "and of its predecessors as the key names, and the key store of this cluster",
        )

    def _load(self) -> dict[str, bytes | str]:
        """Return the AES key of each name, or the problem with it. Raises KeyProviderError if the store itself is unreadable."""
        from walferry.hbase.crypto.jceks import JCEKS_MAGIC, JKS_MAGIC, WrongPassword, secret_keys
        from walferry.hbase.crypto.pkcs12 import secret_keys as pkcs12_secret_keys

        path, data = self._url.path, _read(self._url.path, "key store")
        password, passwords = self._passwords()
        read = secret_keys if data.startswith((JCEKS_MAGIC, JKS_MAGIC)) else pkcs12_secret_keys
        try:
            locked = {alias.lower(): unlock for alias, unlock in read(data, password).items()}
        except WrongPassword:
            raise KeyProviderError(f"key store {path}: {self._where()} does not have its password", "Correct it there") from None
        except ValueError as error:
            problem = f"key store {path}: it is not a JCEKS or PKCS12 key store, or it is damaged ({error})"
            raise KeyProviderError(problem, "Copy the cluster's own key store here") from error
        found: dict[str, bytes | str] = {}
        for name in self._names:
            unlock, secret = locked.get(name.lower()), password if password is not None else passwords.get(name)
            if unlock is None:
                there = ", ".join(map(repr, sorted(locked))) or "none; a JKS store cannot have any"
                found[name] = f"there is no secret key {name!r} in it (there are: {there})"
            elif secret is None:
                found[name] = f"{self._where()} has no password for {name!r}"
            else:
                try:
                    found[name] = _aes_key(name, *unlock(secret))
                except WrongPassword:
                    found[name] = f"the password for {name!r} in {self._where()} does not open it"
                except ValueError as error:
                    found[name] = f"key {name!r} cannot be read ({error})"
        return found

    def _passwords(self) -> tuple[str | None, dict[str, str]]:
        """Return the password of the store and all its keys, or the passwords of single keys."""
        if self._url.password_env is None:
            assert self._url.password_file is not None
            return None, parse_properties(_read(self._url.password_file, "password file"))
        password = (os.environ if self._environ is None else self._environ).get(self._url.password_env)
        if not password:
            raise KeyProviderError(
                f"key store {self._url.path}: {self._where()} is not set",
                "Set it to the store's password where the Spark tasks run, or give a passwordFile",
            )
        return password, {}

    def _where(self) -> str:
        if self._url.password_env is not None:
            return f"environment variable {self._url.password_env}"
        return f"password file {self._url.password_file}"


def _parse(wrapped: bytes) -> Callable[[bytes], bytes | None]:
    """Parse and check a delimited WrappedKey message, from a WAL's header. Raises KeyProviderError.

    Returns a function that unwraps the WAL's key with a key, and returns None if it was wrapped with another one.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CTR
    from google.protobuf.message import DecodeError

    from walferry.base.protos.hbase_pb2 import WrappedKey
    from walferry.base.protos.parsing import length_at, parse_message

    damaged = "the header's encryption key is not a wrapped key of HBase's: the file is damaged there"
    if (found := length_at(wrapped, 0)) is None:
        raise KeyProviderError(damaged)
    length, start = found
    try:
        message = parse_message(WrappedKey, wrapped[start : start + length])
    except DecodeError:
        raise KeyProviderError(damaged) from None
    # HBase has always written the hash. Without it, a wrong key would look like a damaged file, which a run may give up.
    if length > len(wrapped) - start or not message.hash:
        raise KeyProviderError(damaged)
    if message.algorithm.upper() != "AES":
        raise KeyProviderError(f"the WAL is encrypted with {message.algorithm!r}, not AES (hbase.crypto.wal.algorithm)")
    algorithm = message.hash_algorithm.strip().upper().replace("-", "")
    if algorithm not in _HASHES:
        raise KeyProviderError(f"the WAL's key is hashed with {message.hash_algorithm!r}, which is none of {', '.join(_HASHES)}")
    if len(message.iv) != IV_BYTES or message.length not in AES_KEY_BYTES or len(message.data) < message.length:
        raise KeyProviderError(
            f"the WAL's key is {message.length} of {len(message.data)} bytes, wrapped with an IV of {len(message.iv)}; "
            f"HBase's AES has a key of {WAL_KEY_BYTES} and an IV of {IV_BYTES}"
        )

    def open_with(key: bytes) -> bytes | None:
        decryptor = Cipher(AES(key), CTR(message.iv)).decryptor()
        plain = (decryptor.update(message.data) + decryptor.finalize())[: message.length]
        digest = hashlib.new(_HASHES[algorithm], plain, usedforsecurity=False).digest()
        return plain if hmac.compare_digest(digest, message.hash) else None

    return open_with


def _aes_key(name: str, algorithm: str, key: bytes) -> bytes:
    if algorithm.upper() != "AES" or len(key) not in AES_KEY_BYTES:
        raise ValueError(f"it is a key of {8 * len(key)} bits for {algorithm}; AES needs 128, 192 or 256 bits")
    return key


def _read(path: str, what: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_STORE_BYTES + 1)
    except OSError as error:
        raise KeyProviderError(
            f"{what} {path}: {error.strerror or error}",
            "It must be there on each machine that reads WALs, readable by the user of the Spark tasks, as on each RegionServer",
        ) from error
    if len(data) > MAX_STORE_BYTES:
        raise KeyProviderError(f"{what} {path}: it has more than {MAX_STORE_BYTES} bytes, which is too many for one")
    return data


def parse_properties(data: bytes) -> dict[str, str]:
    """Parse names and values like java.util.Properties.load. If a name occurs several times, the last value counts."""
    found: dict[str, str] = {}
    unfinished = ""
    for line in [*re.split("\r\n|\r|\n", data.decode("latin-1")), ""]:  # the file's last line may be unfinished
        line = line.lstrip(" \t\f")
        if not unfinished and (not line or line[0] in "#!"):
            continue
        line = unfinished + line
        if (len(line) - len(line.rstrip("\\"))) % 2:  # the line's end is escaped
            unfinished = line[:-1]
            continue
        unfinished = ""
        match = _KEY.match(line)
        assert match  # the pattern matches anything
        found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _ESCAPES.get(m[2] or "", m[2] or ""), text)
