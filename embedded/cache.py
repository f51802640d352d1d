"""Fills folders under the user's cache once, wholly or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_home() -> Path:
    """Return `$XDG_CACHE_HOME/walferry`, by default `~/.cache/walferry`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "walferry"


def filled_once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Return the folder, which `fill(temporary folder)` fills if it does not exist yet.

    A second process waits for the first instead of doing the work again. A process that dies half way leaves no half-filled
    folder behind, because a folder gets its name only when it is complete.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process, which is filling {folder}", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        try:
            fill(unfinished)
            unfinished.rename(folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return folder
