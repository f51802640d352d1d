"""A WAL that counts as finished leaves its queue without being read."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.hbase.wal.encoder import PUT, TRAILER, Cell, encode_entry, encode_header, encode_wal, entry
from walferry.base.protos.hbase_pb2 import WALHeader
from walferry.hbase.files import store, systems
from walferry.hbase.files.closedness import WalMissing
from walferry.hbase.files.errors import NoFileRight
from walferry.hbase.files.listing import SINGLY
from walferry.hbase.files.store import WalLocation, WalStore, WrongRoot
from walferry.hbase.names import ServerName, WalName, parse_wal_name
from walferry.replication.queues.queue import QueuedWal
from walferry.shipping.candidates import Candidate, GroupCandidates
from walferry.shipping.plan import GroupPlan, PlannedWal, _plans, plan_wal

SERVER = "rs-1.example.org,16020,1700000000001"
WAL = parse_wal_name("rs-1.example.org%2C16020%2C1700000000001.1700000000123")
HEADER = encode_header()
WHOLE = encode_wal([entry(), entry()], trailer=b"")


@pytest.fixture
def splitting(tmp_path: Path) -> Path:
    folder = tmp_path / f"WALs/{SERVER}-splitting"
    folder.mkdir(parents=True)
    return folder / WAL.text


def planned(store: WalStore, position: int = 0) -> PlannedWal:
    candidate = Candidate(QueuedWal(WAL, "/queue/wal", position), False, (SERVER,))
    return plan_wal(store, candidate, store.locate(WAL, (SERVER,)))


@pytest.mark.parametrize("beyond", [1, 1000, 10**9])
@pytest.mark.parametrize("data", [b"", HEADER, WHOLE, WHOLE + TRAILER], ids=["empty", "header", "entries", "closed"])
def test_a_position_that_no_such_file_has_does_not_make_it_finished(
    splitting: Path, tmp_path: Path, data: bytes, beyond: int
) -> None:
    """The job names it; swept away, nobody would."""
    splitting.write_bytes(data)
    assert not planned(WalStore(f"file://{tmp_path}"), len(data) + beyond).finished


def plans_of(folder: Path, *servers: str, archive: str | None = None) -> list[GroupPlan]:
    """The plans of groups of one WAL each."""
    names = [parse_wal_name(f"{ServerName.parse(server).encoded()}.17") for server in servers]
    groups = [
        GroupCandidates(name.group, server, "p", (Candidate(QueuedWal(name, "/queue/wal", 0), False, (server,)),), 1)
        for name, server in zip(names, servers, strict=True)
    ]
    session: Any = SimpleNamespace(store=WalStore(f"file://{folder}"), source=SimpleNamespace(archive=archive))
    return list(_plans(session, groups))


SERVERS = ("rs-1.example.org,16020,1", "rs-2.example.org,16020,1")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EIO])
def test_a_file_that_cannot_be_opened_is_its_group_s_problem_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    for server in SERVERS:
        (tmp_path / f"WALs/{server}").mkdir(parents=True)
        (tmp_path / f"WALs/{server}/{ServerName.parse(server).encoded()}.17").write_bytes(WHOLE + TRAILER)
    opened = os.open

    def refuse(path: str, flags: int) -> int:
        if "/rs-1" in path:
            raise OSError(code, os.strerror(code), path)
        return opened(path, flags)

    monkeypatch.setattr(systems.os, "open", refuse)
    broken, sound = plans_of(tmp_path, *SERVERS)
    assert broken.problem is not None
    assert f"file://{tmp_path}/WALs/rs-1.example.org,16020,1/" in broken.problem
    assert os.strerror(code) in broken.problem
    assert sound.problem is None
    assert [wal.name.startswith("rs-2") for wal in sound.wals] == [True]


def test_a_folder_that_must_not_be_entered_is_its_groups_problem_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "WALs").mkdir()
    (tmp_path / "oldWALs").mkdir()
    (tmp_path / f"oldWALs/{ServerName.parse(SERVERS[1]).encoded()}.17").write_bytes(WHOLE + TRAILER)
    look = os.stat

    def refuse(path: Any, **options: Any) -> os.stat_result:
        if "WALs/rs-1" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return look(path, **options)

    monkeypatch.setattr(systems.os, "stat", refuse)
    broken, sound = plans_of(tmp_path, *SERVERS)
    assert "The user that runs this must be able to read below wal_root" in str(broken.problem)
    assert sound.problem is None


def test_where_no_folder_may_be_entered_the_plan_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str) -> int:
        raise NoFileRight(f"{url}: Permission denied. The user that runs this must be able to read below wal_root")

    monkeypatch.setattr(store, "file_size", refuse)
    with pytest.raises(NoFileRight, match="must be able to read below wal_root"):
        plans_of(tmp_path, *(f"rs-{number}.example.org,16020,1" for number in range(SINGLY + 1)))


class Stale(WalStore):
    """HDFS told a length just before the lease of the file was recovered."""

    def __init__(self, root: str, size: int) -> None:
        super().__init__(root)
        self.size = size

    def locate(self, wal: WalName, dead_servers: Sequence[str] = ()) -> WalLocation | None:
        found = super().locate(wal, dead_servers)
        return found and replace(found, size=self.size)


@pytest.mark.parametrize(
    ("data", "position", "finished"),
    [
        (b"", 0, True),
        (HEADER, 0, True),
        (HEADER + TRAILER, 0, True),
        (WHOLE, 0, False),
        (WHOLE, len(WHOLE), True),
        (WHOLE + TRAILER, len(WHOLE), True),
        (HEADER[:-1], 0, False),
    ],
    ids=["empty", "header", "header and trailer", "entries", "all shipped", "all shipped, trailer", "part of a header"],
)
def test_a_closed_file_without_an_entry_behind_the_position_is_finished(
    splitting: Path, tmp_path: Path, data: bytes, position: int, finished: bool
) -> None:
    splitting.write_bytes(data)
    assert planned(WalStore(f"file://{tmp_path}"), position).finished == finished


@pytest.mark.parametrize("size", [0, len(HEADER)])
@pytest.mark.parametrize("trailer", [b"", TRAILER], ids=["unclean", "clean"])
def test_a_length_from_before_the_file_was_closed_does_not_make_it_finished(
    splitting: Path, tmp_path: Path, size: int, trailer: bytes
) -> None:
    splitting.write_bytes(WHOLE + trailer)
    assert not planned(Stale(f"file://{tmp_path}", size)).finished


def test_a_wal_that_is_nowhere_is_missing_only_where_wals_are(tmp_path: Path) -> None:
    with pytest.raises(WrongRoot, match="there is no such folder"):
        planned(WalStore(f"file://{tmp_path}/nowhere"))
    (tmp_path / "oldWALs").mkdir()
    with pytest.raises(WalMissing, match="is queued, but there is no such file"):
        planned(WalStore(f"file://{tmp_path}"))


def test_a_local_file_that_was_not_closed_is_as_long_as_it_is(splitting: Path, tmp_path: Path) -> None:
    splitting.write_bytes(WHOLE)
    wal = planned(WalStore(f"file://{tmp_path}", look_only=True))
    assert (wal.size, wal.growing) == (len(WHOLE), False)


def ending(value: bytes) -> bytes:
    """A file that was not closed, whose last value is this."""
    return encode_wal([entry(), entry(Cell(b"row", b"f", b"q", 1, PUT, value))], trailer=b"")


LAST = len(encode_header() + encode_entry(entry()))


@pytest.mark.parametrize("live", [True, False], ids=["live", "dead"])
@pytest.mark.parametrize("trailer", [b"", TRAILER], ids=["unclean", "clean"])
@pytest.mark.parametrize("fields", [0, 2, "all of the entry", "more than the file"])
def test_an_entry_whose_value_ends_like_a_trailer_is_not_swept_unread(
    tmp_path: Path, splitting: Path, fields: int | str, trailer: bytes, live: bool
) -> None:
    size = {"all of the entry": len(ending(bytes(12))) - LAST - 8, "more than the file": 5000}.get(str(fields), fields)
    assert isinstance(size, int)
    data = ending(b"\x08\1" * 2 + size.to_bytes(4) + b"LAWP") + trailer
    path = splitting
    if live:
        path = tmp_path / f"WALs/{SERVER}/{WAL.text}"
        path.parent.mkdir()
    path.write_bytes(data)
    store = WalStore(f"file://{tmp_path}")
    for position in (0, LAST):
        assert not planned(store, position).finished
    assert planned(store, len(data) - len(trailer)).finished == (bool(trailer) or not live)


def test_a_position_at_the_end_of_a_file_that_may_be_open_does_not_make_it_finished(tmp_path: Path) -> None:
    """The entry before it ends like a trailer, and more may follow; or HBase has written down the length of a closed file."""
    path = tmp_path / f"WALs/{SERVER}/{WAL.text}"
    path.parent.mkdir(parents=True)
    data = ending(TRAILER)
    path.write_bytes(data)
    store = WalStore(f"file://{tmp_path}")
    assert not planned(store, len(data)).finished
    (tmp_path / "oldWALs").mkdir()
    path.rename(tmp_path / "oldWALs" / WAL.text)
    assert planned(store, len(data)).finished


def test_a_header_that_ends_like_a_trailer_does_not_close_a_file(tmp_path: Path) -> None:
    path = tmp_path / f"WALs/{SERVER}/{WAL.text}"
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_header(WALHeader(has_compression=False, encryption_key=b"key" + TRAILER)))
    assert not planned(WalStore(f"file://{tmp_path}")).finished
