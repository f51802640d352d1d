"""Text from outside, as it may be shown and kept."""

from __future__ import annotations


def one_line(text: str, max_chars: int) -> str:
    """The text in one line, cut at `max_chars`; a blank stands for each line break, and for what would control a terminal."""
    return "".join(char if char.isprintable() else " " for char in text[:max_chars])
