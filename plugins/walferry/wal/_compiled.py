"""numba's njit with the settings that all kernels share, and with the function's own type for mypy.

    compiled   the plain case
    unmanaged  for kernels that allocate no array: without numba's reference counts, which makes them five times as fast
               where kernels call each other in a loop
    inlined    as unmanaged, for kernels that only other kernels call: their code becomes part of the caller's

All release the GIL; what Python calls is cached on disk, since every Spark worker needs it. Indexing with an unsigned integer
spares the check for negative ones and lets bytes be read as words.

numba keys a cached kernel on the source of its own module only: after a change to a kernel that another module calls, remove
the `__pycache__` folders, or the other module goes on with the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """`kernel` compiled to machine code, at its first call with a set of argument types."""
    return _cached(kernel, {"nogil": True})


def unmanaged(kernel: Kernel) -> Kernel:
    """As `compiled`, for a kernel that allocates no array; numba refuses others."""
    return _cached(kernel, {"nogil": True, "_nrt": False})


def inlined(kernel: Kernel) -> Kernel:
    """As `unmanaged`, with the code put into that of the kernels that call it."""
    return cast(Kernel, njit(nogil=True, _nrt=False, forceinline=True)(kernel))  # type: ignore[call-overload]


def _cached(kernel: Kernel, options: dict[str, Any]) -> Kernel:
    try:
        return cast(Kernel, njit(cache=True, **options)(kernel))
    except RuntimeError:  # neither the code's folder nor the user's cache folder can be written: compile in each process
        return cast(Kernel, njit(**options)(kernel))
