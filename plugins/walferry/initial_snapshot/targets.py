"""The tables at the slave: made after the source's, with those of their settings that may travel, unless they are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.master import create_namespace, create_table, has_namespace, table_schemas
from walferry.hbase.tables.scan import ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.initial_snapshot.attributes import portable
from walferry.load.copied_tables import ChosenTable, has_new_version_behavior
from walferry.load.copy_errors import CopyRefused


@dataclass(frozen=True)
class MadeTarget:
    """Whether a table was made, and which of the source's settings it has not got then, in words."""

    made: bool
    left: tuple[str, ...] = ()


def check_target(master: Connection, tables: Tables, chosen: ChosenTable, *, may_have_rows: bool) -> None:
    """Check that a table that is at the slave already has such families, and no rows. Raises CopyRefused, WalferryError."""
    there = table_schemas(master, [chosen.name]).get(chosen.name)
    if there is None:
        return
    families = {family.name for family in there.column_families}
    if lacking := [name.decode(errors="replace") for name in chosen.families if name not in families]:
        raise CopyRefused(
            f"table {chosen.name} at the slave has no family {', '.join(lacking)}",
            "Add it there, or drop the table there: then it is made as at the source",
        )
    for family in there.column_families:
        if family.name in chosen.families and has_new_version_behavior(family):
            raise CopyRefused(
                f"family {family.name.decode(errors='replace')} of table {chosen.name} at the slave has NEW_VERSION_BEHAVIOR, so "
                "deletes of the copy could hide its puts",
                "Drop the table there: then it is made as at the source. Or leave it out",
            )
    if not may_have_rows and has_rows(tables, chosen.name):
        raise CopyRefused(
            f"table {chosen.name} at the slave is not empty",
            "Truncate or drop it there, or leave it out: deleting its rows leaves delete markers, which would hide rows of the "
            "copy. Set allow_not_empty to copy into it all the same: what the copy brings then counts as written after the cells "
            "with equal timestamps that are there",
        )


def make_target(master: Connection, schema: pb.TableSchema, split_keys: Sequence[bytes]) -> MadeTarget:
    """Make the table, and its namespace, after the source's, unless it is there. Raises an RpcError."""
    namespace = schema.table_name.namespace.decode()
    if namespace not in ("", "default") and not has_namespace(master, namespace):
        create_namespace(master, namespace)
    table, left = portable(schema)
    return MadeTarget(create_table(master, table, split_keys), left)


def has_rows(tables: Tables, table: str) -> bool:
    """Tell whether a table has any cell. Delete markers count, and the cells that they hide."""
    return any(len(block) for block in tables.scan(table, ScanSpec(answer_bytes=1, raw=True)))
