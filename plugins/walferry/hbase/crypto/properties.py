"""Reads Java's properties files like java.util.Properties.load. A key provider's passwordFile is one."""

from __future__ import annotations

import re

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", re.DOTALL)


def parse_properties(data: bytes) -> dict[str, str]:
    """Parse names and values. If a name occurs several times, the last value counts."""
    found: dict[str, str] = {}
    unfinished = ""
    for line in re.split("\r\n|\r|\n", data.decode("latin-1")):
        line = line.lstrip(" \t\f")
        if not unfinished and (not line or line[0] in "#!"):
            continue
        line = unfinished + line
        if (len(line) - len(line.rstrip("\\"))) % 2:  # its end is escaped
            unfinished = line[:-1]
            continue
        unfinished = ""
        _take(line, found)
    if unfinished:
        _take(unfinished, found)
    return found


def _take(line: str, found: dict[str, str]) -> None:
    match = _KEY.match(line)
    assert match  # the pattern matches anything
    found[_unescaped(match[1])] = _unescaped(match[2])


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _ESCAPES.get(m[2] or "", m[2] or ""), text)
