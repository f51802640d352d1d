"""Makes the tables at the peer cluster after the source's tables, with the settings that may travel, unless the tables exist.

The users who may alter the source's tables choose these settings. At the peer cluster the settings must not load code
(coprocessors, policies, classes in a configuration), use the source's keys, lose acknowledged edits (DURABILITY), refuse edits
(READONLY), or decide about the peer cluster's servers and disks (replicas, priorities, storage). So only settings about how cells
are kept and written travel. The operator is informed of the rest. The peer cluster's Master checks the values.

Source: HBase's TableDescriptorBuilder, ColumnFamilyDescriptorBuilder (branch-2.6), HTableDescriptor, HColumnDescriptor
(branch-1.4). docs/initial-snapshot.md has the same lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import visible
from walferry.hbase.hfiles.settings import PREFIX_LENGTH
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.master import create_namespace, create_table, has_namespace, table_schemas
from walferry.hbase.tables.scan import ScanSpec
from walferry.hbase.tables.tables import Tables
from walferry.load.copied_tables import ChosenTable, has_new_version_behavior
from walferry.load.errors import CopyRefused

TABLE_ATTRIBUTES = frozenset({
    "COMPACTION_ENABLED", "MAX_FILESIZE", "MEMSTORE_FLUSHSIZE", "MERGE_ENABLED", "NORMALIZATION_ENABLED",
    "NORMALIZER_TARGET_REGION_COUNT", "NORMALIZER_TARGET_REGION_SIZE", "NORMALIZER_TARGET_REGION_SIZE_MB", "SPLIT_ENABLED",
    PREFIX_LENGTH,
})  # fmt: skip
FAMILY_ATTRIBUTES = frozenset({
    "BLOCKCACHE", "BLOCKSIZE", "BLOOMFILTER", "CACHE_BLOOMS_ON_WRITE", "CACHE_DATA_IN_L1", "CACHE_DATA_ON_WRITE",
    "CACHE_INDEX_ON_WRITE", "COMPRESSION", "COMPRESSION_COMPACT", "COMPRESSION_COMPACT_MAJOR", "COMPRESSION_COMPACT_MINOR",
    "COMPRESS_TAGS", "DATA_BLOCK_ENCODING", "ENCODE_ON_DISK", "ENCRYPTION", "EVICT_BLOCKS_ON_CLOSE", "INDEX_BLOCK_ENCODING",
    "IN_MEMORY", "IN_MEMORY_COMPACTION", "IS_MOB", "KEEP_DELETED_CELLS", "MIN_VERSIONS", "MOB_COMPACT_PARTITION_POLICY",
    "MOB_THRESHOLD", "NEW_VERSION_BEHAVIOR", "PREFETCH_BLOCKS_ON_OPEN", "REPLICATION_SCOPE", "TTL", "VERSIONS", PREFIX_LENGTH,
})  # fmt: skip
OF_EACH_CLUSTER = frozenset({"ENCRYPTION_KEY", "IS_META", "IS_ROOT", "OWNER"})  # HBase sets them itself, so no message lists them
MAX_REPORTED, MAX_NAME_CHARS = 20, 100


@dataclass(frozen=True)
class MadeTarget:
    """Whether a table was made, and which settings of the source it then lacks, in words."""

    made: bool
    left: tuple[str, ...] = ()


def check_target(master: Connection, tables: Tables, chosen: ChosenTable, *, may_have_rows: bool) -> None:
    """Check that a table that the peer cluster has contains these families, and no rows. Raises CopyRefused, WalferryError."""
    there = table_schemas(master, [chosen.name]).get(chosen.name)
    if there is None:
        return
    families = {family.name for family in there.column_families}
    if lacking := [name.decode(errors="replace") for name in chosen.families if name not in families]:
        raise CopyRefused(
            f"table {chosen.name} at the peer cluster has no family {', '.join(lacking)}",
            "Add it there, or drop the table there: then it is made as at the source",
        )
    for family in there.column_families:
        if family.name in chosen.families and has_new_version_behavior(family):
            raise CopyRefused(
                f"family {family.name.decode(errors='replace')} of table {chosen.name} at the peer cluster has "
                "NEW_VERSION_BEHAVIOR, so deletes of the copy could hide its puts",
                "Drop the table there: then it is made as at the source. Or leave it out",
            )
    if not may_have_rows and has_rows(tables, chosen.name):
        raise CopyRefused(
            f"table {chosen.name} at the peer cluster is not empty",
            "Truncate or drop it there, or leave it out: deleting its rows leaves delete markers, which would hide rows of the "
            "copy. Set allow_not_empty to copy into it all the same: what the copy brings then counts as written after the cells "
            "with equal timestamps that are there",
        )


def make_target(master: Connection, schema: pb.TableSchema, split_keys: Sequence[bytes]) -> MadeTarget:
    """Make the table and its namespace after the source's table, unless it exists. Raises an RpcError."""
    namespace = schema.table_name.namespace.decode()
    if namespace not in ("", "default") and not has_namespace(master, namespace):
        create_namespace(master, namespace)
    table, left = portable(schema)
    return MadeTarget(create_table(master, table, split_keys), left)


def has_rows(tables: Tables, table: str) -> bool:
    """Return whether a table has any cell. Delete markers count, and so do the cells that they hide."""
    return any(len(block) for block in tables.scan(table, ScanSpec(answer_bytes=1, raw=True)))


def portable(schema: pb.TableSchema) -> tuple[pb.TableSchema, tuple[str, ...]]:
    """Return the schema for the peer cluster, and the settings that it lacks, such as "DURABILITY of family f"."""
    made = pb.TableSchema(table_name=pb.TableName(namespace=schema.table_name.namespace, qualifier=schema.table_name.qualifier))
    left = _fill(made, schema, TABLE_ATTRIBUTES)
    for family in schema.column_families:
        name = family.name.decode(errors="backslashreplace")
        kept = made.column_families.add(name=family.name)
        left += [f"{setting} of family {name}" for setting in _fill(kept, family, FAMILY_ATTRIBUTES)]
    return made, tuple(left)


_Schema = pb.TableSchema | pb.ColumnFamilySchema


def _fill(made: _Schema, found: _Schema, safe: frozenset[str]) -> list[str]:
    """Copy the safe settings. Returns the names of the other settings."""
    left = []
    for pair in found.attributes:
        name = pair.first.decode(errors="backslashreplace")
        if name in safe:
            made.attributes.add(first=pair.first, second=pair.second)
        else:
            left.append(name)
    for setting in found.configuration:
        if setting.name in safe:
            made.configuration.add(name=setting.name, value=setting.value)
        else:
            left.append(setting.name)
    return [name for name in left if name not in OF_EACH_CLUSTER]


def reported(left: Sequence[str]) -> str:
    """Return the names of settings as one line; of many, only the first ones."""
    more = [f"and {len(left) - MAX_REPORTED} more"] if len(left) > MAX_REPORTED else []
    return ", ".join([*(visible(name, MAX_NAME_CHARS) for name in left[:MAX_REPORTED]), *more])
