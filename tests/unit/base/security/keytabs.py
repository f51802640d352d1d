"""Keytabs of made-up keys, in MIT's format (see walferry.base.security.keytab)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

KEY = bytes(range(200, 232))


def data(text: str | bytes) -> bytes:
    """A counted string."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack(">H", len(raw)) + raw


def entry(
    components: Sequence[str], realm: str, *, version: int = 1, encryption: int = 18, time: int = 0, key: bytes = KEY,
    long_version: bool = True,
) -> bytes:  # fmt: skip
    """A record with an entry."""
    body = struct.pack(">H", len(components)) + data(realm) + b"".join(map(data, components))
    body += struct.pack(">IIBH", 1, time, version & 0xFF, encryption) + data(key)
    body += struct.pack(">I", version) if long_version else b""
    return struct.pack(">i", len(body)) + body


def keytab(*principals: str, version: int = 1) -> bytes:
    """A keytab with a key of each principal."""
    split = [(name.split("/"), realm) for name, _, realm in (each.rpartition("@") for each in principals)]
    return b"\x05\x02" + b"".join(entry(components, realm, version=version) for components, realm in split)
