"""Why bytes of a file are not to be had, and what can be had of it."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import LINEAR, growth
from walferry.hbase.files import systems, unreadable
from walferry.hbase.files.closedness import Closed, Open, closedness, looks_closed
from walferry.hbase.files.errors import UnreadableBytes
from walferry.hbase.files.store import WalStore
from walferry.hbase.files.systems import copy_file, copy_what_is_left, open_wal
from walferry.hbase.files.unreadable import readable_bytes, reason_on_hdfs
from walferry.hbase.names import parse_wal_name

URL = "hdfs://nn/hbase/oldWALs/h%2C1%2C2.3"
DATA = os.urandom(300_000)
SERVER = "rs-1.example.org,16020,1700000000001"
WAL = parse_wal_name("rs-1.example.org%2C16020%2C1700000000001.1700000000123")
Break = Callable[[int, int], None]


@pytest.fixture
def break_disk(monkeypatch: pytest.MonkeyPatch) -> Break:
    """`break_disk(start, end)` → the disk gives no bytes from `start` to before `end` of any file any more."""
    read_fd = systems.read_fd

    def broken(start: int, end: int) -> None:
        def read(fd: int, offset: int, length: int) -> bytes:
            if offset < min(end, os.fstat(fd).st_size) and offset + length > start:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read_fd(fd, offset, length)

        monkeypatch.setattr(systems, "read_fd", read)

    return broken


def failed(*nodes: tuple[str, int]) -> RuntimeError:
    """What hdfs-native raises when each of these DataNodes has failed."""
    described = ", ".join(
        f'DatanodeInfoProto {{ id: DatanodeIdProto {{ ip_addr: \\"{host}\\", host_name: \\"{host}\\", datanode_uuid: \\"x\\", '
        f'xfer_port: {port}, info_port: 1 }}, location: Some(\\"/rack\\") }}'
        for host, port in nodes
    )
    return RuntimeError(f'DataTransferError("All DataNodes failed: [{described}]")')


def test_a_namenode_that_describes_very_many_datanodes_takes_time_in_proportion() -> None:
    def of(nodes: int) -> Callable[[], str]:
        failed = RuntimeError("All DataNodes failed: " + 'ip_addr: "h", host_name: "h", ' * nodes)
        return lambda: reason_on_hdfs(URL, failed, "")

    assert growth(of, 80_000) < LINEAR


def test_a_block_that_no_datanode_has_is_told_as_missing() -> None:
    reason = reason_on_hdfs(URL, failed(), "")
    assert reason.lost
    assert "their block is missing" in reason.why
    assert "hdfs fsck /hbase/oldWALs/h%2C1%2C2.3 -files -blocks -locations" in reason.advice


def test_datanodes_that_answer_have_damaged_copies_and_one_that_does_not_may_have_a_sound_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        there, away = ("127.0.0.1", listening.getsockname()[1]), ("127.0.0.1", 1)
        damaged = reason_on_hdfs(URL, failed(there, there), "")
        assert damaged.lost
        assert f"each DataNode that has them (127.0.0.1:{there[1]}) answers, but its copy is damaged or gone" in damaged.why
        unclear = reason_on_hdfs(URL, failed(there, away), "")
    assert not unclear.lost
    assert "does not answer (nothing listens on 127.0.0.1:1 (connection refused))" in unclear.why


def test_other_errors_are_told_as_they_are_and_nothing_is_taken_for_lost() -> None:
    for error, text in ((RuntimeError("ChecksumError"), "RuntimeError: ChecksumError"), (None, "no answer within 120 s")):
        reason = reason_on_hdfs(URL, error, text)
        assert not reason.lost
        assert text in reason.why


@given(st.integers(0, 5000), st.integers(1, 5000), st.integers(0, 5000))
def test_the_first_byte_that_cannot_be_had_is_found(offset: int, length: int, hole: int) -> None:
    reads = 0

    def read(at: int, count: int) -> bytes:
        nonlocal reads
        reads += 1
        if at <= offset + hole % length < at + count:
            raise OSError
        return bytes(count)

    assert readable_bytes(read, offset, length) == hole % length
    assert reads <= 16


def test_what_can_be_read_by_now_is_not_taken_for_lost() -> None:
    assert readable_bytes(lambda at, count: bytes(count), 7, 5000) == 5000


@pytest.mark.parametrize("code", unreadable.DAMAGED)
def test_a_disk_s_bad_sector_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    (tmp_path / "f").write_bytes(DATA)
    url = f"file://{tmp_path}/f"

    def read(fd: int, offset: int, length: int) -> bytes:
        if offset <= 1234 < offset + length:
            raise OSError(code, os.strerror(code))
        return DATA[offset : offset + length]

    monkeypatch.setattr(systems, "read_fd", read)
    with open_wal(url) as file, pytest.raises(UnreadableBytes, match=f"{url} at byte 1234: the disk does not give") as raised:
        file.read_at(1000, 1000)
    assert raised.value.lost


@pytest.mark.parametrize(
    ("start", "end", "holes"),
    [
        (100_000, 100_001, [(100_000, 131_072)]),
        (0, 200_000, [(0, 262_144)]),
        (250_000, 400_000, [(250_000, 300_000)]),
        (0, 1, [(0, 65_536)]),
    ],
)
def test_a_copy_of_what_is_left_has_zeros_in_the_place_of_lost_bytes(
    tmp_path: Path, break_disk: Break, start: int, end: int, holes: list[tuple[int, int]]
) -> None:
    (tmp_path / "f").write_bytes(DATA)
    source, target = f"file://{tmp_path}/f", f"file://{tmp_path}/copies/f"
    break_disk(start, end)
    with pytest.raises(UnreadableBytes):
        copy_file(source, target)
    assert not list((tmp_path / "copies").iterdir())
    assert copy_what_is_left(source, target) == holes
    expected = bytearray(DATA)
    for first, behind in holes:
        expected[first:behind] = bytes(behind - first)
    assert (tmp_path / "copies/f").read_bytes() == expected


def test_a_tail_that_cannot_be_had_does_not_keep_a_file_open_for_ever_unless_it_grows(
    tmp_path: Path, break_disk: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads it says what is wrong with it."""
    folder = tmp_path / f"WALs/{SERVER}"
    folder.mkdir(parents=True)
    (folder / WAL.text).write_bytes(DATA)
    store = WalStore(f"file://{tmp_path}")
    location = store.locate(WAL)
    assert location is not None
    break_disk(len(DATA) - 1, len(DATA))
    assert closedness(store, location) == Closed(None)
    with store.open(location) as file:
        assert looks_closed(file) is None
    monkeypatch.setattr(WalStore, "is_growing", lambda *_: True)  # its server may still write to it
    state = closedness(store, location)
    assert state == Open("its last bytes cannot be read, and HBase has neither archived it nor begun to split it")


def test_a_block_that_is_missing_is_asked_for_no_more_and_what_is_around_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def read(_: object, offset: int, length: int) -> bytes:
        asked.append((offset, length))
        if offset < 200 and offset + length > 100:
            raise RuntimeError("All DataNodes failed")
        return DATA[offset : offset + length]

    monkeypatch.setattr(systems._RemoteFile, "_open", lambda _: (SimpleNamespace(size=len(DATA)), threading.Lock()))
    monkeypatch.setattr(systems._RemoteFile, "_read", read)
    with pytest.raises(UnreadableBytes) as missing:
        (file := open_wal(URL)).read_at(0, 300)
    assert (missing.value.offset, missing.value.lost) == (100, True)
    asked.clear()
    assert (file.read_at(0, 100), file.read_at(200, 300)) == (DATA[:100], DATA[200:500])
    for offset, length in ((50, 51), (100, 1)):
        with pytest.raises(UnreadableBytes):
            file.read_at(offset, length)
    assert asked == [(0, 100), (200, 300)]
