"""A file counts as broken only if its bytes are wrong or lost."""

from __future__ import annotations

from walferry.hbase.files.errors import UnreadableBytes
from walferry.hbase.files.quarantine import is_broken
from walferry.hbase.wal.errors import WalCorruptError, WalPositionError, WalUnsupportedError

URL = "hdfs://nn/hbase/oldWALs/h%2C1%2C2.3"


def test_bytes_that_a_silent_server_may_have_are_not_lost() -> None:
    assert [is_broken(UnreadableBytes(URL, 7, "why", "what", lost=lost)) for lost in (True, False)] == [True, False]


def test_a_sound_file_is_never_put_aside() -> None:
    assert [is_broken(kind(URL, 7, "why")) for kind in (WalCorruptError, WalPositionError, WalUnsupportedError)] == [
        True, False, False,
    ]  # fmt: skip
