"""Files count as loaded only if they themselves have got a sequence number, whatever else comes into the region meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.shipping.bulkload.jobs import SERVER
from walferry.base.security.login import UNSECURED
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import open_wal
from walferry.hbase.hfiles.ends import FileEnd
from walferry.hbase.names import family_folder
from walferry.hbase.tables.regions import Region
from walferry.load import numbered
from walferry.load.errors import NotLoaded
from walferry.load.numbered import Destination, StagedFile, load_numbered

REGION = Region(b"ns:t,,1.abc.", b"", b"", SERVER)
NUMBER = "_SeqId_77_"


@dataclass
class PeerCluster:
    """A region as HBase has it, on the local disk. `events` put more files into it during the load."""

    root: Path
    events: list[Callable[[], Any]] = field(default_factory=list)
    number: str = NUMBER  # what the load gets: empty if a flush is under way
    loads: bool = True
    made: int = 0

    def __post_init__(self) -> None:
        self.token.mkdir(parents=True)
        self.put("f", "from before_SeqId_3_", b"old")
        self.put("g", "from before", b"old")

    @property
    def token(self) -> Path:
        return self.root / "staging" / f"u__ns_t__{'0a' * 30}"

    @property
    def store(self) -> Path:
        return self.root / "data" / "ns" / "t" / "abc"

    def put(self, family: str, name: str, data: bytes = b"other") -> Path:
        path = self.store / family / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def flush(self) -> None:
        """Make a file whose name has no number, as a flush, a compaction or a load without a number does."""
        self.made += 1
        self.put("f", f"flushed{self.made}")

    def other_load(self, data: bytes = b"of another") -> None:
        self.made += 1
        self.put("f", f"loaded{self.made}_SeqId_{80 + self.made}_", data)

    def load(self, files: Sequence[tuple[bytes, str]]) -> bool:
        for event in self.events:
            event()
        for family, url in files if self.loads else ():
            self.made += 1
            self.put(family_folder(family), f"mine{self.made}{self.number}", Path(url.removeprefix("file:")).read_bytes())
        return self.loads

    def files(self, families: Sequence[bytes]) -> list[str]:
        return [str(path) for family in families for path in (self.store / family_folder(family)).iterdir()]

    def staged(self, family: str = "f", data: bytes = b"cells|mine") -> StagedFile:
        path = self.token / family / "mine"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        with open_wal(f"file:{path}") as file:
            return StagedFile(family.encode(), f"file:{path}", FileEnd.of(file, 5))

    def have_loaded(self, *files: StagedFile) -> None:
        server: Any = SimpleNamespace(server=SERVER)
        load_numbered(
            server, Destination("ns:t", REGION, f"file:{self.token}", UNSECURED), files or (self.staged(),), "source-id"
        )


@pytest.fixture
def peer_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PeerCluster:
    made = PeerCluster(tmp_path / "hbase")
    monkeypatch.setattr(numbered.admin, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(numbered.bulk_load, "store_files", lambda asked, region, families: made.files(families))
    monkeypatch.setattr(numbered.bulk_load, "load", lambda server, region, token, files, ids: made.load(files))
    return made


def test_a_load_that_gets_a_number_counts(peer_cluster: PeerCluster) -> None:
    peer_cluster.have_loaded()
    peer_cluster.have_loaded(peer_cluster.staged("f"), peer_cluster.staged("g"))


@pytest.mark.parametrize("others", [0, 1])
def test_a_load_without_a_number_does_not_count_whatever_other_loads_have(peer_cluster: PeerCluster, others: int) -> None:
    """A server that is just flushing loads files without a number: a load that flushes has one at the same time."""
    peer_cluster.number = ""
    peer_cluster.events = [peer_cluster.other_load] * others
    with pytest.raises(NotLoaded, match=r"region abc of table ns:t: .* a sequence number"):
        peer_cluster.have_loaded()


@pytest.mark.parametrize("family", [b"L#0", "é?".encode(), b"\xe9", b"\xff\xfe"])
@pytest.mark.parametrize("number", [NUMBER, ""])
def test_the_files_of_a_family_are_known_whatever_bytes_its_name_has(
    peer_cluster: PeerCluster, family: bytes, number: str
) -> None:
    peer_cluster.number = number
    peer_cluster.put(family_folder(family), "from before_SeqId_3_")
    file = replace(peer_cluster.staged(), family=family)
    with pytest.raises(NotLoaded, match="without a sequence number") if not number else nullcontext():
        peer_cluster.have_loaded(file)


def test_another_load_of_the_same_size_is_not_taken_for_this_one(peer_cluster: PeerCluster) -> None:
    peer_cluster.number = ""
    peer_cluster.events = [lambda: peer_cluster.other_load(b"cells|MINE")]
    with pytest.raises(NotLoaded, match="is not known"):
        peer_cluster.have_loaded()


def test_a_flush_at_the_same_time_does_no_harm(peer_cluster: PeerCluster) -> None:
    peer_cluster.events = [peer_cluster.flush, peer_cluster.other_load, peer_cluster.flush]
    peer_cluster.have_loaded()


def test_each_family_needs_a_number_of_its_own(peer_cluster: PeerCluster) -> None:
    peer_cluster.events = [lambda: peer_cluster.put("g", "flushed")]
    peer_cluster.have_loaded(peer_cluster.staged("f"), peer_cluster.staged("g"))

    peer_cluster.number = ""
    peer_cluster.events = [peer_cluster.other_load]
    with pytest.raises(NotLoaded):
        peer_cluster.have_loaded(peer_cluster.staged("f"), peer_cluster.staged("g"))


def test_without_the_right_to_read_the_peer_cluster_s_files_only_a_load_beside_a_flush_is_in_doubt(
    peer_cluster: PeerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(url: str) -> Any:
        raise StoreError(f"{url}: Permission denied")

    file = peer_cluster.staged()
    monkeypatch.setattr(numbered, "open_wal", refuse)
    peer_cluster.have_loaded(file)
    peer_cluster.events = [peer_cluster.other_load]
    peer_cluster.have_loaded(file)
    peer_cluster.events = [peer_cluster.flush]
    with pytest.raises(NotLoaded, match="is not known"):
        peer_cluster.have_loaded(file)


def test_of_very_many_files_not_all_are_opened(peer_cluster: PeerCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = numbered.open_wal

    def noted(url: str) -> Any:
        opened.append(url)
        return real(url)

    peer_cluster.events = [peer_cluster.flush, *[peer_cluster.other_load] * 300]
    file = peer_cluster.staged(data=b"no other has it")
    peer_cluster.number = ""
    monkeypatch.setattr(numbered, "open_wal", noted)
    with pytest.raises(NotLoaded, match="is not known"):
        peer_cluster.have_loaded(file)
    assert len(opened) == numbered.MOST_OPENED


def test_no_file_is_opened_elsewhere_because_of_a_region_s_name(
    peer_cluster: PeerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbered, "open_wal", lambda url: pytest.fail(f"{url} was opened"))
    monkeypatch.setattr("tests.unit.load.test_numbered.REGION", Region(b"ns:t,,1./../../../../WALs.", b"", b"", SERVER))
    peer_cluster.events = [peer_cluster.flush]
    with pytest.raises(NotLoaded, match="is not known"):
        peer_cluster.have_loaded()


def test_what_is_not_loaded_is_told_with_the_server(peer_cluster: PeerCluster) -> None:
    peer_cluster.loads = False
    with pytest.raises(NotLoaded, match=r"has not loaded its files.*RegionServer rs,16020,1"):
        peer_cluster.have_loaded()


@pytest.mark.parametrize("path", ["", "x", "/", "/f/", "/f/..", "/f/a_SeqId_1_/b", "/f/_SeqId_1_x", "/f/a\x1b[2J_SeqId_1_"])
def test_odd_paths_of_files_are_no_numbers(peer_cluster: PeerCluster, path: str) -> None:
    looks = [[], [path]]
    peer_cluster.files = lambda families: looks.pop(0)  # type: ignore[method-assign]
    with pytest.raises(NotLoaded):
        peer_cluster.have_loaded()
