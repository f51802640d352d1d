"""Writes bytes as text like HBase's shell, logs and tools: printable ASCII as it is, all other bytes as \\x and two hex digits.

Source: HBase's Bytes.toStringBinary and Bytes.toBytesBinary (branch-2.6).
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\\x([0-9A-Fa-f]{2})?")


def to_binary_text(data: bytes) -> str:
    """Write bytes like Bytes.toStringBinary. Two byte strings never give the same text, because the backslash is escaped too."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != ord("\\") else f"\\x{byte:02X}" for byte in data)


def from_binary_text(text: str) -> bytes:
    """Read what `to_binary_text` writes. Raises ValueError for `\\x` without two hex digits.

    Like HBase, this keeps any other backslash. Unlike HBase, it reads lower-case hex digits, and it encodes characters beyond
    ASCII as UTF-8. Bytes of a command line that are not UTF-8 stay as they are.
    """
    data = text.encode(errors="surrogateescape")

    def byte(escape: re.Match[bytes]) -> bytes:
        if escape[1] is None:
            raise ValueError(f"{to_binary_text(data)}: two hex digits must follow \\x, and \\x5C means a backslash")
        return bytes.fromhex(escape[1].decode())

    return _ESCAPE.sub(byte, data)
