"""The source cluster: what Walferry has to know of it to reach it, and how its data is to be treated."""

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


class VisibilityLabels(StrEnum):
    """What becomes of cells with visibility labels."""

    REFUSE = "refuse"
    STRINGS = "strings"  # as expressions of labels, of which the slave makes its own tags
    SHIP = "ship"  # as they are


class SourceError(WalferryError):
    """A field of the source connection is missing or wrong; the message names the field and what it should be."""

    retry_helps = False


@dataclass(frozen=True, kw_only=True)
class SourceCluster:
    """The HBase cluster whose queues are shipped. No secrets: it travels in arguments and in logs."""

    quorum: str  # "h1:2181,h2:2181", as ZooKeeper clients take it
    wal_root: str  # URL of hbase.wal.dir, or of hbase.rootdir where that is not set
    znode_parent: str = "/hbase"
    root: str = "/walferry"  # our own root in ZooKeeper: leases, progress, marks
    user: str | None = None  # effective user of RPCs; None: the process's own
    queue_layout: str = QueueLayout.HBASE2
    quarantine: str | None = None  # URL of the folder for broken WALs that a run gives up
    key_provider: str | None = None  # URL of the key store for encrypted WALs, without any password
    key_names: tuple[str, ...] = ()  # aliases to try; none: KeyProvider's default
    replication_cluster_id: str | None = None  # hbase.replication.cluster.id; None: bulk loads cannot be shipped
    root_dir: str | None = None  # URL of hbase.rootdir, where wal_root is another one
    skip_bulk_loads: bool = False  # pass over bulk loads that the source would replicate
    visibility_labels: str = VisibilityLabels.REFUSE
    replication: Mapping[str, str] = field(default_factory=dict, hash=False)  # HBase's settings, by their names: see knobs

    @property
    def nodes(self) -> ZNodes:
        """The cluster's paths in ZooKeeper."""
        return ZNodes(self.znode_parent, QueueLayout(self.queue_layout))

    def keys(self) -> KeyProvider | None:
        """What unwraps the keys of encrypted WALs; it reads nothing before the first of them. Raises SourceError."""
        if self.key_provider is None:
            return None
        try:
            return KeyProvider(self.key_provider, self.key_names)
        except KeyProviderError as error:
            raise SourceError(f"key_provider: {error}") from None

    def to_json(self) -> str:
        """This cluster as one line of JSON, read back by `from_json`."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> SourceCluster:
        """The cluster that `to_json` wrote. Raises SourceError."""
        try:
            fields = json.loads(text)
            return cls(**fields | {"key_names": tuple(fields.get("key_names", ()))})
        except (AttributeError, TypeError, ValueError) as error:
            raise SourceError(f"the source cluster is not the JSON that SourceCluster.to_json writes: {error}") from error
