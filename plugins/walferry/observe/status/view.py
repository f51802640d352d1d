"""One pass over the source's ZooKeeper: everything from which its replication status is made.

The number of reads grows with the servers, the queues and their WAL groups, not with the WALs: the pass reads the position of
each group's oldest WAL, and of the next WALs as long as these have a position. All reads of a kind run in parallel.

A znode that makes no sense becomes a problem that names it; the others are read all the same.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.base.zk.acls import check_root
from walferry.base.zk.client import ZNode, children, children_all, read_all
from walferry.base.zk.errors import ForeignRoot, NoAccess, ZNodeValueError
from walferry.base.zk.fenced_lock import record_of
from walferry.hbase.errors import ClusterError
from walferry.hbase.layout import quoted
from walferry.hbase.names import is_server_name
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import ScanGivenUp
from walferry.master.znodes import RegionInTransition, decode_region, decoded
from walferry.observe.status.notes import Group, Notes, read_notes
from walferry.replication.peers.reading import Peer, peer_of
from walferry.replication.queues.errors import QueuesMoving
from walferry.replication.queues.needed_rolls import read_rolls
from walferry.replication.queues.queue import Queue, groups
from walferry.replication.queues.reading import see_queues
from walferry.replication.source.peers import peer_ids, read_peers
from walferry.replication.source.session import Session, owners_of

TABLE_SECONDS = 8.0  # a table of queues that does not answer is a problem, and callers wait for the rest
MAX_PROBLEMS = 200
MAX_PROBLEM_CHARS = 1000
MAX_REGIONS = 200  # regions in transition that are read one by one

K = TypeVar("K")


@dataclass(frozen=True)
class Holder:
    """A lock's holder, by the name that it gave itself, and since when, as it wrote it; empty if it wrote nothing."""

    name: str
    since: str
    run: str = ""


@dataclass(frozen=True)
class RegionsInTransition:
    """How many regions are in transition, and the first regions that can be read. HBase 2 keeps them in its Master."""

    count: int
    regions: tuple[RegionInTransition, ...]


@dataclass(frozen=True)
class ZooKeeperView:
    """The result of one pass. None stands for values that could not be read; `problems` says why."""

    at: float  # when it began, in seconds since the epoch
    servers: tuple[str, ...] | None  # live ones
    queues: tuple[Queue, ...] | None
    peers: Mapping[str, Peer | None] | None  # None for a peer that cannot be read
    leases: Mapping[Group, Holder] = field(default_factory=dict)  # held now
    peer_locks: Mapping[str, Holder] = field(default_factory=dict)  # by peer: held now
    hfile_refs: Mapping[str, int] = field(default_factory=dict)  # by peer
    notes: Notes = field(default_factory=Notes)
    quiet: Mapping[str, int] = field(default_factory=dict)  # ServerRolls.quiet_ms by server
    in_transition: RegionsInTransition | None = None
    odd: bool = False  # something among the queues makes no sense, so a queue may be hidden
    problems: tuple[str, ...] = ()
    problems_left_out: int = 0


def view(session: Session) -> ZooKeeperView:
    """Make one pass. Raises ConnectError if ZooKeeper does not answer, and kazoo's error for a znode that may not be read."""
    began = time.time()
    problems: list[str] = []
    try:
        check_root(session.zk, owners_of(session), session.source.root)
    except (ForeignRoot, NoAccess) as error:
        problems.append(str(error))
    servers, queues, odd = _queues(session, problems)
    peers = _peers(session, problems)
    wanted = {(queue.id.peer_id, group) for queue in queues or () for group in groups(queue)}
    notes = read_notes(session, wanted)
    problems += notes.problems
    in_transition = _in_transition(session, problems)
    silent = queues is None and session.nodes.in_table  # the table that has the references, too
    refs = {} if silent else _hfile_refs(session, peers or ())
    shown = [one_line(problem, MAX_PROBLEM_CHARS) for problem in problems[:MAX_PROBLEMS]]
    return ZooKeeperView(
        at=began, servers=servers, queues=queues, peers=peers, leases=_leases(session, wanted),
        peer_locks=_held(session, {session.own.peer_lock(peer_id): peer_id for peer_id in peers or ()}),
        hfile_refs=refs, notes=notes, in_transition=in_transition, problems=tuple(shown),
        problems_left_out=len(problems) - len(shown),
        quiet={server: rolls.quiet_ms for server, rolls in read_rolls(session).items()}, odd=odd,
    )  # fmt: skip


def _queues(session: Session, problems: list[str]) -> tuple[tuple[str, ...] | None, tuple[Queue, ...] | None, bool]:
    """Return the live servers, all queues, and whether something among the queues makes no sense."""
    try:
        seen = see_queues(session, TABLE_SECONDS)
    except (ClusterError, QueuesMoving, ScanGivenUp, RpcError) as error:
        problems.append(str(error))
        names = children(session.zk, session.nodes.rs)
        return (None if names is None else tuple(filter(is_server_name, names))), None, True
    odd = [*seen.problems, *(problem for queue in seen.queues for problem in queue.problems)]
    problems += odd
    return seen.servers, seen.queues, bool(odd)


def _peers(session: Session, problems: list[str]) -> dict[str, Peer | None] | None:
    nodes = session.nodes
    if session.source.peers_root is not None:
        return _peers_in_files(session, problems)
    ids = children(session.zk, nodes.peers)
    if ids is None:
        return None
    paths = [(nodes.peer(peer_id), nodes.peer_state(peer_id)) for peer_id in ids]
    znodes = iter(read_all(session.zk, [path for pair in paths for path in pair]))
    below = children_all(session.zk, [path for path, _ in paths])
    peers: dict[str, Peer | None] = {}
    for peer_id, config, state, names in zip(ids, znodes, znodes, below, strict=True):
        if config is None:
            continue  # removed since the listing
        peers[peer_id] = None
        try:
            if state is None:
                raise ZNodeValueError(nodes.peer(peer_id), "it has no peer-state", "Only HBase before 0.94 has such peers")
            peers[peer_id] = peer_of(session.zk, nodes, peer_id, config.value, state.value, names or ())
        except WalferryError as error:
            problems.append(str(error))
    return peers


def _peers_in_files(session: Session, problems: list[str]) -> dict[str, Peer | None] | None:
    try:
        if peer_ids(session) is None:
            return None
        listing = read_peers(session)
    except WalferryError as error:
        problems.append(str(error))
        return None
    problems += map(str, listing.problems)
    return {peer.id: peer for peer in listing.peers} | dict.fromkeys(listing.unreadable)


def _leases(session: Session, wanted: Collection[Group]) -> dict[Group, Holder]:
    """Return the held leases of these groups. A lease that is not held has no children, but a znode while its server lives."""
    peers = sorted({peer_id for peer_id, _ in wanted})
    listed = children_all(session.zk, [session.own.leases(peer_id) for peer_id in peers])
    there = {peer_id: set(names or ()) for peer_id, names in zip(peers, listed, strict=True)}
    asked = [(peer_id, group) for peer_id, group in wanted if quoted(group) in there[peer_id]]
    return _held(session, {session.own.lease(*group): group for group in asked})


def _held(session: Session, paths: Mapping[str, K]) -> dict[K, Holder]:
    return {
        key: _holder(znode)
        for key, znode in zip(paths.values(), read_all(session.zk, list(paths)), strict=True)
        if znode is not None and znode.stat.numChildren
    }


def _holder(znode: ZNode) -> Holder:
    record = record_of(znode.value)
    return Holder(record.get("holder", "an unknown holder"), record.get("since", ""), record.get("run", ""))


def _hfile_refs(session: Session, peers: Iterable[str]) -> dict[str, int]:
    ids = list(peers)
    if ids and session.nodes.in_table:
        from walferry.replication.queues import in_table  # it imports numpy, so only where it is used

        found = in_table.count_hfile_refs(session, TABLE_SECONDS)
        return {peer_id: found[peer_id] for peer_id in ids}
    znodes = read_all(session.zk, [session.nodes.hfile_refs(peer_id) for peer_id in ids])
    return {peer_id: znode.stat.numChildren if znode else 0 for peer_id, znode in zip(ids, znodes, strict=True)}


def _in_transition(session: Session, problems: list[str]) -> RegionsInTransition | None:
    names = children(session.zk, session.nodes.in_transition)
    if names is None:
        return None
    first = names[:MAX_REGIONS]
    znodes = zip(first, read_all(session.zk, [session.nodes.region_in_transition(name) for name in first]), strict=True)
    there = {name: znode for name, znode in znodes if znode is not None}
    found, broken = decoded(there, session.nodes.in_transition, decode_region)
    problems += map(str, broken.values())
    return RegionsInTransition(len(names), tuple(found.values()))
