"""The rules by which a peer's configuration selects edits, and the reasons for leaving out an edit."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from walferry.hbase.errors import PeerError
from walferry.replication.peers.reading import Peer

_REPLICATED_SYSTEM_TABLES = (b"hbase:acl", b"hbase:labels")


class Reason(enum.IntEnum):
    """Why an entry is not shipped, or only partly. The report uses these names."""

    SHIPPED = 0
    SYSTEM_TABLE = 1
    NOT_GLOBAL = 2  # no cell's family has scope GLOBAL
    NOT_IN_PEER = 3  # the peer's namespaces or table-families exclude it
    FROM_PEER_CLUSTER = 4  # the peer cluster has already consumed it
    BULK_LOAD = 5  # a bulk load whose HFiles are not shipped, because the source or the connection excludes the load
    COMPACTION = 6  # this and the following are markers of a RegionServer's own actions, which are not replicated
    FLUSH = 7
    REGION_EVENT = 8
    REPLICATION_MARKER = 9
    DELETED = 10  # its table or families exist neither at the peer cluster nor at the source any more
    LOADED = 11  # the peer cluster has loaded it as part of a file
    COPIED = 12  # older than the initial snapshot of its table
    NOT_OF_TENANT = 13  # of Phoenix's catalog, and the peer has Phoenix's filter (phoenix.py)


class Catalog(enum.IntEnum):
    """Which table of Phoenix's catalog a table is."""

    NEITHER = 0
    CATALOG = 1
    CHILD_LINK = 2


_CATALOG_TABLES = {
    b"SYSTEM.CATALOG": Catalog.CATALOG,
    b"SYSTEM:CATALOG": Catalog.CATALOG,  # with phoenix.schema.isNamespaceMappingEnabled
    b"SYSTEM.CHILD_LINK": Catalog.CHILD_LINK,
    b"SYSTEM:CHILD_LINK": Catalog.CHILD_LINK,
}


def catalog_of(table: bytes) -> Catalog:
    """Return which table of Phoenix's catalog a table is, by its name as HBase writes it."""
    return _CATALOG_TABLES.get(table, Catalog.NEITHER)


class Families(enum.IntEnum):
    """How the peer's configuration chooses a table's families."""

    NONE = 0
    ALL = 1
    ONLY = 2
    ALL_BUT = 3
    SYSTEM = 4


@dataclass(frozen=True)
class PeerTables:
    """A peer's choice of tables, as ReplicationPeerConfig.needToReplicate reads it.

    An empty set of families means all of them. Three fields are not the peer's choice. `deleted` lists tables and families that
    exist neither at the peer cluster nor at the source, if the peer's settings drop their edits. `loaded` lists the families, by
    table, whose edits the peer cluster has got as files; it has not got other families of these tables. `copied` lists the
    families that were copied after these edits were written.
    """

    replicate_all: bool = True
    namespaces: frozenset[bytes] = frozenset()
    table_families: Mapping[bytes, frozenset[bytes]] = field(default_factory=dict)  # table "ns:qualifier" or "qualifier"
    exclude_namespaces: frozenset[bytes] = frozenset()
    exclude_table_families: Mapping[bytes, frozenset[bytes]] = field(default_factory=dict)
    tenants_only: bool = False  # of Phoenix's catalog
    deleted: Mapping[bytes, frozenset[bytes]] = field(default_factory=dict)
    loaded: Mapping[bytes, frozenset[bytes]] = field(default_factory=dict)
    copied: Mapping[bytes, frozenset[bytes]] = field(default_factory=dict)

    @classmethod
    def of_peer(cls, peer: Peer) -> PeerTables:
        """Return the choice in a peer's configuration."""
        return cls(
            replicate_all=peer.replicate_all,
            namespaces=frozenset(n.encode() for n in peer.namespaces),
            table_families=_encoded(peer.table_cfs),
            exclude_namespaces=frozenset(n.encode() for n in peer.exclude_namespaces),
            exclude_table_families=_encoded(peer.exclude_table_cfs),
            tenants_only=peer.tenants_only,
        )

    def wants(self, table: bytes, family: bytes) -> bool:
        """Return whether the peer gets this family of a table."""
        kind, named = self.families_of(table)
        if kind is Families.ONLY or kind is Families.ALL_BUT:
            return (family in named) == (kind is Families.ONLY)
        return kind is Families.ALL

    def has(self, table: bytes) -> bool:
        """Return whether the peer gets any family of a table, whatever has become of the table's edits elsewhere."""
        return self._chosen(table)[0] not in (Families.SYSTEM, Families.NONE)

    def only_rows_of(self, table: bytes) -> bool:
        """Return whether the peer gets only some rows of `table`, which a filter chooses."""
        return self.tenants_only and catalog_of(table) is not Catalog.NEITHER

    def families_of(self, table: bytes) -> tuple[Families, frozenset[bytes]]:
        """Return the kind of choice for `table`, and the families that it names."""
        kind, named = self._chosen(table)
        deleted, brought = self.deleted.get(table), self.loaded.get(table, frozenset()) | self.copied.get(table, frozenset())
        if kind in (Families.SYSTEM, Families.NONE) or (deleted is None and not brought):
            return kind, named
        if deleted is not None and not deleted:
            return Families.NONE, frozenset()
        without = brought | (deleted or frozenset())
        return (Families.ONLY, named - without) if kind is Families.ONLY else (Families.ALL_BUT, named | without)

    def _chosen(self, table: bytes) -> tuple[Families, frozenset[bytes]]:
        """Return the choice for `table` in the peer's configuration."""
        namespace, _, _ = table.rpartition(b":")
        namespace = namespace or b"default"
        if namespace == b"hbase" and table not in _REPLICATED_SYSTEM_TABLES:
            return Families.SYSTEM, frozenset()
        if self.replicate_all:
            if namespace in self.exclude_namespaces:
                return Families.NONE, frozenset()
            excluded = self.exclude_table_families.get(table)
            if excluded is None:
                return Families.ALL, frozenset()
            return (Families.ALL_BUT, excluded) if excluded else (Families.NONE, frozenset())
        if namespace in self.namespaces:
            return Families.ALL, frozenset()
        included = self.table_families.get(table)
        if included is None:
            return Families.NONE, frozenset()
        return (Families.ONLY, included) if included else (Families.ALL, frozenset())


@dataclass(frozen=True)
class FilterRules:
    """All rules that decide which edits one peer gets from one source."""

    source_id: UUID
    peer_cluster_id: UUID
    tables: PeerTables = PeerTables()

    @classmethod
    def of_peer(
        cls, peer: Peer, source_id: UUID, peer_cluster_id: UUID, deleted: Mapping[bytes, frozenset[bytes]] | None = None
    ) -> FilterRules:
        """Make the rules from the peer's configuration, without `deleted` tables and families.

        Raises PeerError if the peer cluster is the source itself.
        """
        if peer_cluster_id == source_id:
            raise PeerError(peer.id, f"its cluster key {peer.cluster_key} leads to the source cluster itself", "Correct it")
        return cls(source_id, peer_cluster_id, replace(PeerTables.of_peer(peer), deleted=deleted or {}))

    def without_loaded(self, families: Mapping[bytes, frozenset[bytes]]) -> FilterRules:
        """Return these rules for WALs whose edits of some families, by table, the peer cluster has got as files."""
        return replace(self, tables=replace(self.tables, loaded=families)) if families else self

    def without_copied(self, families: Mapping[bytes, frozenset[bytes]]) -> FilterRules:
        """Return these rules for WALs that are older than the initial snapshots of some families, by table."""
        return replace(self, tables=replace(self.tables, copied=families)) if families else self


def _encoded(table_families: Mapping[str, tuple[str, ...]] | None) -> Mapping[bytes, frozenset[bytes]]:
    return {table.encode(): frozenset(f.encode() for f in families) for table, families in (table_families or {}).items()}
