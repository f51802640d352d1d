"""The form of tables of changes: makes them, checks them, and adds typed columns to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import NestedField

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.replication.peers.column_mappings import UNREAD, ColumnMapping
from walferry.replication.sinks.changes import SCHEMA as COLUMNS
from walferry.replication.sinks.iceberg.data_files import ROW_BOUND_BYTES
from walferry.replication.sinks.iceberg.kinds import iceberg_type, type_within
from walferry.replication.sinks.iceberg.typed_columns import fields_of

TRIES = 5  # to add columns, if others keep writing to the table
MOST_COLUMNS = 1000  # of a table: each file has figures of all of them, and each task their names
MAX_SHOWN_CHARS = 300
SOURCE = "HBase: "  # begins the doc of a typed column (ColumnMapping.sources)


def schema_of(columns: pa.Schema) -> Schema:
    """Return columns of kinds that our tables have in Iceberg's form, numbered from 1 on."""
    return Schema(
        *(
            NestedField(number, field.name, iceberg_type(field.type), required=not field.nullable)
            for number, field in enumerate(columns, start=1)
        )
    )


SCHEMA = schema_of(COLUMNS)
_DAY = PartitionSpec(PartitionField(SCHEMA.find_field("write_time").field_id, 1000, DayTransform(), "write_time_day"))
_BY_ROW = SortOrder(SortField(SCHEMA.find_field("row").field_id, IdentityTransform()))

# The columns by whose figures engines leave out files. Figures of all columns would make a manifest four times as large.
_PRUNED = {"row": f"truncate({ROW_BOUND_BYTES})", "timestamp": "full", "sequence_id": "full", "write_time": "full"}
PROPERTIES = {
    TableProperties.FORMAT_VERSION: "2",
    TableProperties.PARQUET_COMPRESSION: "zstd",
    TableProperties.DEFAULT_WRITE_METRICS_MODE: "none",
    **{f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{name}": mode for name, mode in _PRUNED.items()},
    # Rows lie in order within a file, so who reads a range of them reads few groups. Merges into tables of state do.
    TableProperties.PARQUET_ROW_GROUP_LIMIT: "65536",
}


class LakeError(WalferryError):
    """A table of the lake cannot be read or written."""


def table_of(catalog: Catalog, identifier: tuple[str, str], mapping: ColumnMapping | None = None) -> Table:
    """Return a table of changes, with typed columns; make it if it does not exist.

    Raises LakeError if it is another kind of table, and what the catalog raises.
    """
    table = loaded_or_made(catalog, identifier, SCHEMA, PROPERTIES, partition_spec=_DAY, sort_order=_BY_ROW)
    _check(table)
    add_columns(table, mapping)
    return table


def loaded_or_made(
    catalog: Catalog, identifier: tuple[str, str], schema: Schema, properties: Mapping[str, str], **form: Any
) -> Table:
    """Return a table of a catalog; make it in this form if it does not exist. Raises what the catalog raises."""
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        catalog.create_namespace_if_not_exists(identifier[0])
        try:
            return catalog.create_table(identifier, schema, properties={**properties}, **form)
        except TableAlreadyExistsError:  # another run has made it meanwhile
            return catalog.load_table(identifier)


def add_columns(table: Table, mapping: ColumnMapping | None, *, anew: bool = False) -> None:
    """Add the typed columns that a table lacks. `anew`: its rows are all written again if the mapping changes.

    Raises LakeError if it has another column of such a name, and what the catalog raises.
    """
    if mapping is None:
        return
    for left in range(TRIES, 0, -1):
        added = _added(table, mapping, anew=anew)
        if not added:
            return
        try:
            with table.update_schema() as update:
                for field, doc in added:
                    if field.name in table.schema().column_names:  # for another source: old files show null from now on
                        update.delete_column(field.name)
                    update.add_column(field.name, iceberg_type(field.type), doc=doc)
        except CommitFailedException:  # others have written to the table: another run may have added them
            if left == 1:
                raise
            table.refresh()


def _added(table: Table, mapping: ColumnMapping, *, anew: bool) -> list[tuple[pa.Field, str]]:
    """Return the typed columns that a table lacks, or has for another source, with their sources.

    Each column's doc says what it shows. Where old rows stay, a column that shows something else would mix the two. Most engines
    ignore capitals, and could read neither of two columns whose names differ only in these. Raises LakeError.
    """
    found, added = {each.name.casefold(): each for each in table.schema().fields}, list[tuple[pa.Field, str]]()
    name, sources = ".".join(table.name()), {UNREAD: "typed columns that could not be read", **mapping.sources}
    for wanted in fields_of(mapping):
        there, source = found.get(wanted.name.casefold()), sources[wanted.name]
        another = (there.doc or "").startswith(SOURCE) and there.doc != source if there is not None else False
        if there is None or (anew and another and there.name == wanted.name):
            added.append((wanted, source))
            continue
        if there.name != wanted.name or there.required or type_within(wanted.type, there.field_type) is None:
            raise LakeError(
                f"table {name}: typed column {wanted.name} should be {iceberg_type(wanted.type)}, and the table has "
                f"{there.name} of type {there.field_type}{', which is required' if there.required else ''}",
                "Give the column another name in the peer's mapping (`peers set ID lake.columns=@FILE`), or drop the table's",
            )
        if another:
            raise LakeError(
                f"table {name}: typed column {wanted.name} should show {source}, and has values of "
                f"{one_line(str(there.doc), MAX_SHOWN_CHARS)}",
                "Give the column another name in the peer's mapping (`peers set ID lake.columns=@FILE`), or drop the table's",
            )
    if len(found) + sum(field.name.casefold() not in found for field, _ in added) > MOST_COLUMNS:
        raise LakeError(
            f"table {name} has {len(found):,} columns, and may have {MOST_COLUMNS:,} with the mapping's",
            "Drop those that nobody needs",
        )
    return added


def _check(table: Table) -> None:
    """Raise LakeError unless the table has our columns, and its files are those of days."""
    name = ".".join(table.name())
    kinds = {each.name: each.field_type for each in table.schema().fields}
    for wanted in SCHEMA.fields:
        found = kinds.get(wanted.name)
        if found is None or str(found).split("<")[0] != str(wanted.field_type).split("<")[0]:
            raise LakeError(
                f"table {name} is not a table of changes: column {wanted.name} should be {wanted.field_type}, and is {found}",
                "Rename the table, or choose another namespace for the lake",
            )
    fields = [(each.transform, table.schema().find_column_name(each.source_id)) for each in table.spec().fields]
    if fields != [(DayTransform(), "write_time")]:
        raise LakeError(
            f"table {name} is partitioned by {table.spec()}, and not by the day of write_time",
            "Give it that partition spec again: ALTER TABLE … REPLACE PARTITION FIELD",
        )
