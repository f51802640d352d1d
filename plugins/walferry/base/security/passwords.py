"""Reads passwords, which stand in files of their own."""

from __future__ import annotations

MAX_PASSWORD_BYTES = 1024


def password_in(path: str) -> bytes:
    """The password in a file, without the end of its line. Raises OSError, and ValueError for what is too long to be one."""
    with open(path, "rb") as file:
        found = file.read(MAX_PASSWORD_BYTES + 1)
    if len(found) > MAX_PASSWORD_BYTES:
        raise ValueError(f"{path} holds more than {MAX_PASSWORD_BYTES} bytes, so it is no password")
    return found.rstrip(b"\r\n")
