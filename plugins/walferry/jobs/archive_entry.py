"""Runs on `import walferry` in a Spark process: unpacks the archive that contains this file, and imports the library from there.

numba keeps compiled code by the path of its source. Spark puts an archive into a new temporary folder for each application. If
code were imported from within the archive, every job would compile it again, and leave another copy in numba's cache. The archive
is unpacked into a folder named after its content, so each machine compiles the code once.

The folder is below $WALFERRY_CACHE, or $XDG_CACHE_HOME/walferry, or ~/.cache/walferry. If it cannot be written to, a temporary
folder serves this process only.
"""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

PREFIX = "lib/"


def unpacked(archive: Path) -> Path:
    """Return the folder with the archive's library, unpacking it if need be. Other processes may do the same at the same time."""
    target = cache_folder() / "lib" / archive.stem
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _unpack(archive, target)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="walferry-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _unpack(archive, folder / archive.stem)


def cache_folder() -> Path:
    """Return where this machine keeps archives and their unpacked contents."""
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(os.environ.get("WALFERRY_CACHE") or Path(home, "walferry"))


def _unpack(archive: Path, target: Path) -> Path:
    unfinished = Path(tempfile.mkdtemp(prefix=f"{archive.stem}-", dir=target.parent))
    try:
        with zipfile.ZipFile(archive) as files:
            files.extractall(unfinished, [name for name in files.namelist() if name.startswith(PREFIX)])
        (unfinished / PREFIX).rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was faster
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _import_library() -> None:
    sys.path.insert(0, str(unpacked(Path(__file__).parent)))
    del sys.modules[__name__]
    importlib.invalidate_caches()
    importlib.import_module(__name__)


if __file__.endswith(f".zip{os.sep}walferry.py"):
    _import_library()
