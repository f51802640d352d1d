"""The messages are Spark's own, and the pickles name the library's function."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor

from walferry.base.protos import spark_connect_pb2 as ours
from walferry.jobs.connect.plan import pickled_call, plan_of

PLUGINS = str(Path(ours.__file__).parents[3])


def test_the_plan_is_the_one_that_pyspark_makes() -> None:
    from pyspark.sql.connect.plan import MapPartitions, Range
    from pyspark.sql.connect.proto import Relation
    from pyspark.sql.connect.udf import UserDefinedFunction
    from pyspark.sql.types import StringType, StructField, StructType

    rows = StructType([StructField("text", StringType())])
    function = UserDefinedFunction(lambda batches: batches, rows, name="walferry", evalType=207)  # type: ignore[arg-type]
    theirs = MapPartitions(Range(0, 3, 1, 3), function, ["id"], False, None).plan(None)  # type: ignore[arg-type]
    mine = Relation.FromString(plan_of(3, 8, theirs.map_partitions.func.python_udf.command, "text").root.SerializeToString())
    theirs.common.plan_id, theirs.map_partitions.input.common.plan_id = 1, 0
    # What PySpark says though it is the default.
    theirs.map_partitions.func.arguments[0].unresolved_attribute.ClearField("is_metadata_column")
    theirs.map_partitions.func.python_udf.output_type.struct.fields[0].data_type.string.ClearField("collation")
    assert mine == theirs


@pytest.mark.parametrize(("count", "tasks", "partitions"), [(1, 8, 1), (8, 8, 8), (9, 8, 8), (500, 8, 8)])
def test_a_job_takes_no_more_tasks_than_it_may(count: int, tasks: int, partitions: int) -> None:
    numbers = plan_of(count, tasks, b"pickle", "text").root.map_partitions.input.range
    assert (numbers.end, numbers.num_partitions) == (count, partitions)


def messages_of(file: Descriptor) -> Iterator[Descriptor]:
    yield file
    for nested in file.nested_types:
        if not nested.GetOptions().map_entry:
            yield from messages_of(nested)


@pytest.mark.parametrize(
    "mine", [m for top in ours.DESCRIPTOR.message_types_by_name.values() for m in messages_of(top)], ids=lambda m: m.name
)
def test_names_numbers_and_types_are_spark_s(mine: Descriptor) -> None:
    import pyspark.sql.connect.proto as theirs

    path = mine.full_name.removeprefix("walferry.connect.").split(".")
    other = getattr(theirs, path[0]).DESCRIPTOR
    for name in path[1:]:
        other = other.nested_types_by_name[name]
    for field in mine.fields:
        of_spark = other.fields_by_name[field.name]
        assert (field.number, field.type, field.is_repeated) == (of_spark.number, of_spark.type, of_spark.is_repeated)


def test_a_call_is_made_where_its_pickle_is_read() -> None:
    assert pickle.loads(pickled_call(divmod, 7, 2)) == (3, 1)


def test_the_client_imports_neither_pyspark_nor_what_only_workers_need() -> None:
    code = (
        "import sys, walferry.jobs.connect.connect_job, walferry.shipping.ship_run\n"
        "print(sorted({'pyspark', 'pandas', 'numpy', 'numba', 'pyarrow', 'airflow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": PLUGINS}, check=True)
    assert done.stdout == "[]\n"
