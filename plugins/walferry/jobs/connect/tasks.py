"""The functions that a Spark Connect server's Python workers run: a job's items, dealt out to tasks like cards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from walferry.base.jobs import Map
from walferry.base.records import Record

if TYPE_CHECKING:
    import pyarrow as pa

ANSWER = "answer"  # the column of the answers: an item's number, a blank, and its result as JSON


def tasks_of(function: Callable[[Any], Record], items: Sequence[Any], tasks: int) -> tuple[Map, Any]:
    """Return a function for mapInArrow, which does the items of the tasks whose numbers it gets, and the type of its rows.

    Neighbouring items, such as items of one server, are likely to be slow together, so they go to different tasks.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for first in batch.column(0).to_pylist():
                for number in range(first, len(items), tasks):
                    yield pa.RecordBatch.from_pydict({ANSWER: [f"{number} {function(items[number]).to_json()}"]})

    return with_type(lambda: run, {ANSWER: "string"})


def with_type(made: Callable[[], Map], columns: Mapping[str, str]) -> tuple[Map, Any]:
    """Return a function and the type of its rows, in the form that Spark Connect takes."""
    from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

    types = {"int": IntegerType(), "binary": BinaryType(), "string": StringType()}
    return made(), StructType([StructField(name, types[kind]) for name, kind in columns.items()])
