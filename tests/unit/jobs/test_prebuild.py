"""The library's kernels are compiled beforehand, for each level of processors, and old code goes."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import walferry
from walferry.jobs.archive import KERNELS

LEVELS = ("x86-64-v3", "x86-64-v2")
NUMBA = version("numba")
PROGRAM = """
import json, sys
from walferry.jobs import prebuild
if __name__ == "__main__":
    prebuild._modules = lambda: ["walferry.hbase.wal.decoded_keys"]  # two small kernels
    told = []
    try:
        print(json.dumps([prebuild.prebuild(["x86-64-v3", "x86-64-v2"], lambda *now: told.append(now)), told]))
    except prebuild.NotPrebuilt as error:
        sys.exit(str(error))
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A copy of the library, without compiled code."""
    package = tmp_path / "library/walferry"
    shutil.copytree(Path(walferry.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "prebuilt"))
    return package


def run(library: Path) -> subprocess.CompletedProcess[str]:
    program = library.parent.parent / "program.py"
    program.write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": str(library.parent)}
    command = [sys.executable, str(program)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_each_level_gets_the_code_of_all_kernels_and_code_that_no_kernel_has_is_deleted(library: Path) -> None:
    python = f"py{sys.version_info[0]}{sys.version_info[1]}"
    old, other = "scan.scan_into_0123-9", "decoded_keys.first_not_ascii_0123-9.py27.nbi"
    folders = [library / KERNELS / f"{level}-numba-{numba}" for level in LEVELS for numba in (NUMBA, "0.1.0")]
    for folder in folders:
        folder.mkdir(parents=True)
        for name in (f"{old}.{python}.nbi", f"{old}.{python}.1.nbc", other):
            (folder / name).write_bytes(b"old")
    done = run(library)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [2, [["x86-64-v3", 1, 1], ["x86-64-v2", 1, 1]]]
    for folder in folders:
        names = {path.name for path in folder.iterdir()}
        assert other in names
        assert {name.partition("_")[0] for name in names} == {"decoded"}
        assert len(names - {other}) == (4 if folder.name.endswith(NUMBA) else 0)


def test_a_library_that_cannot_be_written_to_is_an_error_that_says_who_can(library: Path) -> None:
    (library / KERNELS).write_text("not a folder")
    done = run(library)
    assert done.returncode == 1
    assert f"run the command as the user who installed the library in {library}" in done.stderr
