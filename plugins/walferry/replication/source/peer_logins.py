"""The logins to the peer clusters, from connections of their own.

A peer may name a connection in its configuration (walferry.peer_conn_id). For peers that name none, the source's connection may
do so by cluster key, in its extra:

    "peer_clusters": {"zk1,zk2:2181:/hbase": "hbase_peer"}

Connections are read where Airflow or the command runs (`PeerLogins`). Spark has none, so a source gets the logins to the peers'
clusters before it travels there (`with_logins_of`). These contain no secrets.

A peer cluster's connection takes the same extra as a source's. Only its login fields (logins.py) and znode_parent are used. Its
host may be left out; otherwise the host must be the quorum of the peer's cluster key.

Peers are znodes, so every user who may change them may name any connection and any cluster here. That is why

- only connections of the types in CONN_TYPES are used, and nothing of others is shown;
- a password goes only to the cluster that its connection names;
- a login is given out only for the pair of a connection and a cluster key that was checked;
- a principal is used only with hosts that a connection names, in its host or in the field hosts. A peer cluster names its servers
  in its ZooKeeper, its hbase:meta and the folders for its loads, and an attacker may have put any server there.

TLS needs no further rule: our keys are of no use to a server that is not the one it claims to be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walferry.base.security.login import Login, ZooKeeperAuth
from walferry.base.texts import one_line
from walferry.hbase.cluster_key import parse_cluster_key
from walferry.replication.source.cluster import SourceCluster, SourceError, for_peer_cluster
from walferry.replication.source.connection import KNOWN_FIELDS
from walferry.replication.source.fields import CONN_TYPES, Fields, check_known, fields_of, is_conn_id, named, quorum_of
from walferry.replication.source.logins import login_of

if TYPE_CHECKING:  # DAG files are parsed without a ZooKeeper client
    from walferry.replication.peers.reading import Peer

MAX_SHOWN_CHARS = 250


@dataclass(frozen=True)
class PeerConnection:
    """The fields of a peer cluster's connection."""

    login: Login
    quorum: str | None = None  # "h1:2181,h2:2181"; None: the quorum of any cluster that a peer names
    znode_parent: str | None = None


ReadPeerConnection = Callable[[str], PeerConnection]
"""Reads the connection of an id. Raises SourceError."""


class PeerLogins:
    """Finds logins to peer clusters. Each connection is read once."""

    def __init__(self, read: ReadPeerConnection) -> None:
        self._read = read
        self._known: dict[str, PeerConnection | str] = {}

    def __call__(self, conn_id: str, cluster_key: str) -> Login:
        """Return the login from a connection to the peer cluster at `cluster_key`. Raises SourceError."""
        if conn_id not in self._known:
            self._known[conn_id] = _found(conn_id, self._read)
        found = self._known[conn_id]
        problem = found if isinstance(found, str) else _disagreement(found, conn_id, cluster_key)
        if isinstance(found, str) or problem:
            raise SourceError(f"the peer cluster {cluster_key} cannot be talked to: {problem}")
        return found.login


def with_logins_of(source: SourceCluster, peers: Iterable[Peer]) -> SourceCluster:
    """Return the source with the logins to these peers' clusters, for places without connections.

    An error in a connection is raised when its peer cluster is contacted, and does not stop the shipping of other peers.
    """
    logins: dict[str, Login] = {}
    problems: dict[str, str] = {}
    for peer in peers:
        conn_id = source.conn_id_of(peer.cluster_key, peer.peer_conn_id)
        if conn_id is None:
            continue
        try:
            logins[for_peer_cluster(conn_id, peer.cluster_key)] = source.login_to(peer)
        except SourceError as error:
            problems[for_peer_cluster(conn_id, peer.cluster_key)] = str(error)
    return replace(source, peer_clusters=logins, peer_cluster_problems=problems, peer_logins=None)


def peer_connection_from_env(conn_id: str, environ: Mapping[str, str] = os.environ) -> PeerConnection | None:
    """Read the connection in AIRFLOW_CONN_<ID>; None if it is not set. Raises SourceError."""
    text = environ.get(f"AIRFLOW_CONN_{conn_id.upper()}")
    return peer_connection_from_text(text, conn_id) if text else None


def peer_connection_from_text(text: str, conn_id: str) -> PeerConnection:
    """Read a peer cluster's connection as Airflow writes it in the environment: JSON, or a URI. Raises SourceError."""
    return peer_connection_from_fields(fields_of(text, conn_id), conn_id)


def peer_connection_from_fields(fields: Fields, conn_id: str) -> PeerConnection:
    """Check a peer cluster's connection. Raises SourceError, which names the connection and the field."""
    where = named(conn_id)
    if fields.conn_type not in CONN_TYPES:
        raise SourceError(f"{where} is not that of an HBase cluster: its type must be {' or '.join(CONN_TYPES)}")
    extra = {name: value for name, value in fields.extra.items() if value is not None}
    check_known(where, extra, KNOWN_FIELDS)
    login = login_of(where, extra, has_password=fields.has_password)
    quorum = quorum_of(where, fields.host, fields.port) if fields.host else None
    if quorum is None and login.zookeeper.auth is ZooKeeperAuth.DIGEST:
        raise SourceError(
            f"{where}: host is empty; it must be the peer cluster's ZooKeeper quorum, which alone may get a password"
        )
    parent = extra.get("znode_parent")
    hosts = [each.rpartition(":")[0] for each in (quorum or "").split(",") if each]
    return PeerConnection(login.for_peer_clusters(*hosts), quorum, parent if isinstance(parent, str) else None)


def peer_connection_not_defined(conn_id: str) -> SourceError:
    """Make the error for a peer cluster's connection that does not exist."""
    return SourceError(
        f"{named(conn_id)} is not defined: add one of type {CONN_TYPES[0]}, or set AIRFLOW_CONN_{conn_id.upper()}; or "
        "remove it from the peer (walferry.peer_conn_id) or from peer_clusters in the source's connection"
    )


def _found(conn_id: str, read: ReadPeerConnection) -> PeerConnection | str:
    if not is_conn_id(conn_id):  # from a peer's configuration, which may contain anything
        return f"{one_line(repr(conn_id), MAX_SHOWN_CHARS)} is not a connection's id"
    try:
        return read(conn_id)
    except SourceError as error:
        return str(error)
    except Exception as error:  # of a secrets backend: a task may not see every connection that a peer names
        return f"{named(conn_id)} cannot be read: {type(error).__name__}"  # the error's text may contain a secret


def _disagreement(found: PeerConnection, conn_id: str, cluster_key: str) -> str | None:
    """Return why this connection does not belong to the cluster; None if it does."""
    try:
        key = parse_cluster_key(cluster_key)
    except ValueError as error:
        return str(error)
    theirs = sorted(key.connect_string.split(","))
    if found.quorum is not None and sorted(found.quorum.split(",")) != theirs:
        return (
            f"{named(conn_id)}: host is {found.quorum}, which is another cluster; it must be the peer's "
            f"{key.connect_string}, or be left out"
        )
    if found.znode_parent is not None and found.znode_parent != key.znode_parent:
        return f"{named(conn_id)}: extra's znode_parent is {found.znode_parent!r}, but the peer's is {key.znode_parent!r}"
    return None
