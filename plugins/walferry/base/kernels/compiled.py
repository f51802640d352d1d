"""Compiles kernels: numba's njit with the settings that all of them share, and with the function's own type for mypy.

    unmanaged  for kernels that Python calls
    inlined    for kernels that only other kernels call: their code becomes part of the caller's

Kernels release the GIL. They must not allocate arrays. So they need no reference counts of numba, which makes kernels that call
each other in a loop five times as fast. Indexing with an unsigned integer avoids the check for negative indices, and lets the
compiler read bytes as words.

Kernels that Python calls are cached on disk, because every Spark worker needs them. numba reuses a cached kernel while the
kernel's own module is unchanged, even if a kernel that it calls has changed in another module. Therefore a digest of the kernel's
module and of all library modules that it imports is part of the cached name.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_IMPORT = re.compile(rb"^from (walferry[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)  # at a module's top level

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def unmanaged(kernel: Kernel) -> Kernel:
    """Compile `kernel` to machine code at its first call with a set of argument types."""
    kernel.__qualname__ += f"_{_digest(kernel.__module__)}"
    options: dict[str, Any] = {"nogil": True, "_nrt": False}
    try:
        return cast(Kernel, njit(cache=True, **options)(kernel))
    except RuntimeError:  # no folder for the cache is writable: compile in each process
        return cast(Kernel, njit(**options)(kernel))


def inlined(kernel: Kernel) -> Kernel:
    """Compile `kernel` into the code of the kernels that call it."""
    return cast(Kernel, njit(nogil=True, _nrt=False, forceinline=True)(kernel))  # type: ignore[call-overload]


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
