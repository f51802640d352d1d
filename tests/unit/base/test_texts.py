"""Text from outside, as it is shown."""

from __future__ import annotations

import subprocess

import pytest

from walferry.base.texts import shell_word, visible


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


@pytest.mark.parametrize("name", ["p", "rs-1.example.org,16020,1/p-rs-2,16020,2", "ns_1:t.a"])
def test_a_plain_name_stands_in_a_command_as_it_is(name: str) -> None:
    assert shell_word(name) == name


@pytest.mark.parametrize("name", ["$(touch pwned)", "`id`", "a; b", "a'b", "a b", "~", "*", "", "x" * 9000 + "$(id)"])
def test_an_odd_name_is_one_word_for_a_shell_that_runs_nothing(name: str) -> None:
    ran = subprocess.run(["bash", "-c", f"printf '[%s]' {shell_word(name)}"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"[{visible(name, 2000)}]"
    assert "`" not in shell_word(name), "it would end the backticks around the command"


def test_a_line_break_in_a_name_does_not_end_a_command() -> None:
    assert shell_word("a\nid\n") == r"'a\u000aid\u000a'"
