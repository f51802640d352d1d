"""How much memory one large entry takes: a client can send as much as hbase.ipc.max.request.size, 256 MB, at once."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.hbase.wal.compressing import Encoder, compress
from tests.unit.hbase.wal.encoder import Cell, encode_wal
from tests.unit.replication.filters.test_entry_filter import entry
from walferry.replication.sinks.hbase.actions import PIECE_CELLS

MB = 1 << 20
NOISE = os.urandom(MB)


def large() -> list[Cell]:
    return [Cell(b"r%d" % i, b"f", b"q", 1, 4, NOISE[i:] + NOISE[:i], b"") for i in range(96)]


def one_row() -> list[Cell]:
    return [Cell(b"r", b"f", b"q%d" % i, 1, 4, NOISE[i:] + NOISE[:i], b"") for i in range(96)]


def small() -> list[Cell]:
    return [Cell(b"r%08d" % i, b"f", b"q", 1, 4, b"0123456789" * 12, b"") for i in range(5 * PIECE_CELLS)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "actions", "compressed"),
    [(large, 96, False), (large, 96, True), (one_row, 1, False), (small, 5 * PIECE_CELLS, False)],
    ids=["large cells", "large cells, compressed", "one row", "small cells"],
)
def test_a_large_entry_is_in_memory_little_more_than_once(
    tmp_path: Path, make: Callable[[], list[Cell]], actions: int, compressed: bool
) -> None:
    cells = make()
    warm_up = cells[: len(cells) // 4]
    for name, made in (("large", entry(*cells)), ("warm-up", entry(*warm_up))):
        data = compress([made], Encoder(tags=False, codec=None))[0] if compressed else encode_wal([made])
        (tmp_path / name).write_bytes(data)
    size = (tmp_path / "large").stat().st_size
    command = [sys.executable, "-m", "tests.unit.replication.sinks.hbase.entry_memory", tmp_path / "large", tmp_path / "warm-up"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "plugins:."})
    found, grown = map(int, run.stdout.split())
    print(f"an entry of {size / MB:.0f} MB takes {grown / MB:.0f} MB")
    assert found == actions
    # A compressed entry is there twice for a moment, as it lies in the file and expanded.
    assert grown < (2.6 if compressed else 1.6) * size
