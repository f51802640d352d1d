"""A region's file is written once for several peers, and each of them gets the same bytes once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np
import pytest

from tests.unit.hbase.hfiles.models import stored
from tests.unit.hbase.wal.encoder import PUT, Cell
from walferry.base.kernels.types import Bytes
from walferry.hbase.hfiles.blocks import Compression
from walferry.hbase.hfiles.ends import FileEnd
from walferry.hbase.hfiles.errors import BadCells
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.settings import FileSettings
from walferry.shipping.bulkload import region_files
from walferry.shipping.bulkload.region_files import LocalFile, RegionFiles

PLAIN, ZIPPED = FileSettings(), FileSettings(compression=Compression.GZ)


class Writer:
    """Writes the same cells for peers, each time with another name in the file, and counts how often they are read."""

    def __init__(self, *, wanted: bool = True, disk: LocalFile | None = None) -> None:
        self.files, self.disk = RegionFiles(), disk or LocalFile()
        self.files.wanted = wanted
        self.read = 0

    def write(
        self, peer: str, family: bytes = b"f", settings: FileSettings = PLAIN, rows: tuple[bytes, ...] = (b"a", b"b")
    ) -> tuple[bytes, FileEnd]:
        written: list[bytes] = []

        def cells() -> Iterator[Bytes]:
            self.read += 1
            yield np.frombuffer(b"".join(stored(Cell(row, family, b"q", 1, PUT, b"value")) for row in rows), np.uint8)

        name = Origin(1, f"walferry {peer} {self.read}")
        done = self.files.write(lambda data: written.append(bytes(data)), peer, family, settings, cells(), name, self.disk)
        assert done is not None
        assert done.cells == 2
        return b"".join(written), done.end


def test_other_peers_get_the_bytes_that_the_first_one_got() -> None:
    writer = Writer()
    first = writer.write("p")
    assert [writer.write("q"), writer.write("r")] == [first, first]
    assert writer.read == 1


def test_other_families_and_settings_have_files_of_their_own() -> None:
    writer = Writer()
    found = [writer.write("p"), writer.write("p", b"g"), writer.write("q", settings=ZIPPED), writer.write("q", b"g")]
    assert writer.read == 3
    assert found[3] == found[1]
    assert len(set(found)) == 3


def test_a_peer_that_needs_a_file_again_gets_one_with_another_end() -> None:
    """Of two files with one end nobody could say which of them has got a number."""
    writer = Writer()
    found = [writer.write(peer)[1] for peer in ("p", "p", "q", "q")]
    assert found[2] == found[0]
    assert len(set(found)) == 3


def test_nothing_is_kept_for_one_peer() -> None:
    writer = Writer(wanted=False)
    assert writer.write("p")
    assert writer.disk.size == 0


@pytest.mark.parametrize("full", ["it cannot be made", "it takes nothing", "it takes some"])
def test_a_full_disk_costs_nothing_but_the_copy(monkeypatch: pytest.MonkeyPatch, full: str) -> None:
    def file() -> IO[bytes]:
        if full == "it cannot be made":
            raise OSError(28, "No space left on device")
        return open("/dev/full", "w+b", buffering=0 if full == "it takes nothing" else 1 << 16)

    monkeypatch.setattr(region_files, "nameless_file", file)
    writer = Writer()
    first, second = writer.write("p"), writer.write("q")
    assert (writer.read, first[1].size) == (2, second[1].size)


def test_files_of_several_regions_lie_in_one_file() -> None:
    disk = LocalFile()
    writers = [Writer(disk=disk) for _ in range(3)]
    first = [writer.write("p", rows=(b"a%d" % number, b"b")) for number, writer in enumerate(writers)]
    assert [writer.write("q") for writer in writers] == first
    assert len(set(first)) == 3


def test_a_file_that_could_not_be_written_is_no_copy_for_others() -> None:
    def torn() -> Iterator[Bytes]:
        yield np.frombuffer(stored(Cell(b"a", b"f", b"q", 1, PUT, b"value")), np.uint8)
        raise BadCells(1, "torn")

    writer = Writer()
    with pytest.raises(BadCells):
        writer.files.write(len, "p", b"f", PLAIN, torn(), Origin(1, "walferry"), writer.disk)
    first = writer.write("q")
    assert writer.write("r") == first
    assert writer.read == 1
