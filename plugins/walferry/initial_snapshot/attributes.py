"""What of a table's and its families' settings goes to the table that an initial snapshot makes at the slave.

Whoever may alter a table of the source sets them. At the slave they must not load code (coprocessors, policies, classes in a
configuration), use the source's keys, lose edits that were acknowledged (DURABILITY), keep them out (READONLY), or decide about
the slave's servers and disks (replicas, priorities, storage). So only what says how cells are kept and written travels; the rest
is told to the operator. The slave's Master checks the values.

Source: HBase's TableDescriptorBuilder, ColumnFamilyDescriptorBuilder (branch-2.6), HTableDescriptor, HColumnDescriptor
(branch-1.4). docs/initial-snapshot.md has the same lists.
"""

from __future__ import annotations

from collections.abc import Sequence

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import visible
from walferry.hbase.hfiles.settings import PREFIX_LENGTH

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
OF_EACH_CLUSTER = frozenset({"ENCRYPTION_KEY", "IS_META", "IS_ROOT", "OWNER"})  # HBase sets them itself, so nobody has to know
MAX_TOLD, MAX_NAME_CHARS = 20, 100


def portable(schema: pb.TableSchema) -> tuple[pb.TableSchema, tuple[str, ...]]:
    """The schema for the slave, and which of its settings are not in it: "coprocessor$1", "DURABILITY of family f"."""
    made = pb.TableSchema(table_name=pb.TableName(namespace=schema.table_name.namespace, qualifier=schema.table_name.qualifier))
    left = _fill(made, schema, TABLE_ATTRIBUTES)
    for family in schema.column_families:
        name = family.name.decode(errors="backslashreplace")
        kept = made.column_families.add(name=family.name)
        left += [f"{setting} of family {name}" for setting in _fill(kept, family, FAMILY_ATTRIBUTES)]
    return made, tuple(left)


_Schema = pb.TableSchema | pb.ColumnFamilySchema


def _fill(made: _Schema, found: _Schema, safe: frozenset[str]) -> list[str]:
    """Take over the safe settings. Returns the names of the others."""
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


def told(left: Sequence[str]) -> str:
    """The names of settings as one line, or of the first ones."""
    more = [f"and {len(left) - MAX_TOLD} more"] if len(left) > MAX_TOLD else []
    return ", ".join([*(visible(name, MAX_NAME_CHARS) for name in left[:MAX_TOLD]), *more])
