"""Bytes as text, in HBase's way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.binary_text import from_binary_text, to_binary_text


@given(st.binary())
def test_text_is_read_back_as_the_same_bytes(data: bytes) -> None:
    assert from_binary_text(to_binary_text(data)) == data


@given(st.binary())
def test_text_is_printable_ascii(data: bytes) -> None:
    text = to_binary_text(data)
    assert text.isascii()
    assert all(char.isprintable() for char in text)


@given(st.text())
def test_text_without_escapes_means_its_utf_8(text: str) -> None:
    assert from_binary_text(text.replace("\\", "")) == text.replace("\\", "").encode()


def test_bytes_that_are_not_printable_ascii_are_escaped_like_the_backslash() -> None:
    assert to_binary_text(b"a\x00\x7f\xffz\\~ ") == "a\\x00\\x7F\\xFFz\\x5C~ "


def test_escapes_may_have_lower_case_digits_and_other_backslashes_stand_for_themselves() -> None:
    assert from_binary_text("\\xab\\n\\") == b"\xab\\n\\"


def test_bytes_of_the_command_line_that_are_not_utf_8_stay() -> None:
    assert from_binary_text(b"a\xff".decode(errors="surrogateescape")) == b"a\xff"


@pytest.mark.parametrize("text", ["\\x", "a\\x0", "\\xg0", "\\x0g"])
def test_an_unfinished_escape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="two hex digits"):
        from_binary_text(text)
