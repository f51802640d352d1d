"""`compiled` and `inlined`: numba's njit with the settings that all kernels share, and with the function's own type for mypy.

Kernels release the GIL, are cached on disk, since every Spark worker needs them, and do without numba's run-time reference
counts: they may allocate nothing, and in return a kernel that calls others is five times as fast. Indexing with an unsigned
integer spares the check for negative ones and lets bytes be read as words.

numba keys a cached kernel on the source of its own module only: after a change to a kernel that another module calls, remove
the `__pycache__` folders, or the other module goes on with the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """`kernel` compiled to machine code, at its first call with a set of argument types. It must not allocate arrays."""
    return _njit(kernel, inline=False)


def inlined(kernel: Kernel) -> Kernel:
    """As `compiled`, for kernels that only other kernels call: their code becomes part of the caller's."""
    return _njit(kernel, inline=True)


def _njit(kernel: Kernel, *, inline: bool) -> Kernel:
    options: dict[str, Any] = {"nogil": True, "_nrt": False, "forceinline": inline}
    try:
        return cast(Kernel, njit(cache=not inline, **options)(kernel))
    except RuntimeError:  # neither the code's folder nor the user's cache folder can be written: compile in each process
        return cast(Kernel, njit(**options)(kernel))
