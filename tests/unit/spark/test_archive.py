"""The library travels to Spark as one zip file, and is unpacked once on each machine."""

import os
import re
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from walferry.spark.archive import build_archive

IMPORT = "import walferry.source.cluster as s, walferry, sys; print(s.__file__); print(walferry.__file__)"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    package = tmp_path / "walferry"
    (package / "airflow").mkdir(parents=True)
    (package / "__pycache__").mkdir()
    (package / "__init__.py").write_text("")
    (package / "source.py").write_text("X = 1\n")
    (package / "airflow" / "hook.py").write_text("import airflow\n")
    (package / "__pycache__" / "source.py").write_text("not a source")
    return package


def _import(archive: Path, cache: Path, code: str = IMPORT, **environ: str) -> list[str]:
    environ = {**os.environ, "WALFERRY_CACHE": str(cache), "PYTHONPATH": str(archive), **environ}
    done = subprocess.run([sys.executable, "-c", code], env=environ, cwd="/", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_same_sources_give_the_same_file(package: Path, tmp_path: Path):
    one, two = build_archive(tmp_path / "a", package), build_archive(tmp_path / "b", package)
    os.utime(package / "source.py", (1, 1))
    assert one.name == two.name == build_archive(tmp_path / "c", package).name
    assert one.read_bytes() == two.read_bytes()


def test_a_changed_source_gives_another_name(package: Path, tmp_path: Path):
    before = build_archive(tmp_path / "a", package)
    (package / "source.py").write_text("X = 2\n")
    assert build_archive(tmp_path / "a", package).name != before.name


def test_the_part_for_airflow_and_compiled_files_stay_out(package: Path, tmp_path: Path):
    names = zipfile.ZipFile(build_archive(tmp_path / "a", package)).namelist()
    assert names == ["walferry.py", "lib/walferry/__init__.py", "lib/walferry/source.py"]


def test_builders_at_the_same_time_leave_one_whole_file(package: Path, tmp_path: Path):
    with ThreadPoolExecutor(8) as pool:
        built = set(pool.map(lambda _: build_archive(tmp_path / "a", package), range(32)))
    assert list((tmp_path / "a").iterdir()) == list(built)
    assert zipfile.ZipFile(built.pop()).testzip() is None


def test_an_import_comes_from_a_folder_named_after_the_content(tmp_path: Path):
    archive = build_archive(tmp_path / "a")
    moved = tmp_path / "userFiles-1" / archive.name
    moved.parent.mkdir()
    archive.rename(moved)
    folder = tmp_path / "cache" / "lib" / archive.stem / "walferry"
    assert _import(moved, tmp_path / "cache") == [str(folder / "source" / "cluster.py"), str(folder / "__init__.py")]
    assert not list((tmp_path / "cache" / "lib").glob(f"{archive.stem}-*"))


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


def test_no_module_that_travels_needs_airflow(tmp_path: Path):
    archive = zipfile.ZipFile(build_archive(tmp_path / "a"))
    imports = re.compile(rb"^\s*(from|import) (airflow|walferry\.airflow)\b.*$", re.MULTILINE)
    found = {name: [m[0] for m in imports.finditer(archive.read(name))] for name in archive.namelist()}
    assert not {name: lines for name, lines in found.items() if lines}
