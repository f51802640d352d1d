"""Makes text from outside fit to be shown and kept."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from difflib import get_close_matches

MAX_WORD_CHARS = 2000


def one_line(text: str, max_chars: int) -> str:
    """The text as one line, cut at `max_chars`. Blanks replace line breaks and characters that would control a terminal."""
    return "".join(char if char.isprintable() else " " for char in text[:max_chars])


def lines_only(text: str) -> str:
    """The text with its line breaks, and blanks in place of all other characters that would control a terminal."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def visible(text: str, max_chars: int) -> str:
    r"""The text as one line that hides nothing, cut at `max_chars`.

    Characters that cannot be seen, or that change the order or the place of others, are written as in "\u202e".
    """
    shown = "".join(char if char.isprintable() else _escaped(char) for char in text[:max_chars])
    return f"{shown}…" if len(text) > max_chars else shown


def shell_word(text: str) -> str:
    """A name from outside as it may stand in a command that an operator copies: one word, in which a shell runs nothing.

    It has no backtick, since texts put commands between backticks, and an operator may copy these too.
    """
    return shlex.quote(visible(text, MAX_WORD_CHARS)).replace("`", r"'$'\x60''")


def did_you_mean(names: Iterable[str], known: Collection[str]) -> str:
    """The known names that are most like these unknown ones, as an error may end with them; empty if none is like any."""
    nearest = dict.fromkeys(near for name in names for near in get_close_matches(name.lower(), known, n=1, cutoff=0.5))
    return f" (did you mean {', '.join(nearest)}?)" if nearest else ""


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
