"""Bytes as HBase's shell shows them (Bytes.toStringBinary), so that nothing in a row can control a terminal or a page."""

from __future__ import annotations

MAX_SHOWN_BYTES = 200
_PLAIN = frozenset(b" !#$%&()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~")


def shown(data: bytes, at_most: int = MAX_SHOWN_BYTES) -> str:
    """The bytes as text. Everything but plain ASCII is written as \\xNN, and so are <, >, quotes and backslashes."""
    text = "".join(chr(byte) if byte in _PLAIN else f"\\x{byte:02X}" for byte in data[:at_most])
    return text + ("…" if len(data) > at_most else "")
