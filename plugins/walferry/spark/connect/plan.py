"""A function of the library that runs once for each number from 0 on, as a plan of Spark Connect.

As PySpark would say it: `spark.range(0, n, 1, tasks).mapInArrow(function, "column string")`. What travels to Spark's
Python workers is a pickle that only names the library's function.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

from walferry.protos import spark_connect_pb2 as messages

_MAP_IN_ARROW = 207  # PythonEvalType.SQL_MAP_ARROW_ITER_UDF


def plan_of(count: int, tasks: int, command: bytes, column: str) -> messages.Plan:
    """The plan for `count` numbers in at most so many tasks.

    `command` is a pickle of a pair: a function for mapInArrow, and the type of its rows, which have one `column` of text.
    """
    numbers = messages.Range(start=0, end=count, step=1, num_partitions=min(count, tasks))
    text = messages.DataType(string=messages.DataType.String())
    row = messages.DataType.Struct(fields=[messages.DataType.StructField(name=column, data_type=text, nullable=True)])
    function = messages.CommonInlineUserDefinedFunction(
        function_name="walferry",
        deterministic=True,
        arguments=[
            messages.Expression(unresolved_attribute=messages.Expression.UnresolvedAttribute(unparsed_identifier="id"))
        ],
        python_udf=messages.PythonUDF(
            output_type=messages.DataType(struct=row),
            eval_type=_MAP_IN_ARROW,
            command=command,
            python_ver=f"{sys.version_info[0]}.{sys.version_info[1]}",
        ),
    )
    first = messages.Relation(common=messages.RelationCommon(plan_id=0), range=numbers)
    mapped = messages.MapPartitions(input=first, func=function, is_barrier=False)
    return messages.Plan(root=messages.Relation(common=messages.RelationCommon(plan_id=1), map_partitions=mapped))


class Calls:
    """Pickles as a call of a function of the library, which is found by its name when the pickle is read."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def pickled_call(function: Callable[..., Any], *arguments: Any) -> bytes:
    """A pickle that becomes what the function returns, where it is read."""
    return pickle.dumps(Calls(function, *arguments))
