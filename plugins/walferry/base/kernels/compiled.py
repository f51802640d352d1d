"""Compiles kernels: numba's njit with the settings that all of them share, and with the function's own type for mypy.

    unmanaged  for kernels that Python calls
    inlined    for kernels that only other kernels call: their code becomes part of the caller's

Kernels release the GIL. They must not allocate arrays. In return they need none of numba's reference counts, which makes kernels
that call each other in a loop five times as fast. Indexing with an unsigned integer avoids the check for negative indices and
lets bytes be read as words.

Kernels that Python calls are cached on disk, because every Spark worker needs them. numba reuses a cached kernel while the
kernel's own module is unchanged, even if a kernel that it calls has changed in another module. Therefore a digest of the sources
of all packages with kernels is part of the cached name.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from importlib import resources
from typing import Any, TypeVar, cast

from numba import njit

PACKAGES = (  # packages with kernels
    "walferry.base.kernels",
    "walferry.hbase.wal",
    "walferry.hbase.wal.codecs",
    "walferry.replication.filters",
    "walferry.hbase.hfiles",
    "walferry.replication.sinks.hbase",
    "walferry.hbase.tables",
    "walferry.shipping.bulkload",
    "walferry.verification",
    "walferry.observe.inspection",  # which does not travel to Spark
)

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def unmanaged(kernel: Kernel) -> Kernel:
    """Compile `kernel` to machine code at its first call with a set of argument types."""
    kernel.__qualname__ += f"_{_sources_digest()}"
    options: dict[str, Any] = {"nogil": True, "_nrt": False}
    try:
        return cast(Kernel, njit(cache=True, **options)(kernel))
    except RuntimeError:  # no folder for the cache can be written: compile in each process
        return cast(Kernel, njit(**options)(kernel))


def inlined(kernel: Kernel) -> Kernel:
    """Compile `kernel` into the code of the kernels that call it."""
    return cast(Kernel, njit(nogil=True, _nrt=False, forceinline=True)(kernel))  # type: ignore[call-overload]


@functools.cache
def _sources_digest() -> str:
    digest = hashlib.sha256()
    for package in PACKAGES:
        try:
            files = resources.files(package)
        except ModuleNotFoundError:
            continue
        sources = [file for file in files.iterdir() if file.name.endswith(".py")]
        for source in sorted(sources, key=lambda file: file.name):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
