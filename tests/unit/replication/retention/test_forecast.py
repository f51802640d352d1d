"""Until when the disk has room, at the rate at which held WALs grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from walferry.hbase.files import space
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.space import Space, space_at
from walferry.hbase.files.store import WalStore
from walferry.replication.retention.survey import Forecast, OldWal, forecast, rate_of

NOW = 1_800_000_000.0
HOUR = 3600.0


def wals(*written: float, size: int = 3600) -> list[OldWal]:
    return [OldWal(f"wal.{number}", size, NOW - ago, True) for number, ago in enumerate(written)]


def test_the_rate_is_what_was_written_since_the_oldest_held_wal() -> None:
    assert rate_of(wals(2 * HOUR, HOUR, 0), NOW) == 1.0


def test_only_the_last_day_counts() -> None:
    assert rate_of(wals(100 * HOUR, 25 * HOUR, 10 * HOUR, HOUR, 0), NOW) == pytest.approx(3 / 24)
    assert rate_of(wals(100 * HOUR), NOW) == 0.0


@pytest.mark.parametrize("written", [(), (60.0, 0.0), (-HOUR,)])
def test_a_short_history_tells_no_rate(written: tuple[float, ...]) -> None:
    assert rate_of(wals(*written), NOW) is None


def test_copies_take_room_too() -> None:
    room = Space(1000, 600)
    assert Forecast(2.0, 3.0, room).seconds_left == 100
    assert Forecast(0.0, 3.0, room).seconds_left is None
    assert Forecast(None, 3.0, room).seconds_left is None
    assert Forecast(2.0, 3.0, None).seconds_left is None


def test_the_space_of_a_local_disk(tmp_path: Path) -> None:
    found = forecast(WalStore(f"file://{tmp_path}"), wals(2 * HOUR, 0), NOW)
    assert found.space is not None
    assert 0 < found.space.remaining <= found.space.capacity
    assert (found.copies, found.bytes_per_second) == (1.0, 0.5)
    assert found.seconds_left == pytest.approx(found.space.remaining * 2)


def test_a_space_that_is_not_known_is_said_so(tmp_path: Path) -> None:
    found = forecast(WalStore(f"file://{tmp_path}/nowhere"), [], NOW)
    assert (found.space, found.seconds_left) == (None, None)
    assert found.problem == f"file://{tmp_path}/nowhere: No such file or directory"
    with pytest.raises(StoreError, match="s3a:// has no disk space that can be asked for"):
        space_at("s3a://bucket/hbase")


def test_a_name_node_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "namenodes", lambda url: [("localhost", 1)])
    with pytest.raises(StoreError, match=r"NameNode localhost:1: .*Connection refused"):
        space_at("hdfs://localhost:1/hbase")
