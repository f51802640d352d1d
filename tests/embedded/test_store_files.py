"""Our HFiles equal the files that HBase's own StoreFileWriter writes of the same cells: the same bytes if not compressed.

HBase reads our compressed files like its own: its scanner finds the same cells, its filters rule out none of them, and
HFilePrettyPrinter reports no errors.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from embedded.hbase import write_site
from embedded.jars import HBASE_1, hbase_classpath
from embedded.java import find_java, jvm_options
from embedded.store_files import StoreFiles, StoreFilesError
from tests.unit.hbase.hfiles.models import in_order, random_cells, stored
from tests.unit.hbase.wal.encoder import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_FAMILY_VERSION,
    MAXIMUM,
    MINIMUM,
    PUT,
    Cell,
    encode_tags,
)
from walferry.hbase.hfiles.blocks import HEADER_BYTES, Checksum, Compression, checksums
from walferry.hbase.hfiles.bloom import Bloom
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.metadata import Origin
from walferry.hbase.hfiles.settings import FileSettings
from walferry.hbase.hfiles.writer import write_file

ORIGIN = Origin(1_700_000_000_123, "attempt_1")
SOME = random_cells(1, 3_000)


@pytest.fixture(scope="module")
def hbase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreFiles]:
    with StoreFiles(tmp_path_factory.mktemp("hbase")) as jvm:
        yield jvm


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a store, as HBase wants it for its files."""
    made = tmp_path / "region" / "fam"
    made.mkdir(parents=True)
    return made


def write(path: Path, cells: bytes, settings: FileSettings) -> None:
    """Write our file, of cells that come in chunks."""
    with path.open("wb") as file:
        assert write_file(file.write, [np.frombuffer(cells, np.uint8)], settings, ORIGIN)


def hbase_settings(settings: FileSettings) -> dict[str, str]:
    return {
        "block": str(settings.block_bytes),
        "compression": settings.compression.name,
        "encoding": settings.encoding.name,
        "bloom": settings.bloom.name,
        "prefix": str(settings.prefix_len),
        "checksum": settings.checksum.name,
        "created": str(ORIGIN.created_ms),
        "task": ORIGIN.task,
    }


def check(hbase: StoreFiles, folder: Path, cells: Sequence[Cell], settings: FileSettings) -> None:
    """Check that both files are the same, or at least their cells are, and that HBase accepts ours."""
    data = b"".join(map(stored, cells))
    ours, theirs = folder / "0123456789abcdef", folder / "fedcba9876543210"
    write(ours, data, settings)
    hbase.write(theirs, data, hbase_settings(settings))
    if settings.compression is Compression.NONE:
        assert ours.read_bytes() == theirs.read_bytes()
    assert hbase.cells(ours) == data
    if settings.bloom is not Bloom.NONE:
        assert hbase.ruled_out(ours, data) == 0
    printed = hbase.print(ours)
    assert f"Scanned kv count -> {len(cells)}" in printed
    assert "WARNING" not in printed


@pytest.mark.parametrize("checksum", Checksum)
@pytest.mark.parametrize("block_bytes", [1, 1_000, 64 << 10])
def test_plain_files_are_hbases(hbase: StoreFiles, folder: Path, block_bytes: int, checksum: Checksum) -> None:
    check(hbase, folder, SOME, FileSettings(block_bytes=block_bytes, checksum=checksum))


@pytest.mark.parametrize("block_bytes", [700, 64 << 10])
@pytest.mark.parametrize("encoding", [encoding for encoding in Encoding if encoding is not Encoding.NONE])
def test_encoded_files_are_hbases(hbase: StoreFiles, folder: Path, encoding: Encoding, block_bytes: int) -> None:
    check(hbase, folder, SOME, FileSettings(encoding=encoding, block_bytes=block_bytes))


@pytest.mark.parametrize("bloom", [Bloom.NONE, Bloom.ROWCOL, Bloom.ROWPREFIX_FIXED_LENGTH])
def test_files_with_each_kind_of_filter_are_hbases(hbase: StoreFiles, folder: Path, bloom: Bloom) -> None:
    check(hbase, folder, SOME, FileSettings(bloom=bloom, prefix_len=6))


@pytest.mark.parametrize("encoding", [Encoding.NONE, Encoding.FAST_DIFF])
@pytest.mark.parametrize("codec", [Compression.GZ, Compression.SNAPPY, Compression.LZ4])
def test_compressed_files_are_read_by_hbase(hbase: StoreFiles, folder: Path, codec: Compression, encoding: Encoding) -> None:
    check(hbase, folder, SOME, FileSettings(compression=codec, encoding=encoding, block_bytes=10_000))


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4])
def test_compressed_blocks_that_are_longer_than_hadoops_buffers_are_read(hbase, folder: Path, codec: Compression) -> None:
    cells = [Cell(b"row%d" % i, b"fam", b"q", 1, PUT, np.random.default_rng(i).bytes(900_000)) for i in range(3)]
    check(hbase, folder, cells, FileSettings(compression=codec))


def put(row: bytes, value: bytes = b"v", qualifier: bytes = b"q", timestamp: int = 5) -> Cell:
    return Cell(row, b"fam", qualifier, timestamp, PUT, value)


EXPIRES = encode_tags([(8, (1 << 40).to_bytes(8))])
SPECIAL = {
    "one cell": [put(b"r")],
    "a marker of deletion": [Cell(b"r", b"fam", b"", 7, DELETE_FAMILY, b"")],
    "only deleted families": [Cell(b"%04d" % i, b"fam", b"", 7, DELETE_FAMILY_VERSION, b"") for i in range(2_000)],
    "all markers in one row": in_order(
        Cell(b"r", b"fam", q, t, kind, b"") for q in (b"", b"q") for t in (3, 9) for kind in (DELETE_FAMILY, DELETE_COLUMN, PUT)
    ),
    "types that only searches use": in_order(Cell(b"r", b"fam", b"q", 1, kind, b"v") for kind in (MINIMUM, PUT, MAXIMUM)),
    "equal keys": [put(b"q")] + [Cell(b"r", b"fam", b"q", 1, PUT, b"%d" % i * 400, EXPIRES) for i in range(9)] + [put(b"s")],
    "no qualifiers and empty values": [put(b"r%03d" % i, b"", b"") for i in range(300)],
    "rows of single bytes": [put(bytes([i])) for i in range(256)],
    "rows that are prefixes of each other": [put(b"\xff" * i) for i in range(1, 300)],
    "high bytes": in_order(put(np.random.default_rng(i).bytes(1 + i % 9), qualifier=bytes([255 - i % 7])) for i in range(3_000)),
    "timestamps from 0 to the last": in_order(put(b"r", timestamp=(1 << i) - less) for i in range(64) for less in (1, i // 63)),
    "a row as long as can be": [put(bytes(32_767)), put(b"\1" * 32_767), put(b"\1" * 32_766 + b"\2")],
    "a large cell": [put(b"a"), put(b"b", bytes(3_000_000)), put(b"c")],
    "as many tags as can be": [Cell(b"r", b"fam", b"q", 1, PUT, b"v", encode_tags([(70, bytes(32_764))])), put(b"s")],
}  # fmt: skip


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("name", list(SPECIAL))
def test_files_of_special_cells_are_hbases(hbase: StoreFiles, folder: Path, name: str, encoding: Encoding) -> None:
    check(hbase, folder, SPECIAL[name], FileSettings(block_bytes=500, encoding=encoding))


@pytest.mark.parametrize("name", ["all markers in one row", "equal keys", "high bytes", "rows that are prefixes of each other"])
@pytest.mark.parametrize("bloom", [Bloom.ROWCOL, Bloom.ROWPREFIX_FIXED_LENGTH])
def test_files_of_special_cells_have_hbases_filters(hbase: StoreFiles, folder: Path, name: str, bloom: Bloom) -> None:
    check(hbase, folder, SPECIAL[name], FileSettings(bloom=bloom, prefix_len=3))


@pytest.mark.parametrize("cells", [30, 120, 900])
def test_files_with_two_to_four_levels_of_index_are_hbases(hbase: StoreFiles, folder: Path, cells: int) -> None:
    check(hbase, folder, [put(bytes(30_000) + b"%06d" % i) for i in range(cells)], FileSettings(block_bytes=1))


@pytest.mark.parametrize("bloom", [Bloom.ROW, Bloom.ROWCOL])
def test_files_whose_filters_have_several_chunks_are_hbases(hbase: StoreFiles, folder: Path, bloom: Bloom) -> None:
    cells = [put(b"%08d" % i, b"") if i % 2 else Cell(b"%08d" % i, b"fam", b"", 5, DELETE_FAMILY, b"") for i in range(240_000)]
    check(hbase, folder, cells, FileSettings(bloom=bloom))


@pytest.mark.parametrize(
    "settings",
    [
        FileSettings(bloom=Bloom.ROWCOL, block_bytes=2_000),
        FileSettings(encoding=Encoding.FAST_DIFF, compression=Compression.GZ),
        FileSettings(encoding=Encoding.DIFF, checksum=Checksum.CRC32),
    ],
    ids=lambda settings: f"{settings.encoding.name}-{settings.compression.name}-{settings.bloom.name}",
)
def test_hbase_1_accepts_our_files(tmp_path: Path, folder: Path, settings: FileSettings) -> None:
    path = folder / "0123456789abcdef"
    write(path, b"".join(map(stored, SOME)), settings)
    write_site(tmp_path / "hbase-site.xml", {"hbase.rootdir": tmp_path.as_uri()})  # it prints only files below that
    jars = os.pathsep.join(map(str, [tmp_path, *hbase_classpath(HBASE_1)]))
    printer = "org.apache.hadoop.hbase.io.hfile.HFilePrettyPrinter"
    command = [find_java(), *jvm_options(), "-cp", jars, printer, "-v", "-m", "-k", "-a", "-f", path.as_uri()]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Scanned kv count -> {len(SOME)}" in done.stdout
    assert "WARNING, " not in done.stdout + done.stderr


def test_hbase_does_not_accept_a_damaged_file(hbase: StoreFiles, folder: Path) -> None:
    """So it means something that HBase accepts the other files."""
    path = folder / "0123456789abcdef"
    write(path, b"".join(map(stored, SOME)), FileSettings())
    data = bytearray(path.read_bytes())
    data[70_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreFilesError):
        hbase.cells(path)


def test_hbase_objects_to_rows_that_are_not_in_order(hbase: StoreFiles, folder: Path) -> None:
    path = folder / "0123456789abcdef"
    write(path, stored(put(b"a")) + stored(put(b"b")), FileSettings(bloom=Bloom.NONE))
    block_end = HEADER_BYTES + 2 * len(stored(put(b"a")))
    data = bytearray(path.read_bytes().replace(stored(put(b"b")), stored(put(b"`"))))
    data[block_end : block_end + 4] = checksums(Checksum.CRC32C, np.frombuffer(data[:block_end], np.uint8))
    path.write_bytes(data)
    assert "WARNING, previous row is greater then current row" in hbase.print(path)
