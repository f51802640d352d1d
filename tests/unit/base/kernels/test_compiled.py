"""Kernels are compiled once, for named processors, and compiled code is never older than its source."""

import importlib
import inspect
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core.dispatcher import Dispatcher

import walferry
from tests.unit.hbase.wal.encoder import PUT, Cell, encode_entry, entry
from walferry.base.kernels.compiled import kernels_of, levels, sources_of
from walferry.base.kernels.types import numba_type

LIBRARY = Path(walferry.__file__).parent
ENTRY = encode_entry(entry(Cell(b"row", b"f", b"q", 5, PUT, b"v")))
PROGRAM = f"""
import numpy as np
from numba.core import event
from walferry.hbase.wal.scan import scan_entries
data = np.frombuffer(bytes.fromhex("{ENTRY.hex()}"), np.uint8)
with event.install_recorder("numba:compile") as compiled:
    found = scan_entries(data, 0, len(data))
print(int(found.index.sequence_id[0]), "compiled" if compiled.buffer else "found")
"""
PREBUILD = """
import numba
from walferry.base.kernels.compiled import prebuild
from walferry.hbase.wal import scan
print(prebuild(scan.scan_into))
"""
FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # the bytes of a file
"""


class Library:
    """A copy of the library, without compiled code."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder / "library", folder / "cache"
        shutil.copytree(LIBRARY, self.folder / "walferry", ignore=shutil.ignore_patterns("__pycache__", "prebuilt"))
        self.prebuilt = self.folder / "walferry/base/kernels/prebuilt"

    def change(self) -> None:
        with (self.folder / "walferry/hbase/wal/keys.py").open("a") as module:
            module.write("# changed\n")

    def run(self, program: str = PROGRAM, path: Path | None = None, **environment: str) -> str:
        """Return what the program prints. Kernels that it compiles go into a cache of their own, which is empty at first."""
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"NUMBA_CACHE_DIR": str(self.cache), "PYTHONPATH": str(path or self.folder)} | environment,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def prebuild(self, level: str) -> str:
        return self.run(PREBUILD, NUMBA_CPU_NAME=level, NUMBA_CPU_FEATURES="")


def kernel_modules() -> list[str]:
    using = [path for path in LIBRARY.rglob("*.py") if "base.kernels.compiled import" in path.read_text()]
    return [".".join(path.with_suffix("").relative_to(LIBRARY.parent).parts) for path in using]


def test_the_sources_of_all_kernels_are_in_the_name_of_compiled_code() -> None:
    called = 0
    for name in kernel_modules():
        kernels = [each for each in vars(importlib.import_module(name)).values() if isinstance(each, Dispatcher)]
        assert {kernel.py_func.__module__ for kernel in kernels} <= sources_of(name)
        called += sum(kernel.py_func.__module__ != name for kernel in kernels)
    assert called > 30


def test_the_annotations_of_each_kernel_say_for_which_types_it_is_compiled() -> None:
    kernels = [kernel for name in kernel_modules() for kernel in kernels_of(importlib.import_module(name))]
    assert len(kernels) > 40
    for kernel in kernels:
        annotations = inspect.get_annotations(inspect.unwrap(kernel), eval_str=True)
        assert all(numba_type(annotations[name]) for name in inspect.signature(kernel).parameters)


@pytest.mark.slow
def test_compiled_code_travels_with_the_library_and_fits_its_sources_and_processors_only(tmp_path: Path) -> None:
    library = Library(tmp_path)
    files = library.prebuild(levels()[0])
    assert sorted(path.name.partition(".py")[0] for path in library.prebuilt.rglob("*.nb?")) == [files] * 2
    assert {path.parent.name for path in library.prebuilt.rglob("*.nb?")} == {f"{levels()[0]}-numba-{numba.__version__}"}
    library.folder = library.folder.rename(tmp_path / "elsewhere")  # as an executor unpacks it
    for path in library.folder.rglob("prebuilt/*/*"):
        path.chmod(stat.S_IRUSR)
        os.utime(path, (1, 1))

    assert library.run() == "1 found"
    assert library.run(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == "1 compiled"
    assert library.run(NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path / "checked")) == "1 compiled"
    library.change()
    assert library.run() == "1 compiled"
    assert library.run() == "1 found"  # from numba's cache


@pytest.mark.slow
def test_only_a_process_that_compiles_sets_up_the_compiler(tmp_path: Path) -> None:
    library, program = Library(tmp_path), f"{PROGRAM}import sys\nprint('numba.core.typing.cffi_utils' in sys.modules)\n"
    assert library.run(program).split() == ["1", "compiled", "True"]
    assert library.run(program).split() == ["1", "found", "False"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_compiled_code_that_cannot_be_read_is_made_again(tmp_path: Path, kind: str) -> None:
    library = Library(tmp_path)
    library.prebuild(levels()[0])
    (broken,) = library.prebuilt.rglob(f"*.{kind}")
    broken.write_bytes(b"")
    assert library.run() == "1 compiled"
    library.prebuild(levels()[0])
    shutil.rmtree(library.cache)
    assert library.run() == "1 found"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_code_in_numba_s_cache_that_cannot_be_read_is_made_again(tmp_path: Path, kind: str) -> None:
    library = Library(tmp_path)
    assert library.run() == "1 compiled"
    for broken in library.cache.rglob(f"*.{kind}"):
        broken.write_bytes(b"")
    assert library.run() == "1 compiled"
    assert library.run() == "1 found"


@pytest.mark.slow
def test_a_full_disk_costs_no_more_than_compiling_again(tmp_path: Path) -> None:
    library = Library(tmp_path)
    assert library.run(FULL_DISK + PROGRAM, PYTHONDONTWRITEBYTECODE="1") == "1 compiled"
    assert not list(library.cache.rglob("*.nb*"))
    assert library.run() == "1 compiled"
    assert library.run() == "1 found"


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed_in_another_module(tmp_path: Path, packed: bool) -> None:
    library = Library(tmp_path)

    def run() -> str:
        """As `Library.run`. From within a zip, numba uses the user's cache."""
        if not packed:
            return library.run()
        archive = shutil.make_archive(str(tmp_path / "library"), "zip", library.folder)
        return library.run(path=Path(archive), NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(tmp_path))

    assert run() == "1 compiled"
    assert run() == "1 found"
    library.change()
    assert run() == "1 compiled"
