"""What reading takes of memory does not grow with the file, and is no more than it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.wal.compressing import GZ, SNAPPY, Encoder
from tests.unit.wal.encoder import PUT, TRAILER, Cell, encode_entry, encode_header, entry
from tests.unit.wal.sealed import MASTER_KEY, Sealer, sealed_header

# More for a large file than for a small one. 14, 91, 100 and 25 were measured; buffers of twice the size take more than these.
ALLOWED_MB = {"plain": 21, "SNAPPY": 106, "GZ": 130, "encrypted": 38}
READ = """
import resource, sys
from uuid import UUID
import numpy as np
from walferry.crypto.provider import KeyProvider
from walferry.filters import filter_window, uuid_field
from walferry.rules import FilterRules
from walferry.shipment import assemble
from walferry.storage import open_wal
from walferry.wal.reader import read_windows

what, key, small, large = sys.argv[1:]
keys = KeyProvider("jceks:///no/such/store?passwordEnv=NONE", ["master"])
keys._keys = {"master": bytes.fromhex(key)}
rules, mark = FilterRules(UUID(int=1), UUID(int=2)), np.frombuffer(uuid_field(UUID(int=1)), np.uint8)

def bytes_of_cells(window, path):
    if what == "read":
        return int((window.index.cells_end - window.index.cells_start).sum())
    kept = filter_window(window, rules, path)
    return assemble(window, kept, np.flatnonzero(kept.cells), mark).cell_bytes

def read(path):
    with open_wal(f"file://{path}") as file:
        return sum(bytes_of_cells(w, path) for w in read_windows(file, path, 0, partial_tail="error", unwrap_key=keys))

read(small)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = read(large)
print(total, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["read", "read, filter and put together"])
@pytest.mark.parametrize("kind", ALLOWED_MB)
def test_a_large_file_takes_hardly_more_memory_than_a_small_one(tmp_path: Path, kind: str, what: str) -> None:
    made = entry(*(Cell(b"row%d" % i, b"f", b"q", 1, PUT, os.urandom(500) + bytes(500)) for i in range(100)))
    made.key.scopes.add(family=b"f", scope_type=1)
    if kind == "plain":
        head, encode = encode_header(), encode_entry
    elif kind == "encrypted":
        head, encode = encode_header(sealed_header()), Sealer().entry
    else:
        encoder = Encoder(tags=True, codec={"SNAPPY": SNAPPY, "GZ": GZ}[kind])
        head, encode = encode_header(encoder.header), encoder.entry
    first, again = encode(made), encode(made)
    paths = []
    for name, count in (("small", 20), ("large", 8000)):
        paths.append(str(tmp_path / name))
        with open(paths[-1], "wb") as file:
            file.write(head + first)
            for _ in range(count):
                file.write(again)
            file.write(TRAILER)
    arguments = [sys.executable, "-c", READ, what, MASTER_KEY.hex(), *paths]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(arguments, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    cells, grown_mb = map(int, run.stdout.split())
    assert cells == 8001 * len(made.cell_bytes())
    assert cells > 800e6
    print(f"{kind}, {what}: {grown_mb} MB more")
    assert grown_mb < ALLOWED_MB[kind], f"{grown_mb} MB more for a file of {cells / 1e6:.0f} MB"
