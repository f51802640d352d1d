"""The library's archive is unpacked once on each machine."""

import os
import subprocess
import sys
from collections.abc import Callable
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


def test_without_a_folder_to_write_to_the_processes_of_a_job_share_one_beside_the_archive(tmp_path: Path):
    """They end as PySpark's workers do, without a chance to clean up: Spark deletes the folder that it has made for the job."""
    archive = build_archive(tmp_path / "a")
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    code = f"{IMPORT}; import os; sys.stdout.flush(); os._exit(0)"
    found = [_import(archive, tmp_path / "file", code, TMPDIR=str(tmp_path / "tmp")) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0][1] == str(archive.with_suffix("") / "walferry/__init__.py")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_folder_that_another_user_keeps_private_is_left_alone(tmp_path: Path):
    archive = build_archive(tmp_path / "a")
    theirs = tmp_path / "cache" / "lib"
    theirs.mkdir(parents=True)
    code = (
        "import os\nstat = os.stat\n"
        "def refused(path, *args, **options):\n"
        f"    if str(path).startswith({str(theirs / 'x')[:-1]!r}): raise PermissionError(13, 'Permission denied', str(path))\n"
        "    return stat(path, *args, **options)\n"
        f"os.stat = refused\n{IMPORT}"
    )
    assert _import(archive, tmp_path / "cache", code)[1] == str(archive.with_suffix("") / "walferry/__init__.py")
    assert list(theirs.iterdir()) == []


def test_a_user_without_a_home_needs_none(tmp_path: Path):
    archive = build_archive(tmp_path / "a")
    homeless = f"import pwd\ndef unknown(uid): raise KeyError(uid)\npwd.getpwuid = unknown\n{IMPORT}"
    for missing, folder in (["HOME"], tmp_path / "cache"), (["HOME", "WALFERRY_CACHE"], tmp_path / "a"):
        code = f"import os\nfor each in {missing}: del os.environ[each]\n{homeless}"
        found = _import(archive, tmp_path / "cache", code, HOME="/", XDG_CACHE_HOME="")
        assert Path(found[1]).is_relative_to(folder)


@pytest.mark.parametrize("damage", [Path.unlink, lambda module: module.write_bytes(b"")], ids=["deleted", "emptied"])
def test_files_that_a_machine_has_lost_are_unpacked_again(tmp_path: Path, damage: Callable[[Path], None]):
    """What cleans folders for temporary files deletes some, and a power failure empties what was just written."""
    archive = build_archive(tmp_path / "a")
    folder = Path(_import(archive, tmp_path / "cache")[1]).parent
    damage(folder / "base/errors.py")
    assert _import(archive, tmp_path / "cache", "from walferry.base.errors import WalferryError") == []
    assert not list(folder.rglob("*.unfinished"))
