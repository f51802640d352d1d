"""Checks that the active Master and the storage of the peers agree: ZooKeeper, or files (`SourceCluster.peers_root`).

HBase can keep its peers in the file system (hbase.replication.peer.storage.impl=filesystem). A cluster that was moved there by
`hbase copyreppeers zookeeper filesystem` still has copies in ZooKeeper, but they are never updated: a peer that is DISABLED there
may have been ENABLED long ago. The copies in files of a cluster that was moved back are as old. Only the Master knows, so each
step of a batch, a claim or a change of a peer asks it first.

HBase 1 always keeps its peers in ZooKeeper, and its Master has no such call, so ZooKeeper is trusted there.

A run may be told that the source has no active HMaster (`SourceCluster.master_absent`). Then the storage is trusted, too, unless
there is an HMaster, or hbase.rootdir has the folder in which HBase keeps peers in files and the connection does not name it.
Attempts look again every few seconds, and end when an HMaster comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import TypeVar

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import has_znode
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.cluster import live_servers, release
from walferry.hbase.cluster import master as active_master
from walferry.hbase.errors import (
    ChangingPeer,
    ClusterError,
    MasterPresent,
    MasterSilent,
    MissingPeer,
    QueuesMigrating,
    StalePeer,
    StorageError,
)
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import exists
from walferry.hbase.layout import QueueLayout
from walferry.hbase.queue_table import QUEUE_TABLE
from walferry.hbase.rpc import master
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import AccessDenied, NotAuthenticated, RemoteError, RpcError
from walferry.replication.peers.reading import Peer, as_peer, check_ours, check_shippable
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.source.peers import place_of, read_peer
from walferry.replication.source.session import Session

T = TypeVar("T")

CALL_SECONDS = 20.0
TRIES = 3  # a change reaches ZooKeeper a moment before the Master's own memory
PAUSE_SECONDS = 0.5
HBASE_1 = ("0.", "1.")
PEERS_FOLDER = "peers"  # FSReplicationPeerStorage's hbase.replication.peers.directory


def check_peer(session: Session, peer_id: str, *, even_paused: bool = False) -> Peer:
    """Return the peer if it may be shipped now. Raises a PeerError that says why not, MasterSilent, WalferryError.

    With `even_paused` a peer that is paused is returned too.
    """
    try:
        peer = read_peer(session, peer_id)
    except MissingPeer:
        check_agreement(session, peer_id)  # the Master may know a peer that is not in ZooKeeper
        raise
    (check_ours if even_paused else check_shippable)(peer)
    PeerSettings.of(session.source.replication, peer)  # raises for a wrong setting
    check_agreement(session, peer_id)
    return peer


def check_no_change(session: Session, peer: Peer) -> None:
    """Check that the Master has finished each change of a serial peer, and, with HBase 3, has finished adding peers.

    Raises ChangingPeer, MasterSilent, ConnectError.

    After a peer became serial or got more tables, the Master opens regions anew, and then writes the regions' last pushed ids
    without looking at those that are there (ModifyPeerProcedure). It would lower ids that were raised in the meantime, and edits
    that wait for them would wait for ever.

    A live server of HBase 3 may have no row yet for a peer that is being added. All its WALs would seem to be unshipped.
    """
    if not (peer.serial or session.nodes.in_table):
        return
    if session.source.master_absent:
        raise ChangingPeer(peer.id, "without an HMaster nothing says whether a change of it is finished", "Start one")
    try:
        changing = asked(session, master.is_changing_peers)
    except (ClusterError, RpcError) as error:
        raise _silent(error) from error
    if changing:
        raise ChangingPeer(
            peer.id, "the HMaster has not finished adding or updating a peer, and may be opening regions anew",
            "The next batch ships the peer",
        )  # fmt: skip


def check_queues_complete(session: Session, peer_id: str) -> None:
    """Check that no queue of HBase 3 may be missing, before it is believed that a peer's queues have nothing left.

    A server that died without a row has no queue until the Master makes the row, and a live server without one seems to have
    queued all its WALs while the peer is still being added to it. Raises ChangingPeer, MasterSilent, ConnectError.
    """
    if not session.nodes.in_table:
        return

    def ask(connection: Connection) -> tuple[bool, set[str]]:
        return master.is_settling_queues(connection), set(master.server_reports(connection))

    try:
        settling, known = asked(session, ask)
    except (ClusterError, RpcError) as error:
        raise _silent(error) from error
    if settling or known != {str(server) for server in live_servers(session.zk, session.nodes)}:
        raise ChangingPeer(
            peer_id,
            "the HMaster has not finished adding a peer, or is not done with a dead RegionServer, so a queue may be missing",
            "Try again in a minute",
        )


def check_agreement(session: Session, peer_id: str) -> None:
    """Check that the Master and the storage agree on this peer. Raises StalePeer, or MasterSilent if it cannot be asked."""
    for problem in disagreements(session, [peer_id]).values():
        raise problem


def disagreements(session: Session, peer_ids: Collection[str], said: Mapping[str, Peer] | None = None) -> dict[str, StalePeer]:
    """Return the peers that differ between the Master and the storage, or that only one of the two has. Asks for all in one call.

    `said` is a recent answer of the Master, which is asked again only if this answer differs from the storage. A peer whose znode
    or file cannot be read is left out. Raises MasterSilent, StoreError, ConnectError.
    """
    found: dict[str, str] = {}
    for number in range(TRIES if peer_ids else 0):
        if number:
            time.sleep(PAUSE_SECONDS)
        known = said if said is not None and number == 0 else master_peers(session)
        if known is None:
            return {}
        compared = {peer_id: _difference(session, peer_id, known.get(peer_id)) for peer_id in set(peer_ids)}
        found = {peer_id: what for peer_id, what in compared.items() if what}
        if not found:
            break
    if not found:
        return {}
    in_files, elsewhere = session.source.peers_root is not None, None
    with suppress(StoreError):
        elsewhere = _unnamed_folder(session)
    return {peer_id: StalePeer(peer_id, what, in_files=in_files, folder=elsewhere) for peer_id, what in found.items()}


def _unnamed_folder(session: Session) -> str | None:
    """Return the folder in which HBase would keep peers in files, if it exists and the connection does not name one."""
    folder = f"{session.source.hbase_root.rstrip('/')}/{PEERS_FOLDER}"
    return folder if session.source.peers_root is None and exists(folder) else None


def check_master_absent(session: Session) -> None:
    """Check what a run was told: that no HMaster is active, and so only the storage has the peers.

    Raises MasterPresent, StoreError.
    """
    if (why := why_master_counts(session)) is not None:
        raise why
    if (folder := _unnamed_folder(session)) is not None:
        raise MasterPresent(
            f"{folder} is there: the cluster may keep its peers in files (hbase.replication.peer.storage.impl=filesystem), and "
            "then those in ZooKeeper are out of date. Without an HMaster nothing says which of them count",
            f"If the peers are in ZooKeeper, move {folder} away; otherwise set peers_root in the connection's extra to it",
        )


def why_master_counts(session: Session) -> MasterPresent | None:
    """Return why a run that was told that no HMaster is active may not go on; None if it may, or was not told that."""
    if not session.source.master_absent or not has_znode(session.zk, session.nodes.master):
        return None
    return MasterPresent(
        f"an HMaster is active ({session.nodes.master} is there), but this run was told that none is",
        "Run it without that: the HMaster's word on the peers counts. What is acknowledged is registered",
    )


def master_peers(session: Session) -> Mapping[str, Peer] | None:
    """Ask the active Master for its peers, by id; None for HBase 1, and for a run that was told that no HMaster is active.

    The answer also shows whether the queues are where the connection says. Raises StorageError if they were moved to a table,
    or not yet; MasterSilent, MasterPresent, StoreError, ConnectError.
    """
    if session.source.master_absent:
        check_master_absent(session)
        return None
    try:
        return {peer.id: peer_of_master(peer) for peer in asked(session, partial(_peers_and_queues, session))}
    except StorageError:
        raise
    except (ClusterError, RpcError) as error:
        if (isinstance(error, RemoteError) and master.lacks_call(error, "ListReplicationPeers")) or is_hbase_1(session):
            return None
        raise _silent(error) from error


def _peers_and_queues(session: Session, connection: Connection) -> list[pb.ReplicationPeerDescription]:
    """Ask the Master for the peers, and check where it keeps the queues. Raises StorageError, RpcError."""
    peers = master.list_peers(connection)
    of_hbase_3 = any(peer.HasField("syncReplicationState") for peer in peers)  # HBase 3 says it of each peer, older ones of none
    if session.nodes.in_table and peers and not of_hbase_3:
        raise StorageError(
            "the HMaster runs HBase 2, which keeps its replication queues in ZooKeeper",
            f"Set queue_layout in the connection's extra to {QueueLayout.HBASE2}",
        )
    if session.nodes.in_table:
        if not master.has_moved_queues(connection):
            raise QueuesMigrating(
                f"the HMaster has not moved all queues from ZooKeeper to table {QUEUE_TABLE} yet", "Try again in a minute"
            )
    elif of_hbase_3:
        raise StorageError(
            f"the HMaster runs HBase 3. It keeps replication queues in table {QUEUE_TABLE}, and moves those of HBase 2 there",
            f"Set queue_layout in the connection's extra to {QueueLayout.TABLE}. Acknowledged edits count, or are shipped again",
        )
    return peers


def asked(session: Session, ask: Callable[[Connection], T]) -> T:
    """Ask the active Master, and return the answer. Raises ClusterError, ZNodeValueError, RpcError, ConnectError."""
    at = active_master(session.zk, session.nodes)
    with master.connect(at, login=session.source.login, timeout=CALL_SECONDS) as connection:
        return ask(connection)


def _silent(error: ClusterError | RpcError) -> MasterSilent:
    """Return the error of a Master that was not asked, does not answer, or refuses us."""
    return MasterSilent(str(error), refused=isinstance(error, AccessDenied), closed=isinstance(error, NotAuthenticated))


def is_hbase_1(session: Session) -> bool:
    """Return whether the servers say that they run HBase 1. A secured HBase may not: then the Master's own error is clearer."""
    return (release(session.zk, session.nodes) or "").startswith(HBASE_1)


def peer_of_master(peer: pb.ReplicationPeerDescription) -> Peer:
    """Return the peer as the Master knows it. If it contains names that are not UTF-8, only its id, cluster key and state.

    Such a peer is not shipped, but it must not stop the others.
    """
    state = peer.state.State.Name(peer.state.state)
    try:
        return as_peer(peer.id, peer.config, state, f"the Master's peer {peer.id}")
    except ZNodeValueError:
        return Peer(peer.id, peer.config.clusterkey, state, config={})


def _difference(session: Session, peer_id: str, theirs: Peer | None) -> str | None:
    """Describe how the Master and the storage disagree on the peer; None if they agree."""
    place = place_of(session, peer_id)
    try:
        ours = read_peer(session, peer_id)
    except (MissingPeer, StorageError):  # a storage without peers may be right: only the Master knows
        return None if theirs is None else f"the Master knows it ({theirs.state}), but there is no {place}"
    except ZNodeValueError:
        return None
    if theirs is None:
        return f"{place} is there, but the Master does not know such a peer"
    differ = [field.name for field in fields(Peer) if field.compare and getattr(ours, field.name) != getattr(theirs, field.name)]
    if not differ:
        return None
    where = "in ZooKeeper" if session.source.peers_root is None else "in files"
    state = f" ({theirs.state}, {where} {ours.state})" if "state" in differ else ""
    return f"the Master knows it with another {', '.join(differ)}{state} than {place} has"
