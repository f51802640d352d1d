"""The data that files give about queued WALs, and how often they are looked at."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.hbase.wal.encoder import PUT, TRAILER, Cell, encode_entry, encode_header, encode_wal, entry
from tests.unit.observe.status.views import HOUR, SERVER, queue, wal
from walferry.hbase.files import systems
from walferry.observe.status import files as module
from walferry.observe.status.files import Files, FilesSeen, Read
from walferry.replication.queues.queue import Queue
from walferry.replication.source.cluster import SourceCluster

NOW = int(time.time() * 1000)
OLD, CLOSED, OPEN = NOW - 3 * HOUR, NOW - 2 * HOUR, NOW - HOUR
ENTRIES = [entry(Cell(b"r", b"f", b"q", 1, PUT, b"v"), write_time=OLD + number) for number in (7, 8)]
WHOLE = encode_wal(ENTRIES)
AFTER_FIRST = len(encode_header()) + len(encode_entry(ENTRIES[0]))
AFTER_LAST = len(WHOLE) - len(TRAILER)


class Site:
    """The files of one server's WALs, and how often any was opened or a folder listed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened = 0
        for name in (f"WALs/{SERVER}", "oldWALs"):
            (folder / name).mkdir(parents=True)
        self.files = Files(SourceCluster(quorum="zk", wal_root=f"file://{folder}"))

    def put(self, begun: int, data: bytes = WHOLE, where: str = f"WALs/{SERVER}") -> str:
        name = wal(begun).name.text
        (self.folder / where / name).write_bytes(data)
        return name

    def look(self, *queues: Queue, **options: int) -> FilesSeen:
        return self.files.look(queues, **options)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    open_wal = systems.open_wal

    def counted(url: str, **options: float) -> systems.OpenWal:
        made.opened += 1
        return open_wal(url, **options)

    monkeypatch.setattr("walferry.hbase.files.store.open_wal", counted)
    return made


@pytest.mark.parametrize(("position", "written"), [(0, OLD + 7), (AFTER_FIRST, OLD + 8)], ids=["the first", "behind it"])
def test_the_first_entry_behind_the_position_is_read_once(site: Site, position: int, written: int) -> None:
    name = site.put(OLD)
    for _ in range(3):
        seen = site.look(queue(wal(OLD, position), wal(OPEN)))
        assert seen.read_at(name, position) == Read(written)
    assert site.opened == 1
    assert seen.sizes == {name: len(WHOLE)}
    assert seen.problem is None


def test_a_wal_that_two_peers_have_is_opened_once(site: Site) -> None:
    name = site.put(OLD)
    both = [queue(wal(OLD), wal(OPEN), queue_id=peer_id) for peer_id in ("p", "q")]
    assert site.look(*both).read_at(name, 0) == Read(OLD + 7)
    assert site.opened == 1


def test_wals_that_are_shipped_are_passed_over(site: Site) -> None:
    first, second = site.put(OLD), site.put(CLOSED, encode_wal([entry(write_time=CLOSED + 5)]))
    seen = site.look(queue(wal(OLD, AFTER_LAST), wal(CLOSED), wal(OPEN)))
    assert seen.read_at(first, AFTER_LAST) == Read(None)
    assert seen.read_at(second, 0) == Read(CLOSED + 5)


@pytest.mark.parametrize(
    ("data", "known"),
    [(b"", None), (encode_header(), None), (encode_wal([]), Read(None)), (encode_wal(ENTRIES, trailer=b""), Read(OLD + 7))],
    ids=["empty", "a header", "closed", "entries"],
)
def test_a_live_server_s_wal_without_a_trailer_may_still_get_entries(site: Site, data: bytes, known: Read | None) -> None:
    name = site.put(OLD, data)
    assert site.look(queue(wal(OLD), wal(OPEN))).read_at(name, 0) == known


def test_the_open_wal_is_read_as_far_as_it_is_written_and_again_some_time_later(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = site.put(OPEN, encode_header())
    alone = queue(wal(OPEN))
    before = int(time.time() * 1000)
    empty = site.look(alone).read_at(name, 0)
    assert empty is not None
    assert (empty.written_ms, before <= (empty.open_ms or 0)) == (None, True)
    site.put(OPEN, encode_header() + encode_entry(entry(write_time=OPEN + 9)))
    assert site.look(alone).read_at(name, 0) == empty  # it was read a moment ago
    monkeypatch.setattr(module, "OPEN_SECONDS", -1.0)
    assert site.look(alone).read_at(name, 0) == Read(OPEN + 9)


def test_an_empty_open_wal_is_read_again_as_soon_as_it_is_closed(site: Site) -> None:
    name = site.put(OPEN, encode_header())
    site.look(queue(wal(OPEN)))
    site.put(OPEN, encode_wal([entry(write_time=OPEN + 9)]))
    assert site.look(queue(wal(OPEN), wal(NOW))).read_at(name, 0) == Read(OPEN + 9)


@pytest.mark.parametrize("data", [b"not a WAL", WHOLE[: AFTER_FIRST + 3], b"PWAL" + b"\xff" * 100], ids=["text", "cut", "long"])
def test_a_broken_file_tells_nothing_and_is_left_alone_for_a_while(site: Site, data: bytes) -> None:
    name = site.put(OLD, data)
    for _ in range(3):
        seen = site.look(queue(wal(OLD, AFTER_FIRST), wal(OPEN)))
        assert seen.read_at(name, AFTER_FIRST) is None
    assert site.opened <= 2  # once for the entry, once for the trailer
    assert seen.problem is None


def test_so_many_files_are_opened_in_a_look_and_the_others_in_later_ones(site: Site) -> None:
    servers = [f"rs-{number}.example.org,16020,1700000000001" for number in range(10, 16)]
    queues = [
        queue(wal(OLD + number, server=server), wal(OPEN, server=server), server=server) for number, server in enumerate(servers)
    ]
    other = replace(queue(wal(CLOSED), wal(OPEN), queue_id="q"), server=SERVER)
    site.put(CLOSED, encode_wal([entry(write_time=CLOSED + 5)]))
    for number, server in enumerate(servers):
        (site.folder / "WALs" / server).mkdir()
        (site.folder / "WALs" / server / wal(OLD + number, server=server).name.text).write_bytes(WHOLE)
    first = site.look(*queues, other, max_opens=2)
    assert set(first.reads) == {(wal(OLD, server=servers[0]).name.text, 0), (wal(CLOSED).name.text, 0)}  # peers have their turns
    for _ in range(5):
        last = site.look(*queues, other, max_opens=1)
    assert len(last.reads) == 7


def test_sizes_of_closed_wals_are_kept_and_others_looked_up_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    locate_all = module.locate_all

    def counted(store: object, wanted: list[object]) -> object:
        asked.append(len(wanted))
        return locate_all(store, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "locate_all", counted)
    just_now = int(time.time() * 1000)  # NOW may be minutes ago
    site.put(OLD, where="oldWALs")
    site.put(CLOSED)
    site.put(OPEN)
    for _ in range(2):
        seen = site.look(queue(wal(OLD), wal(CLOSED), wal(OPEN), wal(just_now)))
        assert len(seen.sizes) == 3
    assert asked == [3, 1]  # the last one was closed a moment ago, so its length may not be final
    assert site.look(queue(wal(CLOSED), wal(just_now))).sizes.keys() == {wal(CLOSED).name.text}


def test_the_newest_wal_of_a_dead_server_may_have_grown_until_it_is_archived(site: Site) -> None:
    site.put(OLD)
    newest = site.put(CLOSED)
    dead = queue(wal(OLD), wal(CLOSED), live=False)
    assert site.look(dead).growing == {newest}
    (site.folder / f"WALs/{SERVER}" / newest).rename(site.folder / "oldWALs" / newest)
    assert site.look(dead).growing == frozenset()


def test_a_missing_file_has_no_size(site: Site) -> None:
    seen = site.look(queue(wal(OLD), wal(OPEN)))
    assert (seen.sizes, seen.reads, seen.problem) == ({}, {}, None)


def test_a_wrong_folder_is_a_problem_and_no_error(tmp_path: Path) -> None:
    seen = Files(SourceCluster(quorum="zk", wal_root=f"file://{tmp_path}")).look([queue(wal(OLD), wal(OPEN))])
    assert "neither WALs nor oldWALs" in (seen.problem or "")
    assert seen.sizes == {}


def test_what_left_the_queues_is_forgotten(site: Site) -> None:
    site.put(OLD)
    site.look(queue(wal(OLD), wal(OPEN)))
    site.look(queue(wal(OPEN)))
    assert not site.files._reads
    assert not site.files._sizes
