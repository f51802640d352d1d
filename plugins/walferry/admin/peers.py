"""Taking replication peers in and giving them back, through the source's master; nothing else of a peer is ever changed.

    create      a new managed peer: DISABLED, marked walferry.managed=true
    take over   an existing DISABLED peer with its backlog: sets the mark
    hand back   1. a new ENABLED peer beside ours, with its cluster key and filters: HBase ships what is written from now on
                2. Walferry drains the rest of ours
                3. finish: ours is removed once nothing depends on it
    remove      a managed peer, once its backlog is shipped or given up

A managed peer is never enabled: its RegionServers remember WALs that Walferry has taken out of their queues, and would abort or
hang on them. Each step can be repeated; one that was done already changes nothing.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from walferry.admin.tables import Asked, UnclearTable, missing, resolve, table_name
from walferry.errors import WalferryError
from walferry.hbase.cluster import cluster_id, live_servers
from walferry.hbase.cluster import master as active_master
from walferry.hbase.errors import MissingPeer, StorageError, UnmanagedPeer
from walferry.hbase.layout import ZNodes
from walferry.hbase.peers import (
    DISABLED,
    ENABLED,
    MANAGED_KEY,
    Peer,
    as_peer,
    check_shippable,
    parse_cluster_key,
    read_peer,
    slave_of,
)
from walferry.protos import hbase_pb2 as pb
from walferry.queues import rolling
from walferry.queues.lease import settling_s
from walferry.queues.reading import Queue, queue_paths, read_queues
from walferry.rpc import master
from walferry.rpc.connection import Connection
from walferry.rpc.errors import RpcError
from walferry.shipping.plan import PeerPlan, plan_peer
from walferry.source.agreement import check_agreement
from walferry.source.cluster import SourceCluster
from walferry.source.session import Session, open_session
from walferry.zk.client import connected, just_written, read

OWN_KEYS = "walferry."
HANDED_BACK_KEY = "walferry.handed-back-to"
VERIFY_S = 30.0
POLL_S = 0.5
CLOSING_S = 5.0  # WALs are closed a moment after they are rolled
_PEER_ID = re.compile(r"[^-/\s]+")
_NAMESPACE = re.compile(r"\w+")
_log = logging.getLogger(__name__)


class Refused(WalferryError):
    """What was asked for is not safe, or not possible as things are; the message says why and what to do."""

    retry_helps = False


@dataclass(frozen=True)
class PeerAdmin:
    """The source cluster's peers, for one operator at a time. Errors: Refused, WalferryError, RpcError, StoreError."""

    session: Session
    sleep: Callable[[float], None] = time.sleep

    def create(
        self,
        peer_id: str,
        cluster_key: str,
        *,
        namespaces: Sequence[str] = (),
        table_cfs: Mapping[str, Sequence[str]] | None = None,
        allow_missing: bool = False,
    ) -> Peer:
        """Add a managed peer to the slave at `cluster_key`: of all user tables, or of `namespaces` and tables if any are given.

        Names are as HBase writes them, e.g. "ns" and "ns:table"; a table without families brings all of them. What of these is
        missing at the source or the slave is refused, or with `allow_missing` only logged.
        """
        wanted = _configuration(peer_id, cluster_key, namespaces, table_cfs or {})
        found = self._find(peer_id)
        if found is None:
            self._check_ends(peer_id, cluster_key, namespaces, table_cfs or {}, allow_missing)
            return self._add_managed(peer_id, wanted)
        if not found.managed or found.cluster_key != cluster_key:
            raise Refused(
                f"peer {peer_id} exists already ({'managed' if found.managed else 'not managed'}, to {found.cluster_key}). "
                "Choose another id, or take it over if it is yours to"
            )
        if _edits(found) != _edits(as_peer(peer_id, wanted, DISABLED, "")):
            raise Refused(
                f"peer {peer_id} exists already, for other tables or namespaces (`peers show {peer_id}` lists them). Choose "
                "another id, or remove that peer first"
            )
        return self._checked(peer_id)

    def meant(self, asked: Sequence[Asked]) -> dict[str, tuple[str, ...]]:
        """Tables with their families, as `create` takes them, out of what an operator wrote."""
        if not asked:
            return {}
        try:
            with self._master() as source:
                return resolve(asked, source)
        except UnclearTable as e:
            raise Refused(str(e)) from e

    def take_over(self, peer_id: str) -> Peer:
        """Mark an existing DISABLED peer as Walferry's, with whatever is queued for it."""
        peer = read_peer(self.session.zk, self.session.nodes, peer_id)
        if peer.state == ENABLED:
            raise Refused(
                f"peer {peer_id} is ENABLED: its RegionServers ship it. Disable it (hbase shell: disable_peer '{peer_id}'), then "
                "take it over; what they have not shipped by then stays queued"
            )
        check_shippable(replace(peer, config={**peer.config, MANAGED_KEY: "true"}))
        check_agreement(self.session, peer_id)
        if not peer.managed:
            self._await_settled(peer_id)
            self._put_configuration(peer_id, MANAGED_KEY, "true")
        return self._checked(peer_id)

    def begin_hand_back(self, peer_id: str, new_id: str) -> Peer:
        """Let HBase itself ship what is written from now on, by a new ENABLED peer `new_id`; returns that one."""
        peer = self._managed(peer_id)
        check_shippable(peer)
        _check_id(new_id)
        begun = peer.config.get(HANDED_BACK_KEY)
        if begun is not None and begun != new_id and self._find(begun):
            raise Refused(f"peer {peer_id} is being handed back to {begun} already: go on with --to {begun}")
        new = self._find(new_id)
        if new is None:
            self._put_configuration(peer_id, HANDED_BACK_KEY, new_id)
            self._add_enabled_copy(peer_id, new_id)
        elif begun != new_id:
            raise Refused(f"peer {new_id} exists already: choose an id that is not taken")
        new = self._check_successor(peer, new_id)
        self._await_queues(new_id)
        return new

    def finish_hand_back(self, peer_id: str, new_id: str) -> None:
        """Remove our peer, if each WAL in its queues is shipped whole or queued for the new peer too."""
        peer = self._managed(peer_id)
        if peer.config.get(HANDED_BACK_KEY) != new_id:
            raise Refused(f"peer {peer_id} has not been handed back to {new_id}: do that first, without --finish")
        self._check_successor(peer, new_id)
        plan = self._plan(peer_id)  # what is shipped stays shipped, so this may be read first
        shipped = {wal.name for group in plan.groups for wal in group.wals if wal.finished}
        ours = read_queues(self.session, peer_id)
        theirs = {wal.name.text for queue in read_queues(self.session, new_id) for wal in queue.wals}
        waiting = {wal.name.text for queue in ours for wal in queue.wals} - theirs - shipped
        _refuse_odd_queues(ours)
        if waiting:
            alone = f"{_listed(sorted(waiting), _unshipped(plan))} queued for {peer_id} alone"
            raise Refused(f"{alone}. Let a batch ship it (roll first), then finish again")
        self._remove(peer_id)

    def remove(self, peer_id: str, *, drop_backlog: bool = False) -> None:
        """Remove a managed peer with its queues: from now on nothing is shipped to its slave.

        Without `drop_backlog` the WALs are rolled, and what was written until now must have been shipped.
        """
        peer = self._managed(peer_id)
        if not drop_backlog:
            if peer.state != DISABLED:
                raise Refused(
                    f"peer {peer_id} is {peer.state}: its positions move. Disable it, or give its backlog up (--drop-backlog)"
                )
            self._roll(peer_id)
            _refuse_odd_queues(read_queues(self.session, peer_id))
            if unshipped := self._unshipped_when_closed(peer_id):
                raise Refused(
                    f"{_listed(sorted(unshipped), unshipped)} not shipped whole. Let a batch ship it and try again, "
                    "or give it up (--drop-backlog)"
                )
        self._remove(peer_id)

    def _find(self, peer_id: str) -> Peer | None:
        try:
            return read_peer(self.session.zk, self.session.nodes, peer_id)
        except (MissingPeer, StorageError):  # a cluster that has never had a peer has no znode for queues yet
            return None

    def _add_managed(self, peer_id: str, config: pb.ReplicationPeer) -> Peer:
        with self._master() as connection:
            master.add_peer(connection, peer_id, config, enabled=False)
            try:
                return self._checked(peer_id)
            except (MissingPeer, StorageError):
                master.remove_peer(connection, peer_id)  # nothing is queued where we could read it
                raise

    def _check_ends(
        self,
        peer_id: str,
        cluster_key: str,
        namespaces: Sequence[str],
        table_cfs: Mapping[str, Sequence[str]],
        allow_missing: bool,
    ) -> None:
        """Raises Refused if the slave does not answer, or edits would not arrive there as a table or family is missing."""
        key = parse_cluster_key(cluster_key)
        nodes = ZNodes(key.znode_parent)
        try:
            with connected(key.connect_string, whose=slave_of(peer_id, key)) as zk:
                cluster_id(zk, nodes)
                if not namespaces and not table_cfs:
                    return
                with self._master() as source, master.connect(active_master(zk, nodes), user=self.session.source.user) as slave:
                    problems = missing(source, slave, namespaces, table_cfs)
        except (WalferryError, RpcError) as e:
            problems = [f"whether edits can arrive at {cluster_key} cannot be found out: {e}"]
        if problems and not allow_missing:
            raise Refused(
                f"{'; '.join(problems)}. Correct it and try again; with --allow-missing the peer is added all the same, and what "
                "has no place at the slave waits in its queues"
            )
        for problem in problems:
            _log.warning("%s", problem)

    def _checked(self, peer_id: str) -> Peer:
        """The peer, which can be shipped and for which each RegionServer queues its WALs."""
        peer = read_peer(self.session.zk, self.session.nodes, peer_id)
        check_shippable(peer)
        check_agreement(self.session, peer_id)
        self._await_queues(peer_id)
        return peer

    def _managed(self, peer_id: str) -> Peer:
        peer = read_peer(self.session.zk, self.session.nodes, peer_id)
        if not peer.managed:
            raise UnmanagedPeer(peer_id, f"its configuration has no {MANAGED_KEY}=true", "Walferry does not touch it")
        check_agreement(self.session, peer_id)
        return peer

    def _master(self) -> Connection:
        return master.connect(active_master(self.session.zk, self.session.nodes), user=self.session.source.user)

    def _put_configuration(self, peer_id: str, key: str, value: str) -> None:
        with self._master() as connection:
            config = master.get_peer(connection, peer_id)
            kept = [pair for pair in config.configuration if pair.name != key]
            del config.configuration[:]
            config.configuration.extend([*kept, pb.NameStringPair(name=key, value=value)])
            master.update_peer_config(connection, peer_id, config)

    def _add_enabled_copy(self, peer_id: str, new_id: str) -> None:
        with self._master() as connection:
            config = master.get_peer(connection, peer_id)
            kept = [pair for pair in config.configuration if not pair.name.startswith(OWN_KEYS)]
            del config.configuration[:]
            config.configuration.extend(kept)
            master.add_peer(connection, new_id, config, enabled=True)

    def _check_successor(self, peer: Peer, new_id: str) -> Peer:
        """The peer that HBase ships instead of ours. Raises Refused unless it ships all that ours did."""
        new = read_peer(self.session.zk, self.session.nodes, new_id)
        if new.managed or new.state != ENABLED:
            raise Refused(f"peer {new_id} is {new.state}{' and managed' if new.managed else ''}; HBase ships ENABLED ones only")
        if _shipped(new) != _shipped(peer):
            raise Refused(f"peer {new_id} has another slave or other filters than {peer.id}; make them the same, or remove it")
        return new

    def _await_settled(self, peer_id: str) -> None:
        state = read(self.session.zk, self.session.nodes.peer_state(peer_id))
        pause = settling_s(state, just_written(self.session.zk, f"{self.session.source.root}/clock")) if state else 0.0
        if pause > 0:
            _log.info("peer %s was disabled a moment ago; waiting %.0f s, as RegionServers may still ship for it", peer_id, pause)
            self.sleep(pause)

    def _await_queues(self, peer_id: str) -> None:
        """Until each live RegionServer queues its WALs for the peer."""

        def without() -> set[str]:
            queued = {queue.server for queue in read_queues(self.session, peer_id) if queue.wals}
            return {str(server) for server in live_servers(self.session.zk, self.session.nodes)} - queued

        if missing := self._await_none(without, VERIFY_S):
            raise Refused(
                f"{', '.join(sorted(missing))} does not queue its WALs for peer {peer_id}: look at its log, then repeat this"
            )

    def _roll(self, peer_id: str) -> None:
        rolled = rolling.roll(self.session, [peer_id])
        if rolled.failures:
            reasons = "; ".join(f"{server}: {why}" for server, why in rolled.failures.items())
            raise Refused(f"not all RegionServers have begun new WALs: {reasons}. Look at their logs, then try again")

    def _plan(self, peer_id: str) -> PeerPlan:
        return plan_peer(self.session, peer_id)

    def _unshipped_when_closed(self, peer_id: str) -> dict[str, str]:
        found: dict[str, str] = {}

        def look() -> set[str]:
            found.clear()
            found.update(_unshipped(self._plan(peer_id)))
            return set(found)

        self._await_none(look, CLOSING_S)
        return found

    def _remove(self, peer_id: str) -> None:
        with self._master() as connection:
            master.remove_peer(connection, peer_id)
        left = self._await_none(lambda: set(queue_paths(self.session, peer_id)), VERIFY_S)
        if left or self._find(peer_id):
            what = ", ".join(sorted(left)) or "its znode"
            raise Refused(f"peer {peer_id} was removed, yet {what} is still there; look at the master's log")

    def _await_none(self, look: Callable[[], set[str]], seconds: float) -> set[str]:
        """What `look` still finds after `seconds`; asked until it finds nothing."""
        waited = 0.0
        while (found := look()) and waited < seconds:
            self.sleep(POLL_S)
            waited += POLL_S
        return found


@contextmanager
def peer_admin(source: SourceCluster) -> Iterator[PeerAdmin]:
    """A PeerAdmin with a ZooKeeper session of its own. Raises ConnectError."""
    with open_session(source) as session:
        yield PeerAdmin(session)


def _configuration(
    peer_id: str, cluster_key: str, namespaces: Sequence[str], table_cfs: Mapping[str, Sequence[str]]
) -> pb.ReplicationPeer:
    _check_id(peer_id)
    try:
        parse_cluster_key(cluster_key)
    except ValueError as e:
        raise Refused(str(e)) from e
    config = pb.ReplicationPeer(clusterkey=cluster_key, replicate_all=not namespaces and not table_cfs)
    config.configuration.add(name=MANAGED_KEY, value="true")
    for namespace in namespaces:
        if not _NAMESPACE.fullmatch(namespace):
            raise Refused(f"{namespace!r} is no namespace")
        config.namespaces.append(namespace.encode())
    for table, families in table_cfs.items():
        try:
            namespace, qualifier = table_name(table)
        except ValueError as e:
            raise Refused(str(e)) from e
        name = pb.TableName(namespace=namespace.encode(), qualifier=qualifier.encode())
        config.table_cfs.add(table_name=name, families=[family.encode() for family in families])
    return config


def _check_id(peer_id: str) -> None:
    if not _PEER_ID.fullmatch(peer_id):
        raise Refused(f"{peer_id!r} is no peer id: HBase takes none with '-', '/' or blanks")


def _shipped(peer: Peer) -> Peer:
    """What decides which edits go where."""
    kept = {key: value for key, value in peer.config.items() if not key.startswith(OWN_KEYS)}
    return replace(peer, id="", state="", config=kept)


def _edits(peer: Peer) -> tuple[object, ...]:
    """Which edits the peer brings; the order of a table's families does not matter."""
    table_cfs, exclude_table_cfs = (
        {table: frozenset(families) for table, families in (tables or {}).items()}
        for tables in (peer.table_cfs, peer.exclude_table_cfs)
    )
    return peer.replicate_all, peer.namespaces, table_cfs, peer.exclude_namespaces, exclude_table_cfs


def _unshipped(plan: PeerPlan) -> dict[str, str]:
    """Planned WALs that are not known to be shipped whole, with what is wrong with their group."""
    return {wal.name: group.problem or "" for group in plan.groups for wal in group.wals if not wal.finished}


def _refuse_odd_queues(queues: Sequence[Queue]) -> None:
    problems = [problem for queue in queues for problem in queue.problems]
    if problems:
        raise Refused(
            f"the peer's queues hold what is no WAL, which would be lost with them: {'; '.join(problems)}. Look at it first"
        )


def _listed(wals: Sequence[str], problems: Mapping[str, str]) -> str:
    shown = ", ".join(wals[:5]) + (", …" if len(wals) > 5 else "")
    why = next((problems[wal] for wal in wals if problems.get(wal)), "")
    return (
        f"{len(wals)} WAL{'s' if len(wals) != 1 else ''} ({shown}{': ' + why if why else ''}) {'are' if len(wals) != 1 else 'is'}"
    )
