"""Compares a command's output with the output that a runbook shows, and fills in the values that its reader would fill in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tests.runbooks.reading import RunbookError

PLACEHOLDERS = ("PEER", "NEW", "SERVER", "QUEUE", "FILE", "BYTE", "TABLE", "REGION", "HOST")
_WORD = re.compile(rf"\b({'|'.join(PLACEHOLDERS)})\b")
_VALUE = r"[\w.,:/%=+@-]+"  # what stands for a placeholder can be a word of a command without quotes
_ANYTHING = "…"
_ANY = {"…": ".*?", " … ": " (?:.*? )?", "… ": "(?:.*? )?", " …": "(?: .*)?"}  # words of their own, or the rest of one
SHOWN_LINES = 40


def filled_in(text: str, known: Mapping[str, str]) -> str:
    """Return the text with the known values of its placeholders. Raises RunbookError for an unknown one."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise RunbookError(f"the runbook has not said what {match[1]} is: {text}")
        return known[match[1]]

    return _WORD.sub(value, text)


def compare(shown: Sequence[str], printed: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return all known values of placeholders, also from the printed text. Raises RunbookError for a missing shown line.

    The shown lines must be there in their order; there may be others between them.
    """
    found = dict(known)
    lines = [_spaced(line) for line in printed.splitlines()]
    at = 0
    for line in shown:
        if line == _ANYTHING:
            continue
        wanted = _spaced(line)
        pattern = re.compile(_pattern(wanted, found))
        for at_line in range(at, len(lines)):
            match = None if lines[at_line] == wanted else pattern.fullmatch(lines[at_line])
            if match is not None:
                found |= match.groupdict()
            elif lines[at_line] != wanted:
                continue
            at = at_line + 1
            break
        else:
            tail = "\n".join(lines[:SHOWN_LINES])
            raise RunbookError(f"the output has no line like this: {line}\nIt was:\n{tail}")
    return found


def _spaced(line: str) -> str:
    """Return the line without its columns."""
    return " ".join(line.split())


def _pattern(line: str, known: Mapping[str, str]) -> str:
    parts: list[str] = []
    named: set[str] = set()
    for piece in re.split(rf"( ?{_ANYTHING} ?|\b(?:{'|'.join(PLACEHOLDERS)})\b)", line):
        if _ANYTHING in piece:
            parts.append(_ANY[piece])
        elif piece in PLACEHOLDERS and piece in known:
            parts.append(re.escape(known[piece]))
        elif piece in PLACEHOLDERS:
            parts.append(f"(?P={piece})" if piece in named else f"(?P<{piece}>{_VALUE})")
            named.add(piece)
        else:
            parts.append(re.escape(piece))
    return "".join(parts)
