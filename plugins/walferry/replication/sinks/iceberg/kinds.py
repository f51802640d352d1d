"""Iceberg's types for those of Arrow that our tables have, and the wider ones that Iceberg lets others give a column."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    StringType,
    TimestamptzType,
)

from walferry.replication.sinks.changes import SCHEMA as COLUMNS

_KINDS = {
    "binary": BinaryType(),
    "string": StringType(),
    "bool": BooleanType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date32[day]": DateType(),
    "timestamp[us, tz=UTC]": TimestamptzType(),
    "list<element: string not null>": ListType(element_id=len(COLUMNS.names) + 1, element=StringType(), element_required=True),
}
_WIDER: dict[tuple[IcebergType, IcebergType], pa.DataType] = {
    (IntegerType(), LongType()): pa.int64(),
    (FloatType(), DoubleType()): pa.float64(),
}


def iceberg_type(arrow: pa.DataType) -> IcebergType:
    """Return Iceberg's type for one of Arrow."""
    return DecimalType(arrow.precision, arrow.scale) if pa.types.is_decimal(arrow) else _KINDS[str(arrow)]


def type_within(arrow: pa.DataType, there: IcebergType) -> pa.DataType | None:
    """Return the type in which a column of type `there` takes values of an Arrow type; None: it does not."""
    wanted = iceberg_type(arrow)
    if there == wanted:
        return arrow
    if isinstance(wanted, DecimalType) and isinstance(there, DecimalType):
        wider = there.scale == wanted.scale and there.precision > wanted.precision
        return pa.decimal128(there.precision, there.scale) if wider else None
    return _WIDER.get((wanted, there))
