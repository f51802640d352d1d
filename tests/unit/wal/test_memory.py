"""What reading takes of memory does not grow with the file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.wal.compressing import SNAPPY, Encoder
from tests.unit.wal.encoder import PUT, TRAILER, Cell, encode_entry, encode_header, entry

ALLOWED_MB = 64 + 64  # edits that are held, and the window
READ = """
import resource, sys
from walferry.filters import filter_window
from walferry.rules import FilterRules
from walferry.shipment import assemble
from walferry.filters import uuid_field
from walferry.storage import open_wal
from walferry.wal.reader import read_windows
from uuid import UUID
import numpy as np

def read(path):
    rules, mark = FilterRules(UUID(int=1), UUID(int=2)), np.frombuffer(uuid_field(UUID(int=1)), np.uint8)
    total = 0
    with open_wal(f"file://{path}") as file:
        for window in read_windows(file, path, 0, partial_tail="error"):
            kept = filter_window(window, rules, path)
            total += assemble(window, kept, np.flatnonzero(kept.cells), mark).cell_bytes
    return total

small, large = sys.argv[1:]
read(small)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = read(large)
print(total, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
def test_a_task_takes_as_much_memory_for_a_large_file_as_for_a_small_one(tmp_path: Path, compressed: bool) -> None:
    made = entry(*(Cell(b"row%d" % i, b"f", b"q", 1, PUT, os.urandom(500) + bytes(500)) for i in range(100)))
    made.key.scopes.add(family=b"f", scope_type=1)
    encoder = Encoder(tags=True, codec=SNAPPY)
    encode = encoder.entry if compressed else encode_entry
    head = encode_header(encoder.header) if compressed else encode_header()
    first, again = encode(made), encode(made)
    paths = []
    for name, count in (("small", 20), ("large", 8000)):
        paths.append(str(tmp_path / name))
        with open(paths[-1], "wb") as file:
            file.write(head + first)
            for _ in range(count):
                file.write(again)
            file.write(TRAILER)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", READ, *paths], env=env, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    cells, grown_mb = map(int, run.stdout.split())
    assert cells == 8001 * len(made.cell_bytes())
    assert cells > 800e6
    assert grown_mb < ALLOWED_MB, f"{grown_mb} MB more for a file of {cells / 1e6:.0f} MB"
    print(f"{grown_mb} MB more")
