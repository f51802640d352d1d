"""Assembles replication peers from what HBase has stored, and checks whether Walferry may ship them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kazoo.client import KazooClient

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import unknown_fields, unknown_numbers
from walferry.base.texts import one_line
from walferry.base.zk.client import Whose, read
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.cluster import release
from walferry.hbase.cluster_key import ClusterKey, parse_cluster_key
from walferry.hbase.errors import (
    CustomEndpointPeer,
    CustomFilterPeer,
    EnabledPeer,
    PausedPeer,
    PeerError,
    PeerNotUnderstood,
    UnmanagedPeer,
)
from walferry.hbase.layout import PEER_STATE, SYNC_STATES, TABLE_CFS, ZNodes
from walferry.hbase.names import table_text
from walferry.hbase.peer_files import PeerFiles
from walferry.hbase.table_cfs import parse_table_cfs
from walferry.hbase.values import decode_message, decode_peer, decode_table_cfs, is_synchronous
from walferry.replication.peers import settings
from walferry.replication.peers.column_mappings import ColumnMapping
from walferry.replication.peers.topic_rules import TopicRules

ENABLED = "ENABLED"
DISABLED = "DISABLED"
ENABLED_ADVICE = (
    "Disable it; if Walferry has shipped it before, restart the RegionServers too: their sources name WALs that are gone"
)
# HBase's own endpoints, which send whole entries to the other cluster's sinks as Walferry does.
INTER_CLUSTER_ENDPOINTS = ("", "org.apache.hadoop.hbase.replication.regionserver.HBaseInterClusterReplicationEndpoint")
MAX_ODD = 5  # unknown items named in a message
MAX_TEXT_CHARS = 200
TABLE_CFS_RELEASES = ("0.", "1.0.", "1.1.", "1.2.", "1.3.")  # keep a peer's tables in a separate znode
# HBase 1.4 and later: `optional int64 bandwidth = 6`, always written. HBase 2 has the namespaces in 6, and the bandwidth in 7.
BANDWIDTH_OF_HBASE_1 = (6, 0)  # number and wire type (varint)


@dataclass(frozen=True)
class Peer:
    """A replication peer. Its tables are named as in WALs: `table` in the default namespace, else `namespace:table`."""

    id: str
    cluster_key: str
    state: str  # ENABLED or DISABLED
    config: Mapping[str, str]
    endpoint_impl: str = ""
    serial: bool = False
    replicate_all: bool = True
    namespaces: frozenset[str] = frozenset()
    table_cfs: Mapping[str, tuple[str, ...]] | None = None  # without families: all families
    exclude_namespaces: frozenset[str] = frozenset()
    exclude_table_cfs: Mapping[str, tuple[str, ...]] | None = None
    bandwidth: int = 0  # bytes a second; 0: not limited
    # Parts of its znodes that this code does not know. The Master does not report them, so they are not compared.
    not_understood: tuple[str, ...] = field(default=(), compare=False)

    @property
    def managed(self) -> bool:
        """Whether the peer's configuration marks it as Walferry's."""
        return settings.MANAGED.text(self.config).lower() == "true"

    @property
    def paused(self) -> bool:
        """Whether its operator has paused shipping."""
        return settings.PAUSED.text(self.config).lower() == "true"

    @property
    def handed_back_to(self) -> str | None:
        """The id of the peer through which HBase is to ship instead of this one. That peer may be gone, see `successor`."""
        return settings.HANDED_BACK_TO.text(self.config) or None

    @property
    def succeeds(self) -> str | None:
        """The id of the managed peer that this one replaces: HBase is to ship this peer instead, or has begun to."""
        return settings.SUCCEEDS.text(self.config) or None

    @property
    def peer_conn_id(self) -> str | None:
        """The connection with the login to the peer cluster, if the peer names one."""
        return settings.PEER_CONN_ID.text(self.config) or None

    @property
    def hfiles_with(self) -> str | None:
        """The peer whose batches make this peer's files, too, if its operator has named one."""
        return settings.HFILES_WITH.text(self.config) or None

    @property
    def lake(self) -> str | None:
        """The catalog of Iceberg in whose tables its edits go; None if they go elsewhere."""
        return settings.LAKE.text(self.config) or None

    @property
    def lake_columns(self) -> dict[str, ColumnMapping]:
        """The typed columns of its tables in a lake, by table. Raises PeerError."""
        return settings.LAKE_COLUMNS.of(self) or {}

    @property
    def kafka(self) -> str | None:
        """The brokers of Kafka to which its edits go, as hosts and ports; None if they go elsewhere."""
        try:
            found: str | None = settings.KAFKA.of(self)
            return found
        except PeerError:  # PeerSettings refuses it
            return settings.KAFKA.text(self.config)

    @property
    def kafka_records(self) -> settings.Records:
        """The form of its records in Kafka. Raises PeerError."""
        return settings.KAFKA_RECORDS.of(self) or settings.Records.AVRO

    @property
    def kafka_rules(self) -> TopicRules:
        """Which of its cells go into which topics of Kafka. Raises PeerError."""
        return settings.KAFKA_RULES.of(self) or TopicRules()

    @property
    def in_hbase(self) -> bool:
        """Whether its edits go into another HBase cluster."""
        return not self.lake and not self.kafka

    @property
    def target(self) -> str:
        """Where its edits go, for people: the cluster key, the catalog of a lake, or brokers of Kafka."""
        if self.in_hbase:
            return self.cluster_key
        return f"the lake {self.lake}" if self.lake else f"Kafka at {self.kafka}"

    @property
    def custom_filters(self) -> list[str]:
        """The Java classes of WALEntryFilter through which its edits go, besides HBase's own."""
        return [name.strip() for name in settings.CUSTOM_FILTERS.text(self.config).split(",") if name.strip()]

    @property
    def tenants_only(self) -> bool:
        """Whether it gets only those rows of Phoenix's catalog that belong to tenants."""
        return settings.SYSTEM_CATALOG_FILTER in self.custom_filters

    @property
    def max_lag(self) -> float | None:
        """How many seconds its oldest edit may wait; None if its operator has set no limit. Raises PeerError."""
        seconds: float | None = settings.MAX_LAG.of(self)
        return seconds

    @property
    def peer_cluster(self) -> ClusterKey:
        """The cluster key of the peer cluster. Raises PeerError if the key is malformed."""
        try:
            return parse_cluster_key(self.cluster_key)
        except ValueError as error:
            raise PeerError(self.id, str(error), "Correct the peer's cluster key") from error


def peer_cluster_of(peer_id: str, key: ClusterKey) -> Whose:
    """Return the name in messages of the ensemble behind a peer's cluster key."""
    where = f"the cluster key of peer {peer_id}, {key}"
    return Whose(f"the cluster of peer {peer_id}", f"{where},", where)


def peer_of(zk: KazooClient, nodes: ZNodes, peer_id: str, config: bytes, state: bytes, names: Collection[str]) -> Peer:
    """Assemble a peer from its znodes, two of which were read before. `names`: its children. Raises ZNodeValueError."""
    path, state_path = nodes.peer(peer_id), nodes.peer_state(peer_id)
    message, status = decode_peer(config, path), decode_message(pb.ReplicationState, state, state_path)
    peer = as_peer(peer_id, message, pb.ReplicationState.State.Name(status.state), path)
    odd = [f"it has {path}/{name}" for name in sorted(names) if name not in (PEER_STATE, TABLE_CFS, *SYNC_STATES)]
    for place in (f"{path}/{name}" for name in SYNC_STATES if name in names):
        if (znode := read(zk, place)) is not None and is_synchronous(znode.value, place):
            odd.append(f"it has a state of synchronous replication in {place}")
    unknown = unknown_fields(message, [BANDWIDTH_OF_HBASE_1]) + unknown_fields(status)
    odd += [f"its message has {field}" for field in unknown]
    # Releases with replicate_all, or with tables in the message, keep the older znode but do not read it.
    if TABLE_CFS in names and not message.HasField("replicate_all") and peer.table_cfs is None:
        peer, problems = _with_table_cfs(zk, nodes, peer)
        odd += problems
    if nodes.in_table and peer.serial:
        odd.append("it is serial, and its last pushed ids are in a table of HBase 3, which Walferry does not write")
    return replace(peer, not_understood=(*peer.not_understood, *odd))


def _with_table_cfs(zk: KazooClient, nodes: ZNodes, peer: Peer) -> tuple[Peer, list[str]]:
    """Return the peer with the tables in its znode of HBase 0.98 to 1.3, and the parts that are not understood."""
    path = nodes.peer_table_cfs(peer.id)
    znode = read(zk, path)
    text = decode_table_cfs(znode.value, path) if znode else ""
    try:
        tables = parse_table_cfs(text)
    except ValueError as error:
        return peer, [f"in {path}, {error}"]
    version = release(zk, nodes) if tables else None
    if version is not None and not version.startswith(TABLE_CFS_RELEASES):
        # HBase copies the tables into the message when its Master starts, so a user has removed them since.
        how = f"HBase {version} ships all tables, until its Master starts again and takes these back: set the peer's tables anew"
        return peer, [f"{path} names tables ({one_line(text, MAX_TEXT_CHARS)}) and its message none; {how}, or delete that znode"]
    return replace(peer, table_cfs=tables, replicate_all=tables is None), []


def peer_of_files(peer_id: str, files: PeerFiles) -> Peer:
    """Assemble a peer from its files. Raises ZNodeValueError."""
    message = decode_peer(files.config, files.folder)
    peer = as_peer(peer_id, message, ENABLED if files.disabled_ms is None else DISABLED, files.folder)
    odd = [f"it has {files.folder}/{name}" for name in files.odd]
    odd += [f"its message has {field}" for field in unknown_fields(message)]
    return replace(peer, not_understood=tuple(odd))


def check_shippable(peer: Peer) -> None:
    """Check that the peer may be shipped now. Raises a PeerError that explains why not and what to do."""
    check_ours(peer)
    if peer.paused:
        raise PausedPeer(peer.id)


def check_ours(peer: Peer) -> None:
    """Check that the peer is one that Walferry ships, paused or not. Raises a PeerError that explains why not and what to do."""
    if not peer.managed:
        raise UnmanagedPeer(
            peer.id,
            f"its configuration has no {settings.MANAGED.key}=true, so it is not Walferry's",
            "Nothing of it is touched. To hand it over, disable it first, then set this in its configuration",
        )
    if peer.state != DISABLED:
        raise EnabledPeer(peer.id, f"it is {peer.state}, so its RegionServers ship it themselves", ENABLED_ADVICE)
    if peer.endpoint_impl not in INTER_CLUSTER_ENDPOINTS:
        raise CustomEndpointPeer(
            peer.id,
            f"it has the endpoint {peer.endpoint_impl}",
            "Walferry ships into HBase clusters only: leave this peer to HBase",
        )
    if others := [name for name in peer.custom_filters if name != settings.SYSTEM_CATALOG_FILTER]:
        raise CustomFilterPeer(
            peer.id,
            f"its edits go through custom filters ({settings.CUSTOM_FILTERS.key} = {','.join(others)})",
            "Walferry cannot run them and would ship what they leave out: leave this peer to HBase, or empty that setting",
        )
    check_understood(peer)


def refusal(peer: Peer) -> str | None:
    """Say why Walferry may not ship the peer, by its state and configuration; None if it may, or is only paused."""
    try:
        check_ours(peer)
        settings.PeerSettings.of({}, peer)
    except PeerError as error:
        return str(error)
    return None


def check_understood(peer: Peer) -> None:
    """Check that Walferry understands all contents of the peer's znodes: only then is it certain what the peer gets, and where.

    Raises PeerNotUnderstood, and PeerError for a malformed cluster key.
    """
    odd = list(peer.not_understood)
    at = peer.peer_cluster
    odd += [
        f"its configuration has {each.key} = {peer.config[each.key]}, which HBase puts over its cluster key"
        for each, meant in zip(settings.OVER_THE_CLUSTER_KEY, (at.quorum, at.port, at.znode_parent), strict=True)
        if peer.config.get(each.key, str(meant)) != str(meant)
    ]
    if odd:
        raise PeerNotUnderstood(
            peer.id,
            f"Walferry does not know all that it says: {'; '.join(odd[:MAX_ODD])}",
            "It would ship what the peer leaves out, or elsewhere: leave this peer to HBase, or take that away",
        )


def as_peer(peer_id: str, message: pb.ReplicationPeer, state: str, znode: str) -> Peer:
    """Turn a peer's message into a Peer; `znode` is the message's path, for errors. Raises ZNodeValueError."""
    try:
        return Peer(
            id=peer_id,
            cluster_key=message.clusterkey,
            state=state,
            config={pair.name: pair.value for pair in message.configuration},
            endpoint_impl=message.replicationEndpointImpl,
            serial=message.serial,
            replicate_all=_replicates_all(message),
            namespaces=frozenset(name.decode() for name in message.namespaces),
            table_cfs=_table_cfs(message.table_cfs),
            exclude_namespaces=frozenset(name.decode() for name in message.exclude_namespaces),
            exclude_table_cfs=_table_cfs(message.exclude_table_cfs),
            bandwidth=_bandwidth(message),
            not_understood=("it has a remoteWALDir (synchronous replication)",) if message.remoteWALDir else (),
        )
    except UnicodeDecodeError as error:
        raise ZNodeValueError(znode, f"a table, family or namespace is not UTF-8 ({error})", "Correct the peer") from error


def _bandwidth(message: pb.ReplicationPeer) -> int:
    """Return the bytes a second; 0 for no limit. HBase treats a negative number as no limit too."""
    older = unknown_numbers(message, BANDWIDTH_OF_HBASE_1)
    bandwidth = older[-1] if older and not message.HasField("bandwidth") else message.bandwidth
    return bandwidth if 0 < bandwidth < 1 << 63 else 0


def _replicates_all(message: pb.ReplicationPeer) -> bool:
    """Return `replicate_all`. Releases before 2.0 do not write it: there, tables or namespaces in a peer exclude all others."""
    return message.replicate_all if message.HasField("replicate_all") else not (message.table_cfs or message.namespaces)


def _table_cfs(entries: Iterable[pb.TableCF]) -> Mapping[str, tuple[str, ...]] | None:
    return {table_text(entry.table_name): tuple(family.decode() for family in entry.families) for entry in entries} or None
