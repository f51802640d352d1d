"""Each kernel is compiled for one type of each argument."""

from typing import Any

import numpy as np
import pytest
from numba import types

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.types import Bytes, Ints, IntTable, IntView, OutBytes, OutIntView, numba_type


@unmanaged
def first(buf: Bytes, out: OutBytes, numbers: IntView, twice: bool) -> int:
    out[0] = buf[0]
    return int(numbers[0, 0]) * (2 if twice else 1)


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        (int, types.int64),
        (bool, types.boolean),
        (Bytes, types.Array(types.uint8, 1, "C", readonly=True)),
        (OutBytes, types.Array(types.uint8, 1, "C")),
        (IntTable, types.Array(types.int64, 2, "C", readonly=True)),
        (OutIntView, types.Array(types.int64, 2, "A")),
        (tuple[int, int], types.UniTuple(types.int64, 2)),
        (tuple[int, Bytes], types.Tuple((types.int64, types.Array(types.uint8, 1, "C", readonly=True)))),
    ],
)
def test_an_annotation_says_which_type_an_argument_has(annotation: Any, wanted: types.Type) -> None:
    assert numba_type(annotation) == wanted


@pytest.mark.parametrize("annotation", [float, str, np.ndarray, tuple[Ints, ...], "Bytes"])
def test_an_annotation_that_says_no_type_is_refused(annotation: Any) -> None:
    with pytest.raises(TypeError, match="does not name one type"):
        numba_type(annotation)


def test_a_kernel_takes_arrays_that_cannot_be_written_and_such_that_can_wherever_their_rows_lie() -> None:
    out = np.zeros(1, np.uint8)
    writable, table = np.full(1, 7, np.uint8), np.array([[1, 2], [3, 4]])
    read_only = writable.copy()
    read_only.flags.writeable = False
    for buf in (writable, read_only):
        for numbers in (table, table[1:], table[:, 1:], table.T):
            assert first(buf, out, numbers, True) == 2 * numbers[0, 0]
            assert out[0] == 7


@pytest.mark.parametrize(
    ("buf", "out"),
    [
        (np.zeros(1, np.int64), np.zeros(1, np.uint8)),
        (np.zeros((1, 1), np.uint8), np.zeros(1, np.uint8)),
        (np.zeros(4, np.uint8)[::2], np.zeros(1, np.uint8)),
        (np.zeros(1, np.uint8), np.frombuffer(b"\0", np.uint8)),
    ],
)
def test_a_kernel_refuses_other_arrays_and_such_that_it_cannot_write(buf: Any, out: Any) -> None:
    with pytest.raises(TypeError):
        first(buf, out, np.zeros((1, 1), np.int64), False)
