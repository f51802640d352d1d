"""The source cluster: how to reach it, and how to treat its data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from walferry.crypto.errors import KeyProviderError
from walferry.crypto.provider import KeyProvider
from walferry.errors import WalferryError
from walferry.hbase.layout import QueueLayout, ZNodes

DEFAULT_CONN_ID = "hbase_source"
ARCHIVE_DAYS = 30.0


class VisibilityLabels(StrEnum):
    """What happens to cells with visibility labels."""

    REFUSE = "refuse"
    STRINGS = "strings"  # as label expressions, which the slave turns into its own tags
    SHIP = "ship"  # as they are


class SourceError(WalferryError):
    """A field of the source connection is missing or wrong; the message names the field and what it should be."""

    retry_helps = False


@dataclass(frozen=True, kw_only=True)
class SourceCluster:
    """The HBase cluster whose queues are shipped. It holds no secrets, because it travels in arguments and logs."""

    quorum: str  # "h1:2181,h2:2181", as ZooKeeper clients take it
    wal_root: str  # URL of hbase.wal.dir, or of hbase.rootdir if that is not set
    znode_parent: str = "/hbase"
    root: str = "/walferry"  # our own root in ZooKeeper: leases, progress, marks
    user: str | None = None  # effective user of RPCs; None: the process's user
    queue_layout: str = QueueLayout.HBASE2
    quarantine: str | None = None  # URL of the folder for broken WALs that a run gives up
    archive: str | None = None  # URL of the folder that shipped WALs are copied to before they leave their queues
    archive_days: float = ARCHIVE_DAYS  # how long they are kept there
    key_provider: str | None = None  # URL of the key store for encrypted WALs, without any password
    key_names: tuple[str, ...] = ()  # aliases to try; none: KeyProvider's default
    replication_cluster_id: str | None = None  # hbase.replication.cluster.id; None: bulk loads cannot be shipped
    root_dir: str | None = None  # URL of hbase.rootdir, if it is not wal_root
    skip_bulk_loads: bool = False  # leave out the bulk loads that the source would replicate
    visibility_labels: str = VisibilityLabels.REFUSE
    replication: Mapping[str, str] = field(default_factory=dict, hash=False)  # HBase's settings, by their names: see knobs

    @property
    def nodes(self) -> ZNodes:
        """The cluster's paths in ZooKeeper."""
        return ZNodes(self.znode_parent, QueueLayout(self.queue_layout))

    def keys(self) -> KeyProvider | None:
        """What unwraps the keys of encrypted WALs. It reads no key store until the first such WAL. Raises SourceError."""
        if self.key_provider is None:
            return None
        try:
            return KeyProvider(self.key_provider, self.key_names)
        except KeyProviderError as error:
            raise SourceError(f"key_provider: {error}") from None

    def to_json(self) -> str:
        """Write this cluster as one line of JSON for `from_json`."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> SourceCluster:
        """Read the cluster that `to_json` wrote. Raises SourceError."""
        try:
            fields = json.loads(text)
            return cls(**fields | {"key_names": tuple(fields.get("key_names", ()))})
        except (AttributeError, TypeError, ValueError) as error:
            raise SourceError(f"the source cluster is not the JSON that SourceCluster.to_json writes: {error}") from error
