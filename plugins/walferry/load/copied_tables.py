"""Chooses the tables and families of an initial snapshot: all that the peer replicates, or some of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from walferry.base.protos import hbase_pb2 as pb
from walferry.load.errors import CopyRefused
from walferry.replication.filters.rules import PeerTables

GLOBAL_SCOPE = b"1"


@dataclass(frozen=True)
class ChosenTable:
    """A table to copy, with the families that the peer gets. `why_scan` says why its files cannot be copied, if they cannot."""

    name: str
    families: tuple[bytes, ...]
    schema: pb.TableSchema
    why_scan: str = ""


def choose(schemas: Mapping[str, pb.TableSchema], peer_tables: PeerTables, asked: Collection[str] = ()) -> list[ChosenTable]:
    """Choose the `asked` tables of the source, or all that the peer replicates; sorted by name. Raises CopyRefused."""
    if missing := sorted(set(asked) - schemas.keys()):
        raise CopyRefused(f"there is no table {', '.join(missing)} at the source", "Write it as [namespace:]table")
    names = sorted(asked or schemas)
    filtered = [name for name in names if peer_tables.only_rows_of(name.encode())]
    if asked and filtered:
        raise CopyRefused(f"a filter of the peer chooses rows of table {', '.join(filtered)}", "A copy takes all: leave it out")
    found = {name: _families(name, schemas[name], peer_tables) for name in names if name not in filtered}
    if without := [name for name, families in found.items() if asked and not families]:
        raise CopyRefused(
            f"the peer gets no family of table {', '.join(without)}, so the copy would never be kept up to date",
            "Set REPLICATION_SCOPE to 1 at the source and have the peer replicate the table, or leave it out",
        )
    if not any(found.values()):
        raise CopyRefused(
            "the peer replicates no table of the source", "At least one family needs REPLICATION_SCOPE 1, and a place in the peer"
        )
    return [
        ChosenTable(name, families, schemas[name], _why_scan(schemas[name], families))
        for name, families in found.items()
        if families
    ]


def attribute(family: pb.ColumnFamilySchema, name: bytes) -> bytes:
    """Return an attribute of a family; empty if it is not set."""
    return next((pair.second for pair in family.attributes if pair.first == name), b"")


def has_new_version_behavior(family: pb.ColumnFamilySchema) -> bool:
    """Return whether a family orders its cells by sequence numbers, which no load, no scan and no request keeps."""
    return _is_true(family, b"NEW_VERSION_BEHAVIOR")


def _families(table: str, schema: pb.TableSchema, peer_tables: PeerTables) -> tuple[bytes, ...]:
    chosen = [
        family
        for family in schema.column_families
        if attribute(family, b"REPLICATION_SCOPE") == GLOBAL_SCOPE and peer_tables.wants(table.encode(), family.name)
    ]
    for family in chosen:
        if has_new_version_behavior(family):
            raise CopyRefused(
                f"family {family.name.decode(errors='replace')} of table {table} has NEW_VERSION_BEHAVIOR, "
                "which an initial snapshot does not keep",
                "Name the other tables, and copy this one with HBase's ExportSnapshot",
            )
    return tuple(family.name for family in chosen)


def _why_scan(schema: pb.TableSchema, families: Collection[bytes]) -> str:
    """Return why the files of these families are useless elsewhere; empty if they can be copied as far as known."""
    for family in schema.column_families:
        name = family.name.decode(errors="replace")
        if family.name in families and _is_true(family, b"IS_MOB"):
            return f"values of family {name} lie in MOB files"
        if family.name in families and attribute(family, b"ENCRYPTION"):
            return f"family {name} is encrypted with the source's key"
    return ""


def _is_true(family: pb.ColumnFamilySchema, name: bytes) -> bool:
    return attribute(family, name).lower() == b"true"
