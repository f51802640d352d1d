"""Reads the secret keys of a JCEKS key store, Java's own format, as SunJCE's JceKeyStore writes it.

    store  = 0xCECECECE int32 version (1, 2) int32 count entry{count} SHA-1(password "Mighty Aphrodite" all before)
    entry  = int32 tag UTF alias int64 date …         tag 1: private key, 2: certificate, 3: secret key
    secret = a serialized SealedObjectForKeyProtector: the serialized key, encrypted with PBEWithMD5AndTripleDES

A JKS store (0xFEEDFEED) has the same format with tags 1 and 2 only, so it contains no secret keys.

The keys are serialized Java objects (Java Object Serialization Specification, chapter 6). Walferry has its own reader because the
library for all kinds of objects logs the values that it reads, and these are keys.

    stream    = 0xACED 0x0005 content
    content   = 0x70 (null) | 0x71 int32 (a handle) | 0x73 class values | 0x74 UTF | 0x75 class int32 element* | 0x7E class name
    class     = 0x72 UTF name, int64, uint8 flags, uint16 count (uint8 type, UTF name [, content])*, annotation, superclass
              | 0x70 | 0x71 int32
    values    = values of the topmost superclass's fields, with an annotation if the class writes itself; …; values of its own
    annotation = (0x77 uint8 length, bytes | content)* 0x78
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import io
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from asn1crypto.core import Integer, OctetString, Sequence
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.padding import PKCS7

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
_FIRST_HANDLE = 0x7E0000
_NULL, _REFERENCE, _CLASS, _OBJECT, _STRING, _ARRAY, _BLOCK, _END, _ENUM = 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x77, 0x78, 0x7E
_WRITES_ITSELF, _SERIALIZABLE = 1, 2
_PRIMITIVES = {"B": ">b", "C": ">H", "D": ">d", "F": ">f", "I": ">i", "J": ">q", "S": ">h", "Z": ">?"}
_MAX_DEPTH = 20


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
    source, found = _Reader(stream), dict[str, Unlock]()
    for _ in range(count):
        tag, alias = source.number(">i"), source.utf()
        stream.read(8)
        if tag == EntryTag.PRIVATE_KEY:
            _block(source)
            for _ in range(source.number(">i")):
                _certificate(source, version)
        elif tag == EntryTag.CERTIFICATE:
            _certificate(source, version)
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


def _block(source: _Reader) -> None:
    source.exactly(source.number(">i"), "an entry that leaves the file")


def _certificate(source: _Reader, version: int) -> None:
    if version == 2:
        source.utf()
    _block(source)


class NotJava(ValueError):
    """The bytes are not a serialized Java object of the kinds in key stores. The message shows none of the bytes."""


@dataclass(frozen=True)
class JavaObject:
    """An object: the name of its class, and its fields, including the superclasses' fields."""

    name: str
    fields: dict[str, Any] = field(repr=False)  # str, bytes (a byte[]), numbers, None, JavaObject

    def text(self, name: str) -> str:
        """Return the value of a String field. Raises NotJava."""
        return str(self._of(name, str))

    def octets(self, name: str) -> bytes:
        """Return the value of a byte[] field. Raises NotJava."""
        return bytes(self._of(name, bytes))

    def _of(self, name: str, kind: type) -> Any:
        value = self.fields.get(name)
        if not isinstance(value, kind):
            raise NotJava("an object without a field that it should have")
        return value


@dataclass(frozen=True)
class _Class:
    name: str
    flags: int
    fields: list[tuple[str, str]]  # type, name
    parent: _Class | None


def read_object(stream: io.BytesIO) -> JavaObject:
    """Read the object at the stream's position. Raises NotJava."""
    try:
        if stream.read(4) != b"\xac\xed\x00\x05":
            raise NotJava("not a Java object")
        found = _Reader(stream).content(0)
    except (struct.error, UnicodeDecodeError):
        raise NotJava("not a whole Java object") from None
    if not isinstance(found, JavaObject):
        raise NotJava("not a Java object")
    return found


class _Reader:
    def __init__(self, stream: io.BytesIO) -> None:
        self._stream = stream
        self._handles: list[Any] = []

    def content(self, depth: int) -> Any:
        kind = self.number(">B")
        if depth > _MAX_DEPTH:
            raise NotJava("objects within objects")
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            return self._referred()
        if kind == _STRING:
            self._handles.append(self.utf())
            return self._handles[-1]
        if kind not in (_OBJECT, _ARRAY, _ENUM):
            raise NotJava("not an object, text or array")
        described = self._class(depth + 1)
        if described is None:
            raise NotJava("an object without a class")
        if kind == _ARRAY:
            return self._array(described)
        handle = self._reserve()
        if kind == _ENUM:
            self._handles[handle] = self.content(depth + 1)
        else:
            found = self._handles[handle] = JavaObject(described.name, {})
            self._values(described, found.fields, depth + 1)
        return self._handles[handle]

    def _class(self, depth: int) -> _Class | None:
        kind = self.number(">B")
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            referred = self._referred()
            if not isinstance(referred, _Class):
                raise NotJava("a reference to something other than a class")
            return referred
        if kind != _CLASS or depth > _MAX_DEPTH:
            raise NotJava("not a class")
        name = self.utf()
        self.exactly(8)
        handle = self._reserve()
        flags, fields = self.number(">B"), []
        for _ in range(self.number(">H")):
            code, field_name = chr(self.number(">B")), self.utf()
            if code in "[L":
                self.content(depth + 1)
            elif code not in _PRIMITIVES:
                raise NotJava("a field of an unknown type")
            fields.append((code, field_name))
        self._annotation(depth + 1)
        found = self._handles[handle] = _Class(name, flags, fields, self._class(depth + 1))
        return found

    def _values(self, described: _Class, into: dict[str, Any], depth: int) -> None:
        if described.parent is not None:
            self._values(described.parent, into, depth)
        if not described.flags & _SERIALIZABLE:
            raise NotJava("an object that is written in another way")
        for code, name in described.fields:
            into[name] = self.number(_PRIMITIVES[code]) if code in _PRIMITIVES else self.content(depth)
        if described.flags & _WRITES_ITSELF:
            self._annotation(depth)

    def _annotation(self, depth: int) -> None:
        while (kind := self.number(">B")) != _END:
            if kind == _BLOCK:
                self.exactly(self.number(">B"))
            else:
                self._stream.seek(-1, io.SEEK_CUR)
                self.content(depth)

    def _array(self, described: _Class) -> bytes:
        if described.name != "[B":
            raise NotJava("an array of something other than bytes")
        handle = self._reserve()
        data = self._handles[handle] = self.exactly(self.number(">i"))
        return data

    def _reserve(self) -> int:
        self._handles.append(None)
        return len(self._handles) - 1

    def _referred(self) -> Any:
        number = self.number(">i") - _FIRST_HANDLE
        if not 0 <= number < len(self._handles):
            raise NotJava("a reference to nothing")
        return self._handles[number]

    def utf(self) -> str:
        return self.exactly(self.number(">H")).decode()

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self._stream.read(struct.calcsize(layout)))[0]

    def exactly(self, length: int, problem: str = "an end in the middle") -> bytes:
        data = self._stream.read(length) if length >= 0 else b""
        if len(data) != length:
            raise NotJava(problem)
        return data
