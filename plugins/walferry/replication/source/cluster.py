"""The source cluster: how to reach it, and how to treat its data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from walferry.base.errors import WalferryError
from walferry.base.records import Strict, parsed_object, record_of
from walferry.base.security.login import UNSECURED, Login
from walferry.base.texts import one_line
from walferry.hbase.cluster_key import parse_cluster_key
from walferry.hbase.crypto.provider import KeyProvider, KeyProviderError
from walferry.hbase.files.logins import log_in
from walferry.hbase.layout import QueueLayout, ZNodes
from walferry.replication.peers.settings import PEER_CONN_ID

if TYPE_CHECKING:  # DAG files are parsed without a ZooKeeper client
    from walferry.replication.peers.reading import Peer

DEFAULT_CONN_ID = "hbase_source"
ARCHIVE_DAYS = 30.0


class VisibilityLabels(StrEnum):
    """What happens to cells with visibility labels."""

    REFUSE = "refuse"
    STRINGS = "strings"  # as label expressions, which the peer cluster turns into its own tags
    SHIP = "ship"  # as they are


class SourceError(WalferryError):
    """A field of the source connection is missing or wrong; the message names the field and the form that it should have."""

    retry_helps = False


def canonical(cluster_key: str) -> str:
    """Return the cluster key in a form that is the same for all keys of one cluster."""
    try:
        key = parse_cluster_key(cluster_key)
    except ValueError:
        return cluster_key
    return f"{','.join(sorted(key.connect_string.split(',')))}:{key.znode_parent}"


def for_peer_cluster(conn_id: str, cluster_key: str) -> str:
    """Return the name of a connection when it is used for a peer cluster."""
    return f"{conn_id} {canonical(cluster_key)}"


@dataclass(frozen=True, kw_only=True)
class SourceCluster(Strict):
    """The HBase cluster whose queues are shipped. It contains no secrets, because it travels in arguments and logs.

    Each process with a SourceCluster, also on Spark, uses its folders on HDFS with its login: see hbase/files/logins.py.
    """

    quorum: str  # "h1:2181,h2:2181", as ZooKeeper clients take it
    wal_root: str  # URL of hbase.wal.dir, or of hbase.rootdir if that is not set
    znode_parent: str = "/hbase"
    root: str = "/walferry"  # our own root in ZooKeeper: leases, progress, cursors
    login: Login = UNSECURED
    # The logins to peer clusters: see peer_logins.py. Where there are connections, `peer_logins` reads them; elsewhere it is
    # None.
    peer_conn_ids: Mapping[str, str] = field(default_factory=dict, hash=False)  # by `canonical` keys, for peers that name none
    peer_logins: Callable[[str, str], Login] | None = field(default=None, compare=False, repr=False)
    # the logins that were read, by `for_peer_cluster`
    peer_clusters: Mapping[str, Login] = field(default_factory=dict, hash=False)
    # why there is no login, by `for_peer_cluster`
    peer_cluster_problems: Mapping[str, str] = field(default_factory=dict, hash=False)
    kafka_clients: Mapping[str, str] = field(default_factory=dict, hash=False)  # files of settings, by `settings.brokers`
    queue_layout: str = QueueLayout.HBASE2
    quarantine: str | None = None  # URL of the folder for broken WALs that a run gives up
    archive: str | None = None  # URL of the folder that shipped WALs are copied to before they leave their queues
    archive_days: float = ARCHIVE_DAYS  # how long the copies are kept there
    key_provider: str | None = None  # URL of the key store for encrypted WALs, without any password
    key_names: tuple[str, ...] = ()  # aliases to try; none: KeyProvider's default
    replication_cluster_id: str | None = None  # hbase.replication.cluster.id; None: bulk loads cannot be shipped
    root_dir: str | None = None  # URL of hbase.rootdir, if it is not wal_root
    peers_root: str | None = None  # URL of the folder of HBase's peers, if the source keeps them in files
    skip_bulk_loads: bool = False  # leave out the bulk loads that the source would replicate
    visibility_labels: str = VisibilityLabels.REFUSE
    replication: Mapping[str, str] = field(default_factory=dict, hash=False)  # HBase's settings, by their names
    master_absent: bool = False  # a run was told that no HMaster is active, so ZooKeeper alone says what the peers are

    def __post_init__(self) -> None:
        self._log_in_to_folders()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        # Spark's workers unpickle the cluster, which makes objects without their constructor.
        self.__dict__.update(state)
        self._log_in_to_folders()

    def _log_in_to_folders(self) -> None:
        for folder in (self.wal_root, self.root_dir, self.peers_root, self.archive, self.quarantine):
            if folder is not None:
                log_in(folder, self.login.kerberos)

    @property
    def nodes(self) -> ZNodes:
        """The cluster's paths in ZooKeeper."""
        return ZNodes(self.znode_parent, QueueLayout(self.queue_layout))

    @property
    def hbase_root(self) -> str:
        """The URL of hbase.rootdir."""
        return self.root_dir or self.wal_root

    def keys(self) -> KeyProvider | None:
        """The provider that unwraps the keys of encrypted WALs; reads no key store before the first one. Raises SourceError."""
        if self.key_provider is None:
            return None
        try:
            return KeyProvider(self.key_provider, self.key_names)
        except KeyProviderError as error:
            raise SourceError(f"key_provider: {error}") from None

    def login_to(self, peer: Peer) -> Login:
        """Return the login to a peer's cluster. Raises SourceError as `login_at` does."""
        return self.login_at(peer.cluster_key, peer.peer_conn_id)

    def login_at(self, cluster_key: str, conn_id: str | None) -> Login:
        """Return the login to the peer cluster at `cluster_key`, from the connection `conn_id` if a peer names one.

        A peer cluster without a connection counts as in the source's realm, with the same authorities. A password is sent only to
        the cluster that it was given for, and a principal is used only with hosts that a connection names. Raises SourceError if
        the peer cluster's connection was not found, or is wrong.
        """
        conn_id = self.conn_id_of(cluster_key, conn_id)
        if conn_id is None:
            return self.login.without_password().for_peer_clusters()
        pair = for_peer_cluster(conn_id, cluster_key)
        if pair in self.peer_clusters:
            return self.peer_clusters[pair]
        if pair not in self.peer_cluster_problems and self.peer_logins is not None:
            return self.peer_logins(conn_id, cluster_key)
        raise SourceError(self.peer_cluster_problems.get(pair) or (
            f"the peer cluster {cluster_key} has the connection {one_line(repr(conn_id), 250)}, which was not read when this "
            f"run began. {PEER_CONN_ID.key} or the cluster key of its peer has changed since: the next run reads it"
        ))  # fmt: skip

    def conn_id_of(self, cluster_key: str, conn_id: str | None) -> str | None:
        """Return the id of the peer cluster's connection: the one that a peer names, else the one for its cluster key."""
        return conn_id or self.peer_conn_ids.get(canonical(cluster_key))

    def to_json(self) -> str:
        """Write this cluster as one line of JSON for `from_json`."""
        fields = asdict(replace(self, peer_logins=None))
        del fields["peer_logins"]
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> SourceCluster:
        """Read the cluster that `to_json` wrote. Raises SourceError."""
        try:
            return record_of(cls, parsed_object(text))
        except (TypeError, ValueError) as error:
            raise SourceError(f"the source cluster is not the JSON that SourceCluster.to_json writes: {error}") from error
