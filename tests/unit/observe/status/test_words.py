"""Parts of a status in words."""

from __future__ import annotations

from walferry.observe.status import words
from walferry.observe.status.model import BytesLeft


def test_bytes_of_which_a_part_is_not_known_say_so() -> None:
    assert words.left(None) == "unknown"
    assert words.left(BytesLeft(1024, 0)) == "1.0 kB"
    assert words.left(BytesLeft(1024, 2)) == "1.0 kB and 2 WALs of unknown size"
    assert words.left(BytesLeft(0, 1)) == "1 WAL of unknown size"
