"""`compiled`: numba's njit with the settings that all kernels share, and with the function's own type for mypy.

Kernels release the GIL and are cached on disk, since every Spark worker needs them. numba keys a cached kernel on the source
of its own module only, so after a change to a kernel that another module calls, remove the `__pycache__` folders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """`kernel` compiled to machine code at its first call with a set of argument types."""
    try:
        return cast(Kernel, njit(nogil=True, cache=True)(kernel))
    except RuntimeError:  # neither the code's folder nor the user's cache folder can be written: compile in each process
        return cast(Kernel, njit(nogil=True, cache=False)(kernel))
