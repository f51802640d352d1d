"""Searches everything that others can read for the secrets of a test, in each form that a secret may take on its way."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote_from_bytes


def forms(secret: bytes) -> set[bytes]:
    """Return the secret as it is, in hexadecimal digits, in Base64 at any offset, and escaped as in Python, URLs and HBase."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode(), secret.hex(":").encode()}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + secret)
        inner = encoded[(before * 8 + 5) // 6 : len(secret + b"\0" * before) * 8 // 6]  # depends on the secret alone
        found |= {inner, inner.translate(bytes.maketrans(b"+/", b"-_"))}
    by_hbase = "".join(f"\\x{byte:02X}" for byte in secret).encode()
    return found | {repr(secret)[2:-1].encode(), quote_from_bytes(secret).encode(), by_hbase}


def keys_of(keytab: bytes) -> list[bytes]:
    """Return the keys in a keytab of version 2, whose entries are separated by their sizes."""
    keys, at = [], 2
    while at < len(keytab):
        (size,) = struct.unpack_from(">i", keytab, at)
        entry = keytab[at + 4 : at + 4 + size]
        (components,) = struct.unpack_from(">H", entry)
        behind = 2
        for _ in range(components + 1):  # the realm comes first
            behind += 2 + struct.unpack_from(">H", entry, behind)[0]
        behind += 4 + 4 + 1 + 2  # name type, time, version, encryption
        (length,) = struct.unpack_from(">H", entry, behind)
        keys.append(entry[behind + 2 : behind + 2 + length])
        at += 4 + size
    return keys


def leaked(secrets: Mapping[str, bytes], places: Mapping[str, str | bytes]) -> list[str]:
    """Return which secrets stand in which places."""
    seen = {place: text if isinstance(text, bytes) else text.encode() for place, text in places.items()}
    return [
        f"{name} in {place}" for name, secret in secrets.items() for place, text in seen.items()
        if any(form in text for form in forms(secret))
    ]  # fmt: skip


def files_under(folder: Path, besides: Iterable[Path] = ()) -> dict[str, bytes]:
    """Return the content of all files of a folder, such as logs, without files that contain the secrets themselves."""
    left_out = set(besides)
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path not in left_out}
