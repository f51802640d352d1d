"""Makes text from outside fit to be shown and kept."""

from __future__ import annotations


def one_line(text: str, max_chars: int) -> str:
    """The text as one line, cut at `max_chars`. Blanks replace line breaks and characters that would control a terminal."""
    return "".join(char if char.isprintable() else " " for char in text[:max_chars])


def lines_only(text: str) -> str:
    """The text with its line breaks, and blanks in place of all other characters that would control a terminal."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)
