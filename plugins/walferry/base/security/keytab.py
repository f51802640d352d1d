"""Reads which principals have keys in a keytab. It skips the keys themselves.

MIT's file format, version 2 (MIT Kerberos, doc/formats/keytab_file_format.rst; krb5's lib/krb5/keytab/kt_file.c). Big-endian:

    keytab  = 05 02, { record }
    record  = int32 size, then |size| bytes: an entry if size > 0, a hole if size < 0; size 0 ends the keytab
    entry   = uint16 components, data realm, { data component }, uint32 name type, uint32 time, uint8 version, uint16 encryption,
              data key, [ uint32 version ]      where data = uint16 length, bytes; the long version counts, unless it is 0
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line

MAX_KEYTAB_BYTES = 16 << 20
MAX_NAMED = 10
_MAGIC = b"\x05\x02"
_SIZE = struct.Struct(">i")
_LENGTH = struct.Struct(">H")
_REST = struct.Struct(">IIBH")  # name type, time, version, encryption
_LONG_VERSION = struct.Struct(">I")
_ESCAPED = {"\\": "\\\\", "/": "\\/", "@": "\\@", "\n": "\\n", "\t": "\\t", "\b": "\\b", "\0": "\\0"}  # krb5_unparse_name
# The kinds of keys in use (RFC 3961 and its successors), by their numbers.
_ENCRYPTIONS = {
    1: "des-cbc-crc", 3: "des-cbc-md5", 16: "des3-cbc-sha1", 17: "aes128-cts-hmac-sha1-96", 18: "aes256-cts-hmac-sha1-96",
    19: "aes128-cts-hmac-sha256-128", 20: "aes256-cts-hmac-sha384-192", 23: "arcfour-hmac", 25: "camellia128-cts-cmac",
    26: "camellia256-cts-cmac",
}  # fmt: skip


class KeytabError(WalferryError):
    """A file is not a keytab, or is not complete."""

    retry_helps = False


class KeytabUnreadable(KeytabError):
    """The file does not exist, or this process may not read it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"keytab {path} cannot be read: {why} (on {socket.gethostname()})",
            "It must be on each machine that talks to the cluster, readable by the user that runs this",
        )


@dataclass(frozen=True)
class KeytabEntry:
    """A key without its bytes."""

    principal: str  # "walferry/host@REALM", as klist writes it
    version: int
    encryption: int
    time: int  # seconds since 1970

    @property
    def encryption_name(self) -> str:
        """The key's kind, with its name in krb5.conf."""
        return _ENCRYPTIONS.get(self.encryption, f"encryption {self.encryption}")


def read_keytab(path: str) -> list[KeytabEntry]:
    """Return the entries of the keytab at `path`. Raises KeytabError, which names the path."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_KEYTAB_BYTES + 1)
    except OSError as error:
        raise KeytabUnreadable(path, error.strerror or type(error).__name__) from error
    if len(data) > MAX_KEYTAB_BYTES:
        raise KeytabError(f"keytab {path} is larger than {MAX_KEYTAB_BYTES:,} bytes", "Is it a keytab at all?")
    try:
        return parse_keytab(data)
    except ValueError as error:
        raise KeytabError(f"keytab {path}: {error}", "Have it written anew, by ktadd or ktutil") from error


def parse_keytab(data: bytes) -> list[KeytabEntry]:
    """Return the entries in a keytab's bytes. Raises ValueError, which names the offset."""
    if data[:2] != _MAGIC:
        raise ValueError("it does not begin as a keytab of version 2 does")
    entries = []
    at = len(_MAGIC)
    while at < len(data):
        if at + _SIZE.size > len(data):
            raise ValueError(f"it ends in the middle of a record's size, at offset {at}")
        (size,) = _SIZE.unpack_from(data, at)
        start, end = at + _SIZE.size, at + _SIZE.size + abs(size)
        if size == 0:
            break
        if end > len(data):
            raise ValueError(f"the record at offset {at} goes beyond its end")
        if size > 0:
            try:
                entries.append(_entry(memoryview(data)[start:end]))
            except (struct.error, IndexError):
                raise ValueError(f"the entry at offset {at} is not whole") from None
        at = end
    return entries


def principals(entries: Iterable[KeytabEntry]) -> str:
    """Return the principals of the entries as text for people, but not too many of them."""
    names = sorted({one_line(each.principal, 200) for each in entries})
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return (", ".join(names[:MAX_NAMED]) or "none") + more


def problem_of(path: str, principal: str | None) -> str | None:
    """Return why the keytab at `path` cannot get tickets; None if it is readable and contains a key of the principal.

    The Kerberos libraries check keytabs of other formats.
    """
    try:
        entries = read_keytab(path)
    except KeytabUnreadable as error:
        return str(error)
    except KeytabError:
        return None
    if principal is None or any(each.principal == principal for each in entries):
        return None
    return f"keytab {path} holds no key of {principal} (on {socket.gethostname()}). It holds keys of: {principals(entries)}"


def _entry(entry: memoryview) -> KeytabEntry:
    (components,) = _LENGTH.unpack_from(entry)
    at = _LENGTH.size
    names = []
    for _ in range(components + 1):  # the realm comes first
        name, at = _data(entry, at)
        names.append("".join(_ESCAPED.get(char, char) for char in name.decode(errors="replace")))
    _, time, version, encryption = _REST.unpack_from(entry, at)
    _, at = _data(entry, at + _REST.size)
    if len(entry) - at >= _LONG_VERSION.size and (long := _LONG_VERSION.unpack_from(entry, at)[0]):
        version = long
    return KeytabEntry(f"{'/'.join(names[1:])}@{names[0]}", version, encryption, time)


def _data(entry: memoryview, at: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(entry, at)
    end = at + _LENGTH.size + length
    if end > len(entry):
        raise IndexError
    return bytes(entry[end - length : end]), end
