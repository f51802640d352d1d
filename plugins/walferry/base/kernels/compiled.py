"""Compiles kernels: numba's njit with the settings that all of them share, and with the function's own type for mypy.

    unmanaged  for kernels that Python calls
    inlined    for kernels that only other kernels call: their code becomes part of the caller's

Kernels release the GIL. They must not allocate arrays. So they need no reference counts of numba, which makes kernels that call
each other in a loop five times as fast. Indexing with an unsigned integer avoids the check for negative indices, and lets the
compiler read bytes as words.

A kernel that Python calls is compiled once, for the types of its annotations (`types`). Its code is then looked for

    in the library    `base/kernels/prebuilt`, which `walferry compile` fills (`prebuild`). It travels with the library, so it is
                      made for a named level of processors, and all machines of this level share it
    in numba's cache  beside the module, or in the user's cache folder. A process that compiles a kernel puts it there

Cached code is found by the kernel's name. A digest of the kernel's module and of all library modules that it imports is part of
this name, because numba notices changes in the kernel's own module only, and not in another module whose kernels it calls.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import inspect
import logging
import platform
import re
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
from llvmlite import binding
from numba import njit
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator, NullCache

from walferry.base.kernels.types import numba_type

PREBUILT = Path(__file__).with_name("prebuilt")
LEVELS: Mapping[str, tuple[str, ...]] = {  # the best one first, with what the levels below it do not have
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
}

log = logging.getLogger(__name__)

_IMPORT = re.compile(rb"^from (walferry[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)  # at a module's top level

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def levels() -> list[str]:
    """Return the names of the levels for which code runs on this machine, the best one first. The names are LLVM's."""
    if config.CPU_NAME is not None:
        return [str(config.CPU_NAME)]
    if platform.machine() == "aarch64":
        return ["generic"]
    names = list(LEVELS) if platform.machine() == "x86_64" else []
    found = binding.get_host_cpu_features()
    return [name for i, name in enumerate(names) if all(found.get(each) for level in names[i:] for each in LEVELS[level])]


def prebuilt_folder(level: str) -> Path:
    """Return the library's folder for code of this level."""
    # numba writes an index before its data. So another numba must not have data of the same name.
    return PREBUILT / f"{level}-numba-{numba.__version__}"


def has_prebuilt(module: ModuleType, level: str) -> bool:
    """Return whether the library has compiled code of this module's kernels as they are now, for this Python and level."""
    python = f"py{sys.version_info[0]}{sys.version_info[1]}"
    return any(prebuilt_folder(level).glob(f"*_{_digest(module.__name__)}-*.{python}*.nbi"))


def unmanaged(kernel: Kernel) -> Kernel:
    """Compile `kernel` to machine code for the types of its annotations, once it is called. Other arrays raise TypeError."""
    kernel.__qualname__ += f"_{_digest(kernel.__module__)}"
    lock = threading.Lock()
    run: Callable[..., Any] | None = None

    @functools.wraps(kernel)
    def call(*arguments: Any) -> Any:
        nonlocal run
        if run is None:
            with lock:
                if run is None:
                    run = _loaded(kernel, _Caches(kernel))
        return run(*arguments)

    return cast(Kernel, call)


def inlined(kernel: Kernel) -> Kernel:
    """Compile `kernel` into the code of the kernels that call it."""
    return cast(Kernel, njit(nogil=True, _nrt=False, forceinline=True)(kernel))


def kernels_of(module: ModuleType) -> list[Callable[..., Any]]:
    """Return the kernels of a module that Python calls."""
    own = (each for each in vars(module).values() if inspect.isfunction(each) and each.__module__ == module.__name__)
    return [each for each in own if inspect.unwrap(each).__qualname__.endswith(f"_{_digest(module.__name__)}")]


def prebuild(kernel: Callable[..., Any]) -> str:
    """Put the code of a kernel that Python calls into the library, unless it is there. Returns what its files are called.

    The code is for NUMBA_CPU_NAME.
    """
    function = inspect.unwrap(kernel)
    cache = _prebuilt(str(config.CPU_NAME))(function)
    folder = Path(cache.cache_path)
    folder.mkdir(parents=True, exist_ok=True)
    _loaded(function, cache)
    for path in folder.glob(f"{glob.escape(cache.files)}.*"):
        path.chmod(0o644)  # for others than the one who has installed the library
    return str(cache.files)


def _loaded(kernel: Callable[..., Any], cache: Any) -> Any:
    """Return the kernel's code for the one type that it has, loaded from the cache, or compiled."""
    dispatcher: Any = njit(nogil=True, _nrt=False)(kernel)
    types = inspect.get_annotations(kernel, eval_str=True)
    dispatcher._cache = cache
    dispatcher.compile(tuple([numba_type(types[name]) for name in inspect.signature(kernel).parameters]))
    dispatcher.disable_compile()
    return dispatcher


class _Cache(FunctionCache):
    """numba's cache of a function, for files that may be in any state: a machine that loses power empties some, for example."""

    _unreadable = False

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Take code that cannot be read for code that is not there.

        numba itself sets up its compiler first, which costs a process about as much as to import numba. Only code that has to be
        compiled needs that, and the compiler sets itself up then.
        """
        try:
            return self._load_overload(signature, target_context)
        except Exception as error:  # unpickling may raise anything
            log.warning("compiled code in %s cannot be used, so it is compiled again: %r", self.cache_path, error)
            self._unreadable = True
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Save code, in the place of what cannot be read. Raises OSError."""
        if self._unreadable:
            self.flush()
        super().save_overload(signature, data)


@functools.cache
def _prebuilt(level: str) -> type[_Cache]:
    """Return numba's cache of a function, for code that lies in the library. Only `prebuild` writes it."""

    class Locator(InTreeCacheLocator):
        def get_cache_path(self) -> str:
            return str(prebuilt_folder(level))

        def get_source_stamp(self) -> str:
            return ""  # the digest in a kernel's name says for which sources it is

        def ensure_cache_path(self) -> None:
            """Need no folder that can be written to."""

    class Impl(CompileResultCacheImpl):
        _locator_classes = (Locator,)

    class PrebuiltCache(_Cache):
        _impl_class = Impl

        def _index_key(self, signature: Any, codegen: Any) -> Any:
            """Name the platform instead of the processor: the folder says for which processors the code is."""
            signature, (platform, *_), code = super()._index_key(signature, codegen)
            return signature, platform, code

        @property
        def files(self) -> str:
            """What the kernel's files are called, without Python's version and what follows it."""
            return str(self._impl.filename_base).partition(".py")[0]

    return PrebuiltCache


class _Caches(NullCache):
    """The places where a kernel's code may be. Code that was in none of them is put into numba's own cache."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        prebuilt = [] if config.BOUNDSCHECK else levels()  # with it, kernels have other code of the same name
        self._own = _place(_Cache, kernel)
        self._places = [*(_place(_prebuilt(level), kernel) for level in prebuilt), self._own]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        loaded = (place.load_overload(sig, target_context) for place in self._places)
        return next((code for code in loaded if code is not None), None)

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            self._own.save_overload(sig, data)
        except OSError as error:  # such as a full disk
            log.warning("compiled code cannot be kept, so each process compiles it: %s", error)


def _place(cache: type[FunctionCache], kernel: Callable[..., Any]) -> Any:
    """Return numba's cache of a kernel, or one that is always empty: no folder is writable, or the library is in a zip file."""
    try:
        return cache(kernel)
    except RuntimeError:
        return NullCache()


def sources_of(module: str) -> set[str]:
    """Return, by name, the modules whose code may be in a kernel of `module`: itself and all its direct and indirect imports."""
    found, left = set(), {module}
    while left:
        name = left.pop()
        found.add(name)
        left |= _imported(name) - found
    return found


@functools.cache
def _digest(module: str) -> str:
    digest = hashlib.sha256()
    for name in sorted(sources_of(module)):
        digest.update(_source(name))
    return digest.hexdigest()[:12]


@functools.cache
def _imported(module: str) -> set[str]:
    """Return the modules of this library that a module imports. They are loaded by the time that its kernels are made."""
    found = set()
    for package, names in _IMPORT.findall(_source(module)):
        found |= {package.decode(), *(f"{package.decode()}.{name.decode()}" for name in re.findall(rb"\w+", names))}
    return found & sys.modules.keys()


@functools.cache
def _source(module: str) -> bytes:
    spec: Any = sys.modules[module].__spec__
    return cast(bytes, spec.loader.get_data(spec.origin))
