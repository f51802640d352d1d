"""Walks through all that the connections of a source and of its slaves have to lead to, from the files of a login to rights.

login       files, a ticket from the KDC
source      ZooKeeper and its ACLs, RegionServers, the Master, ADMIN, the folders of WALs
slaves      the login by the slave's connection, ZooKeeper, RegionServers, WRITE; then the peer: configuration, tables, queues
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from walferry.admin.diagnosis import servers
from walferry.admin.diagnosis.findings import Finding, looked, note, well, wrong
from walferry.admin.diagnosis.logins import login_findings
from walferry.admin.diagnosis.peers import check_one
from walferry.admin.diagnosis.source import access, told
from walferry.admin.peers import PeerAdmin
from walferry.base.errors import WalferryError
from walferry.base.security.login import Login
from walferry.base.zk.client import CONNECT_TIMEOUT_SECONDS, connected
from walferry.base.zk.errors import ForeignRoot, NoAccess, known
from walferry.hbase.cluster import cluster_id, live_servers
from walferry.hbase.errors import MissingPeer
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.replication.peers.reading import Peer, read_peer, read_peers, slave_of
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.session import Session, writing_session

SLAVE_SECONDS = 10.0


def check_connections(
    source: SourceCluster, peer_ids: Sequence[str] = (), connect_seconds: float = CONNECT_TIMEOUT_SECONDS
) -> Iterator[Finding]:
    """Look at the source, and at these peers and their slaves, or at all managed ones. Findings come one after the other.

    Raises MissingPeer.
    """
    yield from login_findings("source", source.login)
    try:
        with connected(source.quorum, connect_seconds, login=source.login) as zk:
            session, refused = _session(source, zk)
            if refused is not None:
                yield wrong("own root" if isinstance(refused, ForeignRoot) else "ZooKeeper's ACLs", refused)
            yield from access(session, writes=refused is None)
            yield from told("peers", lambda: _peers(session, peer_ids))
    except MissingPeer:
        raise
    except (WalferryError, KazooException) as error:
        yield wrong("ZooKeeper", known(error))


def _session(source: SourceCluster, zk: KazooClient) -> tuple[Session, NoAccess | ForeignRoot | None]:
    """The session, and why it may create no znodes, as HBase's own do, below a root of ours."""
    try:
        return writing_session(source, zk, look_only=True), None
    except (NoAccess, ForeignRoot) as error:
        return Session(source, zk, look_only=True), error


def _peers(session: Session, peer_ids: Sequence[str]) -> Iterator[Finding]:
    if peer_ids:
        peers = [read_peer(session.zk, session.nodes, peer_id) for peer_id in peer_ids]
    else:
        listing = read_peers(session.zk, session.nodes)
        yield from (wrong("peers", problem) for problem in listing.problems)
        peers = [peer for peer in listing.peers if peer.managed]
    if not peers:
        yield note("peers", "there is no managed peer", "`walferry peers create` adds one")
    for peer in peers:
        yield from slave_access(session.source, peer)
        yield from _peer(session, peer.id)


def _peer(session: Session, peer_id: str) -> list[Finding]:
    try:
        return check_one(PeerAdmin(session), peer_id)
    except (WalferryError, KazooException) as error:
        return [wrong(f"peer {peer_id}", known(error))]


def slave_access(source: SourceCluster, peer: Peer) -> Iterator[Finding]:
    """Whether the connection to a peer's slave leads to it, and lets us write there."""
    whose = f"slave of peer {peer.id}"
    conn_id = source.conn_id_of(peer.cluster_key, peer.slave_conn_id)
    try:
        login = source.login_to(peer)
    except SourceError as error:
        yield wrong(f"{whose}: connection", error)
        return
    if conn_id is not None:
        yield well(f"{whose}: connection", f"{conn_id}, for {peer.cluster_key}")
    yield from login_findings(whose, login)
    try:
        key = peer.slave
        with connected(key.connect_string, SLAVE_SECONDS, slave_of(peer.id, key), login) as zk:
            nodes = ZNodes(key.znode_parent)
            yield looked(f"{whose}: ZooKeeper", lambda: f"cluster {cluster_id(zk, nodes)} at {key}")
            live = sorted(live_servers(zk, nodes))
    except (WalferryError, KazooException) as error:
        yield wrong(f"{whose}: ZooKeeper", known(error))
        return
    yield from _servers(whose, live, login)


def _servers(whose: str, live: Sequence[ServerName], login: Login) -> Iterator[Finding]:
    what = f"{whose}: RegionServers"
    if not live:
        yield wrong(what, "none is live")
        return
    answers = servers.ask(live, login)
    yield from servers.silent(what, answers, "See to it, and to the network from here: it can take no shipments")
    able = [server for server, answer in answers.items() if servers.is_answer(answer)]
    if able:
        yield well(what, servers.answering(answers))
        yield servers.may_write(f"{whose}: rights", able[0], login)
