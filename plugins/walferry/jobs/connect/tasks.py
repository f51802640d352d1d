"""The functions that a Spark Connect server's Python workers run: a job's items, dealt out to tasks like cards."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from walferry.base.records import Record

if TYPE_CHECKING:
    import pyarrow as pa

Map = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
ANSWER = "answer"  # the column of the answers: an item's number, a blank, and its result as JSON


def tasks_of(function: Callable[[Any], Record], items: Sequence[Any], tasks: int) -> tuple[Map, Any]:
    """Return a function for mapInArrow, which does the items of the tasks whose numbers it gets, and the type of its rows.

    Neighbouring items, such as items of one server, are likely to be slow together, so they go to different tasks.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first in batch.column(0).to_pylist():
                for number in range(first, len(items), tasks):
                    yield _row(f"{number} {function(items[number]).to_json()}".encode())

    return run, StructType([StructField(ANSWER, StringType())])


def _row(text: bytes) -> pa.RecordBatch:
    """Return one row. Of a Python value Arrow would make it with pandas, whose import costs each new worker 0.3 CPU-seconds."""
    import pyarrow as pa

    offsets = pa.py_buffer(struct.pack("=ii", 0, len(text)))
    return pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(text)])], [ANSWER])
