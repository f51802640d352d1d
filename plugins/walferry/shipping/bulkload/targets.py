"""Looks at the peer cluster's tables before a run: which of them take edits as files, and how their files are written.

hbase:meta is read once as a whole, the schemas in one call, and the peer cluster's own peers once, however many tables there are.
All of it may change at any time. If a region has been split since, its server refuses the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import one_line
from walferry.hbase.hfiles.errors import BadBorders, BadFamily
from walferry.hbase.hfiles.settings import PREFIX_LENGTH, FileSettings, settings_of
from walferry.hbase.hfiles.stores import TargetTable, check_target
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.master import table_schemas
from walferry.hbase.tables.regions import Region, TableInMeta
from walferry.hbase.tables.tables import Tables
from walferry.replication.filters.rules import Families, PeerTables
from walferry.shipping.bulkload.fitness import OwnPeers, attributes_of, read_own_peers, unfit_family, unfit_table

MAX_REASON_CHARS = 500
_SYSTEM = "hbase:"
_WATCHED = "it is HBase's own: coprocessors watch what is put into it"
_UPPER_CASE = ("COMPRESSION", "DATA_BLOCK_ENCODING", "BLOOMFILTER")  # HBase takes their values in upper or lower case


@dataclass(frozen=True)
class Target:
    """A table of the peer cluster: the families that the peer gets, and all regions, ordered by their rows and without gaps."""

    families: Mapping[bytes, FileSettings]
    regions: tuple[Region, ...]

    @property
    def stores(self) -> TargetTable:
        """The table, in the form that sorting needs."""
        return TargetTable(tuple(self.families), tuple(region.start for region in self.regions))


@dataclass(frozen=True)
class Targets:
    """The peer cluster's tables that the peer gets, by the names that WALKeys contain.

    Edits may be loaded as files into `tables`. `unfit` gives the reason for each table whose edits may not be. A table in neither
    does not exist at the peer cluster, or has no family that the peer gets. `notes` are for people.
    """

    tables: Mapping[bytes, Target]
    unfit: Mapping[bytes, str]
    notes: tuple[str, ...]


NO_TABLES = Targets({}, {}, ())


def read_targets(peer_cluster: Tables, master: Connection, wants: PeerTables, source_id: UUID) -> Targets:
    """Look at all tables of the peer cluster that the peer gets. `master` is its Master, `source_id` the source's cluster id.

    Raises AccessDenied if the user has neither ADMIN nor CREATE on one of them, ConnectError, TooManyRegions, RegionUnavailable,
    ScanGivenUp, RpcError. Nothing is known then, so no edits may be loaded as files.
    """
    found = peer_cluster.all_tables(lambda table: wants.families_of(table.encode())[0] not in (Families.NONE, Families.SYSTEM))
    own_peers = read_own_peers(master, source_id)
    schemas = table_schemas(master, [table for table in found if not table.startswith(_SYSTEM)])
    tables: dict[bytes, Target] = {}
    unfit = {table.encode(): _WATCHED for table in found if table.startswith(_SYSTEM)}
    notes: list[str] = []
    for table, schema in sorted(schemas.items()):
        name = table.encode()
        families = [family for family in schema.column_families if wants.wants(name, family.name)]
        if not families or table not in found:
            continue
        if reason := _unfit(name, schema, families, found[table], own_peers):
            unfit[name] = one_line(reason, MAX_REASON_CHARS)
            continue
        try:
            settings = {family.name: _settings(schema, family) for family in families}
            target = Target({family: chosen for family, (chosen, _) in settings.items()}, found[table].regions)
            check_target(name, target.stores)
        except (BadFamily, BadBorders) as error:
            unfit[name] = one_line(str(error), MAX_REASON_CHARS)
            continue
        tables[name] = target
        notes += [_note(table, family, other) for family, (_, others) in settings.items() for other in others]
    return Targets(tables, unfit, tuple(notes))


def _unfit(
    name: bytes, schema: pb.TableSchema, families: Sequence[pb.ColumnFamilySchema], in_meta: TableInMeta, own_peers: OwnPeers
) -> str:
    """Return the first reason why edits of these families may not be loaded; empty if there is none."""
    reasons = (unfit_family(name, family, own_peers) for family in families)
    return unfit_table(schema, in_meta) or next((reason for reason in reasons if reason), "")


def _settings(schema: pb.TableSchema, family: pb.ColumnFamilySchema) -> tuple[FileSettings, tuple[str, ...]]:
    """Return how the family's files are written, and which of its settings they do not follow. Raises BadFamily."""
    configuration = {pair.name: pair.value for pair in family.configuration}
    found = configuration | attributes_of(family.attributes)
    of_table = attributes_of(schema.attributes)
    if PREFIX_LENGTH in of_table:
        found.setdefault(PREFIX_LENGTH, of_table[PREFIX_LENGTH])
    found |= {key: found[key].upper() for key in _UPPER_CASE if key in found}
    return settings_of(family.name.decode(errors="backslashreplace"), found)


def _note(table: str, family: bytes, setting: str) -> str:
    text = (
        f"family {family.decode(errors='backslashreplace')} of table {table}: files are not written with {setting}; the next "
        "compaction at the peer cluster does it"
    )
    return one_line(text, MAX_REASON_CHARS)
