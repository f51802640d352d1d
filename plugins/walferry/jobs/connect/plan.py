"""Makes plans of Spark Connect whose work is done by functions of the library.

In PySpark's words: `spark.range(0, n, 1, tasks).mapInArrow(function, "column string")`.

Spark's Python workers get pickles that only name the library's functions, and contain the functions' arguments.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

from walferry.base.protos import spark_connect_pb2 as messages

_MAP_IN_ARROW = 207  # PythonEvalType.SQL_MAP_ARROW_ITER_UDF


def plan_of(count: int, tasks: int, command: bytes, column: str) -> messages.Plan:
    """Return the plan for `count` numbers in at most `tasks` tasks.

    `command` is a pickle of a pair: a function for mapInArrow, and the type of its rows, which have one text column `column`.
    """
    text = messages.DataType(string=messages.DataType.String())
    field = messages.DataType.StructField(name=column, data_type=text, nullable=True)
    function = messages.CommonInlineUserDefinedFunction(
        function_name="walferry",
        deterministic=True,
        arguments=[messages.Expression(unresolved_attribute=messages.Expression.UnresolvedAttribute(unparsed_identifier="id"))],
        python_udf=messages.PythonUDF(
            output_type=messages.DataType(struct=messages.DataType.Struct(fields=[field])),
            eval_type=_MAP_IN_ARROW,
            command=command,
            python_ver=f"{sys.version_info[0]}.{sys.version_info[1]}",
        ),
    )
    numbers = messages.Range(start=0, end=count, step=1, num_partitions=min(count, tasks))
    rows = messages.Relation(common=messages.RelationCommon(plan_id=0), range=numbers)
    mapped = messages.MapPartitions(input=rows, func=function, is_barrier=False)
    return messages.Plan(root=messages.Relation(common=messages.RelationCommon(plan_id=1), map_partitions=mapped))


class Calls:
    """Pickles as a call of a library function. Unpickling finds the function by its name."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def pickled_call(function: Callable[..., Any], *arguments: Any) -> bytes:
    """Return a pickle that becomes the function's result when it is unpickled."""
    return pickle.dumps(Calls(function, *arguments))
