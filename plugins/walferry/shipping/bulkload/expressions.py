"""Finds cells with visibility expressions in words, which only a put turns into a slave's own labels.

A cluster that gets edits from one with VisibilityReplication, but has no VisibilityController itself, has such cells in its WALs.
Loaded as they are, all users would see them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from walferry.base.kernels.compiled import unmanaged
from walferry.base.kernels.read import Bytes, Ints
from walferry.hbase.wal.cells import TagType, cell_end, has_tag
from walferry.hbase.wal.windows import Window
from walferry.replication.filters.window import KeptEdits


def with_expressions(window: Window, kept: KeptEdits) -> npt.NDArray[np.bool_]:
    """Tell of each entry whether a cell that is kept of it has an expression."""
    found = np.zeros(len(window.index), np.bool_)
    _find(window.buf, kept.span_first, kept.span_start, kept.span_end, found)
    return found


@unmanaged
def _find(buf: Bytes, span_first: Ints, span_start: Ints, span_end: Ints, found: npt.NDArray[np.bool_]) -> None:
    for entry in range(found.size):
        for span in range(span_first[entry], span_first[entry + 1]):
            pos = span_start[span]
            while pos < span_end[span]:
                if has_tag(buf, pos, TagType.VISIBILITY_EXPRESSION):
                    found[entry] = True
                pos = cell_end(buf, pos)
