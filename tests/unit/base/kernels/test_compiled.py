"""Kernels are cached on disk, and a cached kernel is never older than its code."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import walferry
from tests.unit.hbase.wal.encoder import PUT, Cell, encode_entry, entry
from walferry.base.kernels.compiled import sources_of

PROGRAM = """
import numpy as np
from walferry.hbase.wal.scan import scan_entries, scan_into
from walferry.hbase.wal.arrow import cell_columns, fill
data = np.frombuffer(bytes.fromhex("{entry}"), np.uint8)
columns = next(cell_columns(data, scan_entries(data, 0, len(data)).index, 1, 1000))
print(int(columns.ints[3, 0]), sum(fill.stats.cache_hits.values()))
"""


def test_the_sources_of_all_kernels_are_in_the_name_of_a_cached_one() -> None:
    library = Path(walferry.__file__).parent
    using = [path for path in library.rglob("*.py") if "base.kernels.compiled import" in path.read_text()]
    names = [".".join(path.with_suffix("").relative_to(library.parent).parts) for path in using]
    called = 0
    for name in names:
        kernels = [each for each in vars(importlib.import_module(name)).values() if isinstance(each, Dispatcher)]
        assert {kernel.py_func.__module__ for kernel in kernels} <= sources_of(name)
        called += sum(kernel.py_func.__module__ != name for kernel in kernels)
    assert called > 30


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed_in_another_module(tmp_path: Path, packed: bool) -> None:
    program = PROGRAM.format(entry=encode_entry(entry(Cell(b"row", b"f", b"q", 5, PUT, b"v"))).hex())
    library = tmp_path / "library"
    shutil.copytree(Path(walferry.__file__).parent, library / "walferry", ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache") if not packed else "", "XDG_CACHE_HOME": str(tmp_path)}

    def run() -> tuple[int, int]:
        """Decode a cell. Returns its timestamp and how many kernels came from the cache."""
        path = shutil.make_archive(str(tmp_path / "library"), "zip", library) if packed else str(library)
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        timestamp, hits = map(int, done.stdout.split())
        return timestamp, hits

    assert run() == (5, 0)
    assert run() == (5, 1)
    with (library / "walferry/hbase/wal/scan.py").open("a") as scan:
        scan.write("# changed\n")
    assert run() == (5, 0)
