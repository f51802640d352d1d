"""A region's file is written once for several peers, and each of them gets the same bytes once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
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
from walferry.shipping.bulkload.region_files import RegionFiles

PLAIN, ZIPPED = FileSettings(), FileSettings(compression=Compression.GZ)


class Writer:
    """Writes the same cells for peers, each time with another name in the file, and counts how often they are read."""

    def __init__(self, files: RegionFiles) -> None:
        self._files = files
        self.read = 0

    def write(self, peer: str, family: bytes = b"f", settings: FileSettings = PLAIN) -> tuple[bytes, FileEnd]:
        written: list[bytes] = []
        name = Origin(1, f"walferry {peer} {self.read}")
        done = self._files.write(lambda data: written.append(bytes(data)), peer, family, settings, self._cells(family), name)
        assert done is not None
        assert done.cells == 2
        return b"".join(written), done.end

    def _cells(self, family: bytes) -> Iterator[Bytes]:
        self.read += 1
        cells = [Cell(row, family, b"q", 1, PUT, b"value") for row in (b"a", b"b")]
        yield np.frombuffer(b"".join(stored(cell) for cell in cells), np.uint8)


def test_other_peers_get_the_bytes_that_the_first_one_got() -> None:
    with RegionFiles(wanted=True) as files:
        writer = Writer(files)
        first = writer.write("p")
        assert [writer.write("q"), writer.write("r")] == [first, first]
        assert writer.read == 1


def test_other_families_and_settings_have_files_of_their_own() -> None:
    with RegionFiles(wanted=True) as files:
        writer = Writer(files)
        found = [writer.write("p"), writer.write("p", b"g"), writer.write("q", settings=ZIPPED), writer.write("q", b"g")]
        assert writer.read == 3
        assert found[3] == found[1]
        assert len(set(found)) == 3


def test_a_peer_that_needs_a_file_again_gets_one_with_another_end() -> None:
    """Of two files with one end nobody could say which of them has got a number."""
    with RegionFiles(wanted=True) as files:
        writer = Writer(files)
        found = [writer.write(peer)[1] for peer in ("p", "p", "q", "q")]
        assert found[2] == found[0]
        assert len(set(found)) == 3


def test_nothing_is_kept_for_one_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_files, "nameless_file", lambda: pytest.fail("it keeps a copy"))
    with RegionFiles() as files:
        assert Writer(files).write("p")


def test_a_full_disk_costs_nothing_but_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> IO[bytes]:
        return open("/dev/full", "wb", buffering=0)

    monkeypatch.setattr(region_files, "nameless_file", full)
    with RegionFiles(wanted=True) as files:
        writer = Writer(files)
        first, second = writer.write("p"), writer.write("q")
        assert (writer.read, first[1].size) == (2, second[1].size)


def test_a_file_that_could_not_be_written_is_no_copy_for_others() -> None:
    def torn() -> Iterator[Bytes]:
        yield np.frombuffer(stored(Cell(b"a", b"f", b"q", 1, PUT, b"value")), np.uint8)
        raise BadCells(1, "torn")

    with RegionFiles(wanted=True) as files, closing(torn()) as cells:
        with pytest.raises(BadCells):
            files.write(len, "p", b"f", PLAIN, cells, Origin(1, "walferry"))
        assert Writer(files).write("q")
