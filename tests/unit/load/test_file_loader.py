"""The folder of one load is noted before it is used, deleted after it, and forgotten only once it is deleted. Files are written
there, checked, loaded call by call, and loaded again as long as the region is the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.hbase.hfiles.models import numbered
from tests.unit.hbase.wal.encoder import PUT, Cell
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.shipping.bulkload.jobs import job, targets
from walferry.base.errors import WalferryError
from walferry.base.security.login import UNSECURED, Login
from walferry.base.zk.errors import ConnectError
from walferry.hbase.files.errors import StoreError, UnreadableBytes
from walferry.hbase.hfiles.ends import FileEnd
from walferry.hbase.hfiles.opened import HFileInfo
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import RemoteError, RpcError, RpcTimeout
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable, ScanGivenUp
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.snapshots import SnapshotRegion, StoreFile
from walferry.initial_snapshot import files_copy
from walferry.initial_snapshot.files_copy import FoundFile, NeedsScan, copy_files
from walferry.load import file_loader
from walferry.load.errors import LoadOvertaken, NotLoaded, Overtaken
from walferry.load.file_loader import LOADS, TRIES, FileLoader, Tries, noted_folder
from walferry.load.numbered import Destination, StagedFile
from walferry.load.records import Folder
from walferry.shipping.bulkload import loading
from walferry.shipping.bulkload.job import PlannedRegion
from walferry.shipping.bulkload.loading import RegionLoader, TooLate
from walferry.shipping.bulkload.region_files import RegionFiles

SERVER = ServerName("rs", 16020, 1)
REGION = Region(b"t,,1.0123456789abcdef0123456789abcdef.", b"", b"", SERVER)
NOTED = ["prepare", Folder("token", "t", REGION.name.hex())]


class Place:
    """The peer cluster, which has one region."""

    table = "t"
    login: Any = UNSECURED
    region = REGION

    def place(self, table: str) -> Any:
        return self

    def locate(self, row: bytes, *, known: bool = False) -> Region:
        return self.region

    def connection(self, region: Region) -> Any:
        return "a connection"


class Note:
    """Notes what it is told. `refused` is raised when it is asked whether the load goes on."""

    def __init__(self, calls: list[Any], refused: Exception | None = None) -> None:
        self._calls = calls
        self._refused = refused

    def note(self, folder: Folder) -> None:
        self._calls.append(folder)

    def check(self) -> None:
        self._calls.append("check")
        if self._refused is not None:
            raise self._refused

    def forget(self) -> None:
        self._calls.append("forget")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is asked for, in order."""
    made: list[Any] = []

    def new_folder(server: str, table: str, region: bytes, root: str, login: Login, note: Callable[[str], object]) -> str:
        made.append("prepare")
        note("token")
        return "token"

    monkeypatch.setattr(file_loader, "new_folder", new_folder)
    monkeypatch.setattr(file_loader, "delete_noted", lambda place, token, region, root: made.append(f"delete {token}"))
    return made


def use_folder(calls: list[Any], *, surely: bool = False, error: Exception | None = None) -> None:
    place: Any = Place()
    with noted_folder(place, REGION, UNSECURED, "file:/x", Note(calls), surely=surely) as made:
        assert made == ("a connection", "token")
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [None, WalferryError("no"), KeyError("x"), NeedsScan("it was split"), StoreError("no room")])
def test_a_folder_is_deleted_and_forgotten_however_the_load_ends(calls: list[Any], error: Exception | None) -> None:
    if error is None:
        use_folder(calls)
    else:
        with pytest.raises(type(error)) as raised:
            use_folder(calls, error=error)
        assert raised.value is error
    assert calls == [*NOTED, "delete token", "forget"]


AWAY = [
    RpcError("the server is away"), RegionUnavailable("the server is away"), ConnectError("ZooKeeper: the server is away"),
    ScanGivenUp("hbase:meta", b"", 180.0, "the server is away"),
]  # fmt: skip


@pytest.mark.parametrize("failure", AWAY)
@pytest.mark.parametrize("surely", [False, True])
def test_the_note_of_a_folder_that_is_not_deleted_stays(
    calls: list[Any], surely: bool, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise failure

    monkeypatch.setattr(file_loader, "delete_noted", fails)
    if surely:
        with pytest.raises(type(failure), match="the server is away"):
            use_folder(calls, surely=True)
    else:
        use_folder(calls)
    assert calls == NOTED


@pytest.mark.parametrize("failure", AWAY)
def test_what_is_wrong_with_a_load_is_told_even_if_its_folder_is_not_deleted(
    calls: list[Any], failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has lost the queues must not take the load for one that may be begun anew."""

    def fails(*_: object) -> None:
        raise failure

    monkeypatch.setattr(file_loader, "delete_noted", fails)
    with pytest.raises(LoadOvertaken, match="over"):
        use_folder(calls, error=LoadOvertaken("over"))
    assert calls == NOTED


def test_the_note_of_a_folder_that_no_load_can_have_made_stays(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_loader, "delete_noted", lambda *_: "which is not a URL")
    use_folder(calls)
    assert calls == NOTED


def test_a_folder_of_a_table_that_is_gone_is_forgotten(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be loaded out of it."""

    def fails(*_: object) -> None:
        raise MissingTable("t", "peer_cluster")

    monkeypatch.setattr(file_loader, "delete_noted", fails)
    use_folder(calls)
    assert calls == [*NOTED, "forget"]


def test_the_folder_of_a_copy_whose_calls_were_answered_may_stay(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RpcError("refused")

    monkeypatch.setattr(file_loader, "delete_noted", fails)
    monkeypatch.setattr(file_loader, "load_numbered", Server(calls).load)
    copy_region(Place(), Note(calls), calls, monkeypatch)
    assert calls == [*NOTED, "write", "check", LOADED]


class Server:
    """Loads files; the first loads meet these errors."""

    def __init__(self, calls: list[Any], *errors: Exception, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._calls = calls
        self._errors = list(errors)
        self._meanwhile = meanwhile

    def load(self, _: object, to: Destination, files: list[StagedFile], source_id: str) -> None:
        self._calls.append(("load", *(file.url for file in files)))
        self._meanwhile()
        if self._errors:
            raise self._errors.pop(0)


Use = Callable[[Any, Note, list[Any], pytest.MonkeyPatch], object]


def copy_region(place: Any, note: Any, calls: list[Any], patch: pytest.MonkeyPatch) -> object:
    """Copy a region with one file, for an initial snapshot."""

    def copied(source: str, url: str, task: str) -> FileEnd:
        calls.append("write")
        return FileEnd(1, 0, url.encode())

    patch.setattr(files_copy, "copy_file", copied)
    found = [FoundFile(StoreFile(b"f", "0", 10, ()), "file:/0", HFileInfo(1, has_tags=False, cells=5))]
    loader = FileLoader(place, UNSECURED, "file:/source", "id")
    return copy_files(loader, SnapshotRegion("t", "1", b"", b"", ()), found, note)


def load_region(place: Any, note: Note, calls: list[Any], patch: pytest.MonkeyPatch) -> object:
    """Load a region's edits, of a backlog."""

    def written(self: RegionLoader, planned: PlannedRegion, family: bytes, runs: object, made: object, url: str) -> StagedFile:
        calls.append("write")
        return StagedFile(b"f", url, FileEnd(1, 0, url.encode()), cells=1)

    patch.setattr(RegionLoader, "_write", written)
    patch.setattr(loading, "LoadFolder", lambda *_: note)
    run = MemoryFile(numbered(Cell(b"row", b"f", b"q", 1, PUT, b"v"), 1))
    nothing: Any = None
    loader, planned = RegionLoader(job(targets(b"t")), nothing, place), PlannedRegion(b"t", REGION)
    return loader._load_part(planned, REGION, b"", {b"f": [run]}, RegionFiles())


both = pytest.mark.parametrize("use", [copy_region, load_region])
LOADED = ("load", "token/call0-0")


@both
def test_both_check_that_nobody_has_taken_over_right_before_the_load(
    use: Use, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_loader, "load_numbered", Server(calls).load)
    use(Place(), Note(calls), calls, monkeypatch)
    assert calls == [*NOTED, "write", "check", LOADED, "delete token", "forget"]


@both
@pytest.mark.parametrize("error", [LoadOvertaken("over"), Overtaken("over")])
def test_neither_loads_anything_once_another_has_taken_over(
    use: Use, calls: list[Any], error: WalferryError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_loader, "load_numbered", Server(calls).load)
    with pytest.raises(type(error)):
        use(Place(), Note(calls, refused=error), calls, monkeypatch)
    assert calls == [*NOTED, "write", "check", "delete token", "forget"]


@both
@pytest.mark.parametrize("error", [RpcTimeout("rs", "BulkLoadHFile", 9), RemoteError("rs", "x.NotServing", "no")])
def test_both_have_the_folder_deleted_after_a_load_that_had_no_answer(
    use: Use, calls: list[Any], error: RpcError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should the load still come, it finds no files."""
    monkeypatch.setattr(file_loader, "load_numbered", Server(calls, error).load)
    with pytest.raises(type(error)):
        use(Place(), Note(calls), calls, monkeypatch)
    assert calls == [*NOTED, "write", "check", LOADED, "delete token", "forget"]


@both
def test_both_write_files_again_that_got_no_number_and_check_again(
    use: Use, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_loader, "load_numbered", Server(calls, *[NotLoaded("no number")] * (LOADS - 1)).load)
    use(Place(), Note(calls), calls, monkeypatch)
    assert [call for call in calls if isinstance(call, tuple)] == [
        LOADED, ("load", "token/call0-0-again-0"), ("load", "token/call0-0-again-0-again-0"),
    ]  # fmt: skip
    assert (calls.count("write"), calls.count("check"), calls.count("prepare")) == (LOADS, LOADS, 1)
    calls.clear()
    monkeypatch.setattr(file_loader, "load_numbered", Server(calls, *[NotLoaded("no number")] * LOADS).load)
    with pytest.raises(NotLoaded):
        use(Place(), Note(calls), calls, monkeypatch)
    assert calls.count("write") == LOADS


@both
def test_neither_loads_again_into_a_region_that_was_split_meanwhile(
    use: Use, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place()

    def split() -> None:
        place.region = Region(b"t,,2.0123456789abcdef0123456789abcdee.", b"", b"m", SERVER)

    monkeypatch.setattr(file_loader, "load_numbered", Server(calls, NotLoaded("no"), meanwhile=split).load)
    with pytest.raises((NeedsScan, RegionUnavailable)):
        use(place, Note(calls), calls, monkeypatch)
    assert calls == [*NOTED, "write", "check", LOADED, "delete token", "forget"]


def test_a_backlog_s_files_are_not_written_again_after_its_deadline(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As late as between two tries in one folder."""
    late = lambda: monkeypatch.setattr(loading.time, "time", lambda: 1e12)  # noqa: E731
    monkeypatch.setattr(file_loader, "load_numbered", Server(calls, NotLoaded("no"), meanwhile=late).load)
    with pytest.raises(TooLate):
        load_region(Place(), Note(calls), calls, monkeypatch)
    assert calls.count("write") == 1


@both
def test_no_file_has_a_name_that_hbase_could_have_given(use: Use, calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of such a file the load would get no number (StoreFileInfo.HFILE_NAME_REGEX)."""
    monkeypatch.setattr(file_loader, "load_numbered", Server(calls, NotLoaded("no number")).load)
    use(Place(), Note(calls), calls, monkeypatch)
    names = [url.rpartition("/")[2] for call in calls if isinstance(call, tuple) for url in call[1:]]
    assert len(names) == 2
    assert not any(re.fullmatch(r"[0-9a-f]+(?:(?:_SeqId_[0-9]+_)|(?:_del))?", name) for name in names)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits before another try."""
    waited: list[float] = []
    monkeypatch.setattr(file_loader.Patience, "wait", lambda patience: waited.append(patience.seconds) or True)
    return waited


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (RpcTimeout("rs", "BulkLoadHFile", 9), True), (RegionUnavailable("it moves"), True),
        (FileNotFoundError(2, "it has moved"), True), (StoreError("no room"), True),
        (RemoteError("rs", "x.DoNotRetry", "no", do_not_retry=True), False), (MissingTable("t", "peer_cluster"), False),
        (UnreadableBytes("hdfs://nn/f", 7, "its block is missing", "See hdfs fsck /f", lost=True), False),
        (UnreadableBytes("hdfs://nn/f", 7, "a DataNode does not answer", "Start it"), True),
    ],
)  # fmt: skip
def test_a_load_is_begun_anew_only_where_that_may_help(waits: list[float], error: Any, helps: bool) -> None:
    assert Tries(seconds=7).again(error) is helps
    assert waits == [7] * helps


def test_files_that_are_not_loaded_end_the_tries_and_what_was_loaded_gives_new_ones(waits: list[float]) -> None:
    tries, no, full = Tries(StoreError), NotLoaded("no"), StoreError("no room")
    assert [tries.again(error) for error in (no, RpcError("away"), full)] == [True, True, TRIES > 2]
    tries.progress()
    assert [tries.again(no) for _ in range(TRIES)] == [True] * (TRIES - 1) + [False]
    assert all(Tries().again(full) for _ in range(9 * TRIES))
