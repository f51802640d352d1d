"""Adds a managed peer: DISABLED, marked as managed, and with a queue at every RegionServer.

It can also take over an existing DISABLED peer from HBase, with its queued WALs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import NAMESPACE_URL, uuid5

from walferry.admin.peer_cluster_checks import Wanted, check_ends, check_mapped
from walferry.admin.peers import PeerAdmin, Refused, begin_new_wals, check_id, finish_command
from walferry.admin.tables import Asked, UnclearTable, resolve, table_name
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import shell_word
from walferry.base.zk.records import put
from walferry.hbase.cluster_key import parse_cluster_key
from walferry.hbase.errors import MissingPeer, StalePeer, StorageError
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import NAMESPACE
from walferry.hbase.rpc import master
from walferry.hbase.values import encode_cluster_id
from walferry.replication.peers.column_mappings import parse_mappings
from walferry.replication.peers.reading import DISABLED, ENABLED, Peer, as_peer, check_ours
from walferry.replication.peers.settings import (
    KAFKA,
    KAFKA_RECORDS,
    KAFKA_RULES,
    LAKE,
    LAKE_COLUMNS,
    MANAGED,
    PEER_CONN_ID,
    Records,
    brokers,
)
from walferry.replication.peers.topic_rules import TopicRules
from walferry.replication.source.agreement import check_agreement
from walferry.replication.source.peers import read_peer


def create(
    admin: PeerAdmin,
    peer_id: str,
    cluster_key: str | None,
    *,
    namespaces: Sequence[str] = (),
    table_cfs: Mapping[str, Sequence[str]] | None = None,
    peer_conn_id: str | None = None,
    goes_to: Mapping[str, str] | None = None,
    allow_missing: bool = False,
) -> Peer:
    """Add a managed peer to the peer cluster at `cluster_key`: of all user tables, or of `namespaces` and tables if any are
    given. With `goes_to`, from `to_lake` or `to_kafka`, its edits go there, and there is no peer cluster.

    Names are as HBase writes them, e.g. "ns" and "ns:table"; a table without families stands for all its families. A name that
    does not exist at the source or the peer cluster is refused; with `allow_missing` it is only logged. `peer_conn_id` is the
    connection with the login to the peer cluster, now and later.
    """
    key = cluster_key if cluster_key is not None else own_key(admin, peer_id)
    wanted = Wanted(peer_id, key, namespaces, table_cfs or {}, peer_conn_id, goes_to or {})
    config = _configuration(wanted)
    found = admin.find(peer_id)
    if found is None:
        check_ends(admin, wanted, allow_missing=allow_missing)
        check_mapped(admin, as_peer(peer_id, config, DISABLED, ""), allow_missing=allow_missing)
        if goes_to:
            _put_id(admin, peer_id)
        begin_new_wals(admin)
        return _add(admin, peer_id, config)
    if not found.managed or found.cluster_key != key or elsewhere(found) != elsewhere(as_peer(peer_id, config, DISABLED, "")):
        raise Refused(
            f"peer {peer_id} exists already ({'managed' if found.managed else 'not managed'}, to {found.target}), and differs",
            "Choose another id, or take it over if it is yours to",
        )
    if edits_of(found) != edits_of(as_peer(peer_id, config, DISABLED, "")):
        raise Refused(
            f"peer {peer_id} exists already, for other tables or namespaces (`peers show {shell_word(peer_id)}` lists them)",
            "Choose another id, or change that peer (`peers set-table-cfs`)",
        )
    return admin.shippable(peer_id)


def to_lake(catalog: str, columns: str = "") -> dict[str, str]:
    """Return what leads edits into the tables of changes of a catalog of PyIceberg's configuration, with typed columns.

    Raises Refused.
    """
    try:
        parse_mappings(columns)
    except ValueError as error:
        raise Refused(str(error)) from error
    return {LAKE.key: catalog, LAKE_COLUMNS.key: columns} if columns.strip() else {LAKE.key: catalog}


def to_kafka(servers: str, records: Records = Records.AVRO, rules: str = "") -> dict[str, str]:
    """Return what leads edits to Kafka: hosts and ports of brokers, the form of the records, and the rules for topics.

    Raises Refused.
    """
    try:
        found = {KAFKA.key: brokers(servers), KAFKA_RECORDS.key: str(records)}
        TopicRules.parse(rules)
    except ValueError as error:
        raise Refused(str(error)) from error
    return {**found, KAFKA_RULES.key: rules} if rules.strip() else found


def elsewhere(peer: Peer) -> dict[str, str]:
    """Return the settings that lead a peer's edits elsewhere, not to a peer cluster; none of a peer that has one."""
    lead = (LAKE, LAKE_COLUMNS, KAFKA, KAFKA_RECORDS, KAFKA_RULES)
    return {each.key: text for each in lead if (text := each.text(peer.config))}


def own_key(admin: PeerAdmin, peer_id: str) -> str:
    """Return the cluster key of a peer without a peer cluster. It leads into our own root, where there is no cluster.

    HBase wants a cluster key of each peer. Its RegionServers look there for a cluster's id, and never ship, as the peer is
    DISABLED.
    """
    hosts = [host.rpartition(":") for host in admin.session.source.quorum.split(",")]
    ports = {port for _, _, port in hosts}
    quorum = ",".join(host for host, _, _ in hosts) if len(ports) == 1 else admin.session.source.quorum
    return f"{quorum}:{min(ports)}:{admin.session.own.elsewhere(peer_id)}"


def _put_id(admin: PeerAdmin, peer_id: str) -> None:
    """Leave an id where RegionServers look for the peer cluster's. Without one they would look again for ever."""
    value = encode_cluster_id(uuid5(NAMESPACE_URL, f"walferry {admin.session.source.root} {peer_id}"))
    put(admin.session.zk, ZNodes(admin.session.own.elsewhere(peer_id)).hbaseid, value)


def meant(admin: PeerAdmin, asked: Sequence[Asked]) -> dict[str, tuple[str, ...]]:
    """Return the tables that an operator wrote, with their families, as `create` takes them."""
    if not asked:
        return {}
    try:
        with admin.master() as source:
            return resolve(asked, source)
    except UnclearTable as error:
        raise Refused(str(error)) from error


def _add(admin: PeerAdmin, peer_id: str, config: pb.ReplicationPeer) -> Peer:
    with admin.master() as connection:
        master.add_peer(connection, peer_id, config, enabled=False)
        try:
            return admin.shippable(peer_id)
        except (MissingPeer, StalePeer, StorageError):
            master.remove_peer(connection, peer_id)  # its queues are not where we could read them
            raise


def _configuration(wanted: Wanted) -> pb.ReplicationPeer:
    check_id(wanted.id)
    try:
        parse_cluster_key(wanted.cluster_key)
    except ValueError as error:
        raise Refused(str(error)) from error
    config = pb.ReplicationPeer(clusterkey=wanted.cluster_key)
    config.configuration.add(name=MANAGED.key, value="true")
    if wanted.peer_conn_id is not None:
        config.configuration.add(name=PEER_CONN_ID.key, value=wanted.peer_conn_id)
    for name, value in wanted.goes_to.items():
        config.configuration.add(name=name, value=value)
    put_edits(config, wanted)
    return config


def put_edits(config: pb.ReplicationPeer, wanted: Wanted) -> None:
    """Make a configuration say which edits the peer gets, in place of what it said before. Raises Refused."""
    config.replicate_all = wanted.all
    config.ClearField("namespaces")
    config.ClearField("table_cfs")
    config.ClearField("exclude_namespaces")
    config.ClearField("exclude_table_cfs")
    for namespace in wanted.namespaces:
        if not NAMESPACE.fullmatch(namespace):
            raise Refused(f"{namespace!r} is not a namespace")
        config.namespaces.append(namespace.encode())
    for table, families in wanted.table_cfs.items():
        try:
            namespace, qualifier = table_name(table)
        except ValueError as error:
            raise Refused(str(error)) from error
        name = pb.TableName(namespace=namespace.encode(), qualifier=qualifier.encode())
        config.table_cfs.add(table_name=name, families=[family.encode() for family in families])


def edits_of(peer: Peer) -> tuple[object, ...]:
    """Return a value that says which edits the peer gets; the order of a table's families does not matter."""
    table_cfs, exclude_table_cfs = (
        {table: frozenset(families) for table, families in (tables or {}).items()}
        for tables in (peer.table_cfs, peer.exclude_table_cfs)
    )
    return peer.replicate_all, peer.namespaces, table_cfs, peer.exclude_namespaces, exclude_table_cfs


def take_over(admin: PeerAdmin, peer_id: str) -> Peer:
    """Mark an existing DISABLED peer as Walferry's."""
    peer = _disabled(admin, peer_id)
    _refuse_successor(admin, peer)
    check_ours(replace(peer, config={**peer.config, MANAGED.key: "true"}))
    check_agreement(admin.session, peer_id)
    if not peer.managed:
        admin.await_settled(peer)
        _disabled(admin, peer_id)
        admin.put_configuration(peer_id, {MANAGED.key: "true"})
    return admin.shippable(peer_id)


def _refuse_successor(admin: PeerAdmin, peer: Peer) -> None:
    """Raise Refused for a peer by which HBase is to ship, and whose predecessor is still ours."""
    before = admin.find(peer.succeeds) if peer.succeeds else None
    if before is not None and before.handed_back_to == peer.id:
        raise Refused(f"peer {before.id} is being handed back to {peer.id}", f"Finish that: {finish_command(before.id, peer.id)}")


def _disabled(admin: PeerAdmin, peer_id: str) -> Peer:
    """Return the peer as it is now. Raises Refused if it is ENABLED."""
    peer = read_peer(admin.session, peer_id)
    if peer.state == ENABLED:
        raise Refused(
            f"peer {peer_id} is ENABLED: its RegionServers ship it",
            f"Disable it (hbase shell: disable_peer '{peer_id}'), then take it over; what they have not shipped by then stays "
            "queued",
        )
    return peer
