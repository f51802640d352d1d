"""Packs the library into one zip file, in which it travels to Spark's driver and executors (`spark-submit --py-files`).

    walferry.py          `import walferry` finds this in the zip: archive_entry.py, which unpacks the rest and steps aside
    lib/walferry/...     the library's modules, without the ones that only Airflow and the command use, and the code that
                         `walferry compile` has made for this version of Python

The same sources give the same bytes, and so the same file name. So a job that is submitted every few minutes finds its archive
already there, and its workers find it unpacked and compiled.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
NOT_SHIPPED = ("admin", "airflow", "cli", "observe", "runs")  # the packages above `jobs`, which Spark does not use
KERNELS = "base/kernels/prebuilt"  # PREBUILT of walferry.base.kernels.compiled, which imports numba
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip file can hold


def build_archive(folder: Path, package: Path = PACKAGE) -> Path:
    """Return the archive of `package` in `folder`, made if it is missing. Several processes may call this at once."""
    contents = _contents(package)
    path = folder / f"walferry-{_digest(contents)}.zip"
    if zipfile.is_zipfile(path):  # a machine that lost power may have kept a part of it
        return path
    folder.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=folder, suffix=".unfinished")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in contents:
                info = zipfile.ZipInfo(name, _EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, data)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    return path


def _contents(package: Path) -> list[tuple[str, bytes]]:
    """Return the names and bytes of the archive's files, in the order in which they are written."""
    modules = [
        path
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] not in NOT_SHIPPED and "__pycache__" not in path.parts
    ]
    found = [(path, path.read_bytes()) for path in modules] + _compiled(package)
    files = [(f"lib/{package.name}/{path.relative_to(package).as_posix()}", data) for path, data in found]
    return [("walferry.py", Path(__file__).with_name("archive_entry.py").read_bytes()), *files]


def _compiled(package: Path) -> list[tuple[Path, bytes]]:
    """Return the files with the code of kernels. `walferry compile` may delete old ones at any time."""
    found = []
    for path in sorted((package / KERNELS).glob(f"*/*.py{sys.version_info[0]}{sys.version_info[1]}*.nb[ic]")):
        with suppress(OSError):
            found.append((path, path.read_bytes()))
    return found


def _digest(contents: list[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, data in contents:
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:16]
