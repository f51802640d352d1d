"""The tables of changes of one feed, in a catalog of PyIceberg's configuration.

table of HBase        orders                    shop:items
table of changes      default.orders_changes    shop.items_changes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, UUID, uuid5

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from walferry.base.texts import one_line
from walferry.hbase.cluster import cluster_id
from walferry.replication.peers.column_mappings import ColumnMapping
from walferry.replication.peers.reading import Peer
from walferry.replication.sinks.iceberg.tables import LakeError, table_of
from walferry.replication.source.session import Session

SUFFIX = "_changes"
DEFAULT_NAMESPACE = "default"
MAX_SHOWN_CHARS = 300


@dataclass(frozen=True)
class Lake:
    """The tables of one feed."""

    catalog: Catalog
    source_id: UUID
    feed: str
    id: UUID  # by which edits that have been through this lake would be marked
    mappings: Mapping[str, ColumnMapping] = field(default_factory=dict)  # of typed columns, by table of HBase

    @classmethod
    def of(cls, session: Session, peer: Peer, name: str) -> Lake:
        """Return the lake of a peer. Raises LakeError, ClusterError, PeerError."""
        source_id, id_ = cluster_id(session.zk, session.nodes), uuid5(NAMESPACE_URL, f"walferry lake {name}")
        return cls(open_catalog(name), source_id, f"{peer.id} of {source_id}", id_, peer.lake_columns)

    def listed(self) -> set[str]:
        """Return the tables of HBase of which the catalog has a table of changes, by its name. Raises LakeError."""
        try:
            found = [(space, table) for space in self.catalog.list_namespaces() for table in self.catalog.list_tables(space)]
        except Exception as error:
            why = one_line(str(error), MAX_SHOWN_CHARS)
            raise LakeError(f"catalog {self.catalog.name} cannot be read: {why}", "The next batch tries again") from error
        names = [
            (space[0], table[-1].removesuffix(SUFFIX)) for space, table in found if len(space) == 1 and table[-1].endswith(SUFFIX)
        ]
        return {name if space == DEFAULT_NAMESPACE else f"{space}:{name}" for space, name in names}

    def make(self, table: str) -> Table:
        """Return a table of changes; make it if it does not exist. Raises LakeError."""
        try:
            return table_of(self.catalog, identifier(table), self.mappings.get(table))
        except LakeError:
            raise
        except Exception as error:
            raise unreadable(identifier(table), error) from error


def open_catalog(name: str) -> Catalog:
    """Return a catalog of PyIceberg's configuration, as it is now. Raises LakeError."""
    try:
        found = Config().get_catalog_config(name)  # PyIceberg itself reads its configuration only once, when it is imported
        if found is None:
            raise ValueError("PyIceberg's configuration does not have it")
        return load_catalog(name, **{key: value for key, value in found.items() if isinstance(value, str)})
    except Exception as error:
        raise LakeError(
            f"catalog {name} cannot be used: {one_line(str(error), MAX_SHOWN_CHARS)}",
            "PyIceberg finds catalogs in .pyiceberg.yaml, or in PYICEBERG_CATALOG__<NAME>__URI and its like, where the job's "
            "driver runs",
        ) from error


def identifier(table: str, suffix: str = SUFFIX) -> tuple[str, str]:
    """Return where the changes of a table ("table" or "namespace:table") are, or what `suffix` says: namespace and name."""
    namespace, _, name = table.rpartition(":")
    return namespace or DEFAULT_NAMESPACE, f"{name}{suffix}"


def is_file_of(table: Table | None, path: str) -> bool:
    """Return whether a file lies where the table's files do. False without a table."""
    return table is not None and path.startswith(f"{table.location_provider().data_path}/")


def unreadable(at: tuple[str, str], error: Exception) -> LakeError:
    """Return the error for a table that the catalog does not give."""
    return LakeError(f"table {'.'.join(at)} of the lake cannot be read: {one_line(str(error), MAX_SHOWN_CHARS)}")
