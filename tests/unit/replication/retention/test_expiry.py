"""The archive's TTL."""

from __future__ import annotations

import os
import time
from pathlib import Path

from walferry.hbase.files.systems import write_file
from walferry.hbase.names import parse_wal_name
from walferry.replication.retention.archive import Expired, WalArchive, expire

GROUPS = [f"rs-{number}.example.org%2C16020%2C1700000000001" for number in (1, 2)]
DAY = 86400.0


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_copies_older_than_the_ttl_go_with_what_killed_copiers_have_left(tmp_path: Path) -> None:
    archive = WalArchive(f"file://{tmp_path}")

    def put(name: str, age: float, group: str = GROUPS[0]) -> None:
        url = f"{archive.url_of(parse_wal_name(f'{group}.1')).rpartition('/')[0]}/{name}"
        write_file(url, b"edits")
        os.utime(url.removeprefix("file://"), (time.time() - age, time.time() - age))

    put(f"{GROUPS[0]}.1", 31 * DAY)
    put(f"{GROUPS[0]}.2", 29 * DAY)
    put(f"{GROUPS[0]}.3.0123.part", 2 * DAY)
    put(f"{GROUPS[0]}.4.0123.part", 60)
    put("README", 99 * DAY)
    put(f"{GROUPS[1]}.1", 99 * DAY, GROUPS[1])
    write_file(f"file://{tmp_path}/notes/download.part", b"not ours")
    os.utime(tmp_path / "notes" / "download.part", (1, 1))
    assert expire(archive, 30 * DAY) == Expired(kept=1, kept_bytes=5, deleted=3, deleted_bytes=15)
    left = [f"{GROUPS[0]}.2", f"{GROUPS[0]}.4.0123.part", "README", "download.part", "notes", GROUPS[0].replace("%", "%25")]
    assert kept(tmp_path) == sorted(left)
    assert expire(archive, 30 * DAY) == Expired(kept=1, kept_bytes=5, deleted=0, deleted_bytes=0)


def test_an_archive_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    assert expire(WalArchive(f"file://{tmp_path}/nowhere"), 1.0) == Expired(0, 0, 0, 0)
