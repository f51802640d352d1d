"""The code that all changes of peers share: find and check a peer, ask the Master, wait for the RegionServers, refuse."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import shell_word
from walferry.base.zk.client import just_written
from walferry.hbase.cluster import live_servers
from walferry.hbase.cluster import master as active_master
from walferry.hbase.errors import MissingPeer, StorageError, UnmanagedPeer
from walferry.hbase.rpc import master
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import RemoteError
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import MANAGED, PREFIX
from walferry.replication.queues.lease import WHY_SETTLING, settling_seconds
from walferry.replication.queues.reading import queue_paths, read_queues
from walferry.replication.queues.rolling import roll
from walferry.replication.source.agreement import check_agreement, check_peer, check_queues_complete
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peer_state import seconds_disabled
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session, open_session

_VERIFY_SECONDS = 30.0
_POLL_SECONDS = 0.5
_PEER_ID = re.compile(r"[^-/\s]+")
# ReplicationPeerManager.checkSameClusterKey, which each change of a peer goes through
_PEER_CLUSTER_UNSEEN = "Can't get peerClusterId"

log = logging.getLogger(__name__)


class Refused(WalferryError):
    """The request is not safe, or not possible as things are. The message says why and what to do."""

    retry_helps = False


@dataclass(frozen=True)
class PeerAdmin:
    """The source cluster's peers, for one operator at a time. All errors are WalferryErrors."""

    session: Session
    sleep: Callable[[float], None] = time.sleep

    def find(self, peer_id: str) -> Peer | None:
        """Return the peer as ZooKeeper has it; None if it does not exist."""
        try:
            return read_peer(self.session, peer_id)
        except (MissingPeer, StorageError):  # a cluster that has never had a peer has no znode for queues yet
            return None

    def managed(self, peer_id: str) -> Peer:
        """Return a managed peer that the Master knows as ZooKeeper does. Raises UnmanagedPeer, MissingPeer, StalePeer."""
        peer = read_peer(self.session, peer_id)
        if not peer.managed:
            raise UnmanagedPeer(peer_id, f"its configuration has no {MANAGED.key}=true", "Walferry does not touch it")
        check_agreement(self.session, peer_id)
        return peer

    def shippable(self, peer_id: str) -> Peer:
        """Return the peer, paused or not, once all live RegionServers queue WALs for it. Raises as check_peer, and Refused."""
        peer = check_peer(self.session, peer_id, even_paused=True)
        self.await_queues(peer_id)
        return peer

    def master(self) -> Connection:
        """Return a connection to the active Master; a context manager."""
        return master.connect(active_master(self.session.zk, self.session.nodes), login=self.session.source.login)

    def change(self, peer_id: str, edit: Callable[[pb.ReplicationPeer], object]) -> None:
        """Make the Master change the peer's configuration as `edit` does."""
        with self.master() as connection:
            config = master.get_peer(connection, peer_id)
            edit(config)
            try:
                master.update_peer_config(connection, peer_id, config)
            except RemoteError as error:
                if _PEER_CLUSTER_UNSEEN not in error.message:
                    raise
                raise Refused(
                    f"the Master changes peer {peer_id} only while the ZooKeeper of its peer cluster answers it, and it does not",
                    "The peer is as it was. Try again once the peer cluster is back",
                ) from error

    def put_configuration(self, peer_id: str, values: Mapping[str, str]) -> None:
        """Set these keys of the peer's configuration and keep the rest."""
        self.change(peer_id, lambda config: put_keys(config, values))

    def await_queues(self, peer_id: str) -> None:
        """Wait until every live RegionServer queues its WALs for the peer. Raises Refused if one does not, ChangingPeer."""
        check_queues_complete(self.session, peer_id)

        def without() -> set[str]:
            queued = {queue.server for queue in read_queues(self.session, peer_id) if queue.wals}
            return {str(server) for server in live_servers(self.session.zk, self.session.nodes)} - queued

        if missing := self.await_none(without, _VERIFY_SECONDS):
            raise Refused(
                f"{', '.join(sorted(missing))} does not queue its WALs for peer {peer_id}", "Look at its log, then try again"
            )

    def await_settled(self, peer: Peer) -> None:
        """Wait until no call that RegionServers made for a DISABLED peer can take effect any more. Log why and for how long."""
        session = self.session
        clock = just_written(session.zk, f"{session.source.root}/clock")
        pause = settling_seconds(seconds_disabled(session, peer.id, clock), peer.config)
        if pause > 0:
            log.info("peer %s: waiting %.0f s: %s", peer.id, pause, WHY_SETTLING)
            self.sleep(pause)

    def delete(self, peer_id: str) -> None:
        """Make the Master remove the peer, and wait until its queues are gone too."""
        with self.master() as connection:
            master.remove_peer(connection, peer_id)
        left = self.await_none(lambda: set(queue_paths(self.session, peer_id)), _VERIFY_SECONDS)
        if left or self.find(peer_id):
            what = ", ".join(sorted(left)) or "its znode"
            raise Refused(f"peer {peer_id} was removed, but {what} is still there", "Look at the Master's log")

    def await_none(self, look: Callable[[], set[str]], seconds: float) -> set[str]:
        """Call `look` repeatedly until it finds nothing. Return what it still finds after `seconds`."""
        waited = 0.0
        while (found := look()) and waited < seconds:
            self.sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS
        return found


@contextmanager
def peer_admin(source: SourceCluster) -> Iterator[PeerAdmin]:
    """Yield a PeerAdmin with a ZooKeeper session of its own. Raises ConnectError."""
    with open_session(source) as session:
        yield PeerAdmin(session)


def begin_new_wals(admin: PeerAdmin) -> None:
    """Make the servers begin new WALs: a new peer's queue begins with each server's open WAL, at its first byte.

    If a server does not begin a new WAL, its queue also has edits from before the peer. They cost time, and nothing is lost. An
    initial snapshot rolls once more, and waits for the new WALs.
    """
    for server, why in roll(admin.session, ()).failures.items():
        log.warning("%s has not begun a new WAL, so edits of before are queued for the peer too: %s", server, why)


def put_keys(config: pb.ReplicationPeer, values: Mapping[str, str]) -> None:
    """Set these keys of a configuration and keep the rest."""
    kept = [pair for pair in config.configuration if pair.name not in values]
    del config.configuration[:]
    config.configuration.extend([*kept, *(pb.NameStringPair(name=name, value=value) for name, value in values.items())])


def finish_command(peer_id: str, new_id: str) -> str:
    """Return the command that ends a hand-back, in quotes."""
    return f"`walferry peers hand-back {shell_word(peer_id)} --to {shell_word(new_id)} --finish`"


def check_id(peer_id: str) -> None:
    """Raise Refused for an id that HBase would not take."""
    if not _PEER_ID.fullmatch(peer_id):
        raise Refused(f"{peer_id!r} is not a peer id: HBase takes no '-', '/' or blanks in it")


def without_own_keys(peer: Peer) -> Peer:
    """Return the part of a peer that decides which edits go where: two peers with equal parts ship the same."""
    kept = {key: value for key, value in peer.config.items() if not key.startswith(PREFIX)}
    return replace(peer, id="", state="", config=kept)
