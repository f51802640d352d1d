"""Makes text from outside safe to show and keep."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from difflib import get_close_matches

MAX_WORD_CHARS = 2000


def one_line(text: str, max_chars: int) -> str:
    """Return the text as one line, cut at `max_chars`. Blanks replace line breaks and characters that control a terminal."""
    return "".join(char if char.isprintable() else " " for char in text[:max_chars])


def lines_only(text: str) -> str:
    """Return the text with its line breaks, and blanks in place of all other characters that control a terminal."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def visible(text: str, max_chars: int) -> str:
    r"""Return the text as one line that hides nothing, cut at `max_chars`.

    Characters that are invisible, or that change the order or the place of others, become escapes like "\u202e".
    """
    shown = "".join(char if char.isprintable() else _escaped(char) for char in text[:max_chars])
    return f"{shown}…" if len(text) > max_chars else shown


def shell_word(text: str) -> str:
    """Return a name from outside as a word for a command that an operator copies: a shell runs nothing in it.

    The word contains no backtick: texts put commands between backticks, and an operator may copy these too.
    """
    return shlex.quote(visible(text, MAX_WORD_CHARS)).replace("`", r"'$'\x60''")


def did_you_mean(names: Iterable[str], known: Collection[str]) -> str:
    """Return a phrase for the end of an error, with the known names most like the unknown ones; empty if none is similar."""
    nearest = dict.fromkeys(near for name in names for near in get_close_matches(name.lower(), known, n=1, cutoff=0.5))
    return f" (did you mean {', '.join(nearest)}?)" if nearest else ""


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
