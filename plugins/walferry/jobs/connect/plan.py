"""Makes plans of Spark Connect whose work is done by functions of the library.

In PySpark's words:

    spark.range(0, n, 1, tasks).mapInArrow(function, "column string")
    rows = spark.range(0, n, 1, tasks).mapInArrow(first, columns)
    rows.repartitionById(partitions, "column").mapInArrow(second, "column string")

Spark's Python workers get pickles that only name the library's functions, and contain the functions' arguments.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from typing import Any

from walferry.base.jobs import Shuffle
from walferry.base.protos import spark_connect_pb2 as messages

_MAP_IN_ARROW = 207  # PythonEvalType.SQL_MAP_ARROW_ITER_UDF
_TYPES = {
    "string": messages.DataType(string=messages.DataType.String()),
    "int": messages.DataType(integer=messages.DataType.Integer()),
    "binary": messages.DataType(binary=messages.DataType.Binary()),
}


def plan_of(count: int, tasks: int, command: bytes, column: str) -> messages.Plan:
    """Return the plan for `count` numbers in at most `tasks` tasks.

    `command` is a pickle of a pair: a function for mapInArrow, and the type of its rows, which have one text column `column`.
    """
    return messages.Plan(root=_mapped(_numbers(count, min(count, tasks)), ["id"], command, {column: "string"}))


def shuffled_plan(work: Shuffle, tasks: int, first: bytes, second: bytes) -> messages.Plan:
    """Return the plan for two functions with a shuffle between them, the first one in at most `tasks` tasks.

    `first` and `second` are the functions' pickles, as for `plan_of`.
    """
    rows = _mapped(_numbers(work.items, min(work.items, tasks)), ["id"], first, work.columns)
    direct = messages.Expression.DirectShufflePartitionID(child=_attribute(work.partition))
    dealt = messages.RepartitionByExpression(
        input=rows, partition_exprs=[messages.Expression(direct_shuffle_partition_id=direct)], num_partitions=work.partitions
    )
    shuffled = messages.Relation(common=messages.RelationCommon(plan_id=2), repartition_by_expression=dealt)
    return messages.Plan(root=_mapped(shuffled, list(work.columns), second, {work.answer: "string"}))


def _numbers(count: int, tasks: int) -> messages.Relation:
    numbers = messages.Range(start=0, end=count, step=1, num_partitions=tasks)
    return messages.Relation(common=messages.RelationCommon(plan_id=0), range=numbers)


def _mapped(rows: messages.Relation, arguments: list[str], command: bytes, columns: Mapping[str, str]) -> messages.Relation:
    """Return the rows that a function makes of other rows."""
    fields = [messages.DataType.StructField(name=name, data_type=_TYPES[kind], nullable=True) for name, kind in columns.items()]
    function = messages.CommonInlineUserDefinedFunction(
        function_name="walferry",
        deterministic=True,
        arguments=[_attribute(name) for name in arguments],
        python_udf=messages.PythonUDF(
            output_type=messages.DataType(struct=messages.DataType.Struct(fields=fields)),
            eval_type=_MAP_IN_ARROW,
            command=command,
            python_ver=f"{sys.version_info[0]}.{sys.version_info[1]}",
        ),
    )
    mapped = messages.MapPartitions(input=rows, func=function, is_barrier=False)
    return messages.Relation(common=messages.RelationCommon(plan_id=rows.common.plan_id + 1), map_partitions=mapped)


def _attribute(name: str) -> messages.Expression:
    return messages.Expression(unresolved_attribute=messages.Expression.UnresolvedAttribute(unparsed_identifier=name))


class Calls:
    """Pickles as a call of a library function. Unpickling finds the function by its name."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def pickled_call(function: Callable[..., Any], *arguments: Any) -> bytes:
    """Return a pickle that becomes the function's result when it is unpickled."""
    return pickle.dumps(Calls(function, *arguments))
