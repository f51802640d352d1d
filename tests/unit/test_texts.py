"""Text from outside, as it is shown."""

from __future__ import annotations

import pytest

from walferry.texts import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rs-1.example.org,16020,1", "rs-1.example.org,16020,1"),
        ("größer Ω 表", "größer Ω 表"),
        ("a\nb\0", r"a\u000ab\u0000"),
        ("evil\u202egpj.exe\u200b", r"evil\u202egpj.exe\u200b"),
        ("\U000e0001", r"\U000e0001"),
        ("\ud800", r"\ud800"),
        ("x" * 11, "x" * 10 + "…"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text, 10 if text.startswith("xx") else 100) == shown
