"""Gives the reader buffers of some hundred bytes, so that it fills them every few cells instead of every few MB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from walferry.hbase.wal.codecs import compressed, dictionaries
from walferry.hbase.wal.codecs.compressed import Expander
from walferry.hbase.wal.codecs.dictionaries import Dictionaries


@contextmanager
def small_buffers(arena: int = 300, out: int = 500) -> Iterator[None]:
    """Allow `arena` free bytes for new entries of dictionaries, and `out` bytes for expanded entries."""
    with (
        patch.object(dictionaries, "MIN_ARENA_BYTES", arena),
        patch.object(compressed, "MIN_OUT_BYTES", out),
        patch.object(compressed, "OUT_BYTES", out),
    ):
        yield


@contextmanager
def filled_buffers(fill: int) -> Iterator[None]:
    """Fill the memory that the reader of compressed files allocates, but has not yet written to, with the byte `fill`."""

    class Numpy:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def empty(self, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
            array = np.empty(shape, dtype)
            array.reshape(-1).view(np.uint8)[:] = fill
            return array

    begin, make_room = Expander.__post_init__, Dictionaries.make_room

    def begin_filled(self: Expander) -> None:
        begin(self)
        self.dictionaries.arena[:] = fill

    def make_filled_room(self: Dictionaries, length: int) -> None:
        make_room(self, length)
        self.arena[self.used[0] :] = fill

    with ExitStack() as stack:
        stack.enter_context(patch.object(compressed, "np", Numpy()))
        stack.enter_context(patch.object(Expander, "__post_init__", begin_filled))
        stack.enter_context(patch.object(Dictionaries, "make_room", make_filled_room))
        yield
