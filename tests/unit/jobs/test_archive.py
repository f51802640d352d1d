"""The library travels to Spark as one zip file, whose name depends on its content."""

import os
import re
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from walferry.jobs.archive import build_archive


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


def test_the_code_of_kernels_for_this_python_travels_and_is_in_the_name(package: Path, tmp_path: Path):
    before = build_archive(tmp_path / "a", package)
    folder = package / "base/kernels/prebuilt/x86-64-v3"
    folder.mkdir(parents=True)
    ours = f"scan.scan_into_0123-9.py{sys.version_info[0]}{sys.version_info[1]}"
    for name in (f"{ours}.nbi", f"{ours}.1.nbc", f"{ours}.nbi.tmp.0123", "scan.scan_into_0123-9.py27.nbi"):
        (folder / name).write_bytes(b"code")
    (folder / f"{ours}.2.nbc").symlink_to("gone")  # as one that is deleted while the archive is made
    archive = build_archive(tmp_path / "a", package)
    assert archive.name != before.name
    inside = {Path(name).name for name in zipfile.ZipFile(archive).namelist() if "x86-64-v3" in name}
    assert inside == {f"{ours}.nbi", f"{ours}.1.nbc"}


def test_an_archive_that_a_power_failure_has_emptied_is_built_again(package: Path, tmp_path: Path):
    archive = build_archive(tmp_path / "a", package)
    whole = archive.read_bytes()
    for left in (0, len(whole) // 2):
        archive.write_bytes(whole[:left])
        assert build_archive(tmp_path / "a", package).read_bytes() == whole


def test_builders_at_the_same_time_leave_one_whole_file(package: Path, tmp_path: Path):
    with ThreadPoolExecutor(8) as pool:
        built = set(pool.map(lambda _: build_archive(tmp_path / "a", package), range(32)))
    assert list((tmp_path / "a").iterdir()) == list(built)
    assert zipfile.ZipFile(built.pop()).testzip() is None


def test_no_module_that_travels_needs_airflow(tmp_path: Path):
    archive = zipfile.ZipFile(build_archive(tmp_path / "a"))
    imports = re.compile(rb"^\s*(from|import) (airflow|walferry\.airflow)\b.*$", re.MULTILINE)
    found = {name: [m[0] for m in imports.finditer(archive.read(name))] for name in archive.namelist()}
    assert not {name: lines for name, lines in found.items() if lines}
