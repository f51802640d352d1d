"""Runs on `import walferry` in a Spark process: unpacks the archive that contains this file, and imports the library from there.

numba keeps compiled code by the path of its source. Spark puts an archive into a new temporary folder for each application. If
code were imported from within the archive, every job would compile it again, and leave another copy in numba's cache. The archive
is unpacked into a folder named after its content, so each machine compiles the code once.

The folder is below $WALFERRY_CACHE, or $XDG_CACHE_HOME/walferry, or ~/.cache/walferry. If that cannot be used, it is beside the
archive, in a folder that Spark has made for the job and deletes: PySpark's workers end without a chance to clean up.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import zipfile
from pathlib import Path

PREFIX = "lib/"


def unpacked(archive: Path) -> Path:
    """Return the folder with the archive's library, after unpacking what it lacks. Several processes may call this at once."""
    try:
        return _completed(archive, cache_folder() / "lib")
    except (OSError, RuntimeError):  # such as another user's private folder; there is no home
        return _completed(archive, archive.parent)


def cache_folder() -> Path:
    """Return where this machine keeps archives and their unpacked contents. Raises RuntimeError for a user without a home."""
    if named := os.environ.get("WALFERRY_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "walferry")


def _completed(archive: Path, folder: Path) -> Path:
    """Unpack each file that is missing or has another size: a machine that loses power empties files, cleaning deletes them."""
    target = Path(folder, archive.stem).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as files:
        for file in files.infolist():
            path = target / file.filename.removeprefix(PREFIX)
            if file.filename.startswith(PREFIX) and _size(path) != file.file_size:
                _write(path, files.read(file))
    return target


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _write(path: Path, data: bytes) -> None:
    """Make or replace a file. No process sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".unfinished")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def _import_library() -> None:
    sys.path.insert(0, str(unpacked(Path(__file__).parent)))
    del sys.modules[__name__]
    importlib.invalidate_caches()
    importlib.import_module(__name__)


if __file__.endswith(f".zip{os.sep}walferry.py"):
    _import_library()
