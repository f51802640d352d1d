"""The types of kernels' arguments: for mypy, and for numba, which compiles a kernel for one type of each argument.

An `Out…` is written to. All others are only read, so arrays that cannot be written to fit, too. A table has rows one after the
other; the rows and columns of a view may lie anywhere in another array.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin

import numpy as np
from numba import types
from numpy.typing import NDArray


def _read(kind: types.Type, dimensions: int = 1, layout: str = "C") -> types.Array:
    return types.Array(kind, dimensions, layout, readonly=True)


def _written(kind: types.Type, dimensions: int = 1, layout: str = "C") -> types.Array:
    return types.Array(kind, dimensions, layout)


Bytes = Annotated[NDArray[np.uint8], _read(types.uint8)]
Flags = Annotated[NDArray[np.bool_], _read(types.boolean)]
Int8s = Annotated[NDArray[np.int8], _read(types.int8)]
Int32s = Annotated[NDArray[np.int32], _read(types.int32)]
Ints = Annotated[NDArray[np.int64], _read(types.int64)]
IntTable = Annotated[NDArray[np.int64], _read(types.int64, 2)]
IntView = Annotated[NDArray[np.int64], _read(types.int64, 2, "A")]
Word32Table = Annotated[NDArray[np.uint32], _read(types.uint32, 2)]

OutBytes = Annotated[NDArray[np.uint8], _written(types.uint8)]
OutFlags = Annotated[NDArray[np.bool_], _written(types.boolean)]
OutInt8s = Annotated[NDArray[np.int8], _written(types.int8)]
OutInt32s = Annotated[NDArray[np.int32], _written(types.int32)]
OutInt32Table = Annotated[NDArray[np.int32], _written(types.int32, 2)]
OutInts = Annotated[NDArray[np.int64], _written(types.int64)]
OutIntTable = Annotated[NDArray[np.int64], _written(types.int64, 2)]
OutIntView = Annotated[NDArray[np.int64], _written(types.int64, 2, "A")]
OutWords = Annotated[NDArray[np.uint64], _written(types.uint64)]
OutWordTable = Annotated[NDArray[np.uint64], _written(types.uint64, 2)]


def numba_type(annotation: Any) -> types.Type:
    """Return numba's type of an argument. Raises TypeError for an annotation that does not name one."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    parts = get_args(annotation)
    if get_origin(annotation) is Annotated and isinstance(parts[1], types.Type):
        return parts[1]
    if get_origin(annotation) is tuple and ... not in parts:
        return types.BaseTuple.from_types([numba_type(part) for part in parts])
    raise TypeError(f"{annotation} does not name one type of numba's")


_SCALARS = {int: types.int64, bool: types.boolean}
