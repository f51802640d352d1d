"""Compiles all kernels of the library beforehand (`walferry compile`), so that no executor has to: see walferry.base.kernels.

base/kernels/prebuilt / <level of processors>-numba-<version> / <kernel>.nbi, .nbc      numba's files, by version of Python
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path

import walferry
from walferry.base.errors import WalferryError
from walferry.jobs.archive import KERNELS

LIBRARY = Path(walferry.__file__).parent
FOLDER = LIBRARY / KERNELS

Progress = Callable[[str, int, int], None]  # the level, how many of its modules are compiled, how many there are


class NotPrebuilt(WalferryError):
    """The kernels could not be compiled, or not be put into the library's folder."""


def prebuild(levels: Sequence[str], progress: Progress) -> int:
    """Compile all kernels for these levels of processors, and return how many there are of each. What is there already stays.

    Code of kernels that have changed since is deleted. Raises NotPrebuilt.
    """
    modules, count = list(_modules()), 0
    for level in levels:
        try:
            names = _compiled(modules, level, progress)
            for path in FOLDER.glob(f"{level}-numba-*/*.py{sys.version_info[0]}{sys.version_info[1]}*"):
                if path.name.partition(".py")[0] not in names or not path.parent.name.endswith(f"-{version('numba')}"):
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise NotPrebuilt(f"{error}: run the command as the user who installed the library in {LIBRARY}") from error
        count = len(names)
    return count


def _modules() -> Iterator[str]:
    """List the modules with kernels that Python calls."""
    for path in sorted(LIBRARY.rglob("*.py")):
        if b"\n@unmanaged\n" in path.read_bytes():
            yield ".".join(path.relative_to(LIBRARY.parent).with_suffix("").parts)


def _compiled(modules: Sequence[str], level: str, progress: Progress) -> set[str]:
    """Compile in as many processes as there are processors, and return what numba's files of the kernels are called."""
    names: set[str] = set()
    spawned = multiprocessing.get_context("spawn")  # numba reads the level when it is imported
    with ProcessPoolExecutor(os.cpu_count(), mp_context=spawned, initializer=_set_level, initargs=(level,)) as pool:
        for done, future in enumerate(as_completed([pool.submit(_compile, module) for module in modules]), start=1):
            names |= future.result()
            progress(level, done, len(modules))
    return names


def _set_level(level: str) -> None:
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        del os.environ[name]  # code with bounds checks, say, is not what executors need
    os.environ |= {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""}


def _compile(module: str) -> set[str]:
    from walferry.base.kernels.compiled import kernels_of, prebuild

    return {prebuild(kernel) for kernel in kernels_of(importlib.import_module(module))}
