"""The library's archive is unpacked once on each machine."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from walferry.jobs.archive import build_archive

IMPORT = "import walferry.replication.source.cluster as s, walferry, sys; print(s.__file__); print(walferry.__file__)"


def _import(archive: Path, cache: Path, code: str = IMPORT, **environ: str) -> list[str]:
    environ = {**os.environ, "WALFERRY_CACHE": str(cache), "PYTHONPATH": str(archive), **environ}
    done = subprocess.run([sys.executable, "-c", code], env=environ, cwd="/", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_an_import_comes_from_a_folder_named_after_the_content(tmp_path: Path):
    archive = build_archive(tmp_path / "a")
    moved = tmp_path / "userFiles-1" / archive.name
    moved.parent.mkdir()
    archive.rename(moved)
    folder = tmp_path / "cache" / "lib" / archive.stem / "walferry"
    cluster = folder / "replication/source/cluster.py"
    assert _import(moved, tmp_path / "cache") == [str(cluster), str(folder / "__init__.py")]
    assert not list((tmp_path / "cache" / "lib").glob(f"{archive.stem}-*"))


@pytest.mark.long
def test_each_module_that_travels_can_be_imported_there(tmp_path: Path):
    code = (
        "import walferry, importlib, pkgutil\n"
        "for module in pkgutil.walk_packages(walferry.__path__, 'walferry.'): importlib.import_module(module.name)\n"
        "from walferry.hbase.wal.scan import scan_entries\n"
    )
    assert _import(build_archive(tmp_path / "a"), tmp_path / "cache", code) == []


def test_a_second_process_unpacks_nothing(tmp_path: Path):
    archive = build_archive(tmp_path / "a")
    _import(archive, tmp_path / "cache")
    marker = tmp_path / "cache" / "lib" / archive.stem / "marker"
    marker.touch()
    _import(archive, tmp_path / "cache")
    assert marker.exists()


@pytest.mark.slow
def test_processes_at_the_same_time_share_one_folder(tmp_path: Path):
    archive = build_archive(tmp_path / "a")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: _import(archive, tmp_path / "cache"), range(8)))
    assert len({tuple(lines) for lines in found}) == 1
    assert [p.name for p in (tmp_path / "cache" / "lib").iterdir()] == [archive.stem]


def test_without_a_folder_to_write_to_it_still_imports_and_leaves_nothing(tmp_path: Path):
    archive = build_archive(tmp_path / "a")
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    _import(archive, tmp_path / "file", TMPDIR=str(tmp_path / "tmp"))
    assert list((tmp_path / "tmp").iterdir()) == []
