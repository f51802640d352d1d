"""The steps of recovering dead servers' queues that run inside Airflow's tasks; the Spark jobs do the shipping.

Each step reads ZooKeeper afresh and keeps nothing, so any of them may be run again at any time. Between the steps a queue is
known by its peer and WAL groups: its name, and the server under which it lies, change with each claim.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from walferry.base.errors import WalferryError
from walferry.base.zk.client import children
from walferry.base.zk.errors import ConnectError
from walferry.hbase.cluster import live_servers
from walferry.hbase.errors import MissingPeer, PausedPeer, PeerError, UnmanagedPeer
from walferry.hbase.names import ServerName
from walferry.replication.peers.reading import check_shippable, read_peer, read_peers
from walferry.replication.queues.claims import claim as claims
from walferry.replication.queues.dead_servers import WALFERRY_SERVER, RecoveredQueue, find_dead, recovered_queues, shippable_peers
from walferry.replication.queues.errors import LeaseHeld, LiveServer, NoTarget
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.orphans import delete_queue
from walferry.replication.source.agreement import disagreements
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, open_session
from walferry.runs.input.recovery_input import InputError, pick_queues, pick_server
from walferry.runs.reports import recovery as recovery_report
from walferry.runs.steps import batch
from walferry.runs.values import MAX_TEXT_CHARS, Claimed, Drain, QueueRef
from walferry.shipping import garbage_collection
from walferry.shipping.plan import GroupPlan, PeerPlan, plan_peer
from walferry.shipping.sweeping import sweep

MAX_LEFT = 20  # reasons why a claim left other peers' queues, kept in Airflow's database
MAX_SERVERS = 500  # of one run: Airflow maps over 1024 at most
MAX_DRAINS = 500  # queues of one run
PROBLEMS_A_DRAIN = 1  # of a queue's plan, kept in Airflow's database for each of the drains

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FoundServers:
    """The servers that a run is to recover, and notes on the others."""

    servers: list[str]
    notes: list[str]


def find(source: SourceCluster, asked: str, announced: Collection[str]) -> FoundServers:
    """The dead servers of a run: the one asked for, else those that its events have announced, else all there are now.

    Raises InputError if the server asked for is not a server, is live, or has queues of ours that must not be shipped;
    WalferryError.
    """
    with open_session(source) as session:
        dead = [server.name for server in find_dead(session)]
        alive = {str(server) for server in live_servers(session.zk, session.nodes)}
        wanted = {pick_server(asked, dead, alive)} if asked.strip() else set(announced) or set(dead)
        rest = sorted(wanted - set(dead))
        there = recovered_queues(session) if rest else ()
        others = {server: _why_left(session, [q for q in there if q.dead_server == server]) for server in rest}
        notes = [f"Left out: {problem}" for problem in read_peers(session.zk, session.nodes).problems]
    servers = sorted(wanted & set(dead))
    for server, reasons in others.items():
        ours = [str(reason) for reason in reasons if not isinstance(reason, (UnmanagedPeer, MissingPeer, PausedPeer))]
        if asked.strip() and ours:
            raise InputError(f"server {server} has queues, but they must not be shipped now: {'; '.join(ours)}")
        nothing = "no queue of it is left: they were all handled before, or it never had one (compare the start code)."
        notes.append(f"Server {server}: {'; '.join(map(str, reasons)) or nothing}")
    notes += [f"Server {server} is left to another run: trigger one." for server in servers[MAX_SERVERS:]]
    return FoundServers(servers[:MAX_SERVERS], notes)


def _why_left(session: Session, queues: Iterable[RecoveredQueue]) -> list[WalferryError]:
    """The reasons why these queues may not be shipped, peer by peer; empty if they may."""
    reasons: list[WalferryError] = []
    for peer_id in sorted({queue.peer_id for queue in queues}):
        try:
            check_shippable(read_peer(session.zk, session.nodes, peer_id))
        except WalferryError as error:
            reasons.append(error)
    return reasons


def claim(source: SourceCluster, server: str, run_id: str) -> Claimed:
    """Claim a dead server's queues, or go on with a claim of this run. Raises ClaimHeld, LiveServer, WalferryError.

    The claim's `queues` are all that came from the server and are still there, also those that HBase has claimed.
    """
    with open_session(source) as session:
        refused = disagreements(session, shippable_peers(session))
        try:
            claimed = claims.claim(session, server, run_id, f"run {run_id} on {socket.gethostname()}", refused=refused)
        except NoTarget as error:  # all RegionServers are down, so HBase does not claim either
            log.warning("%s", error)
            queues = [queue for dead in find_dead(session) if dead.name == server for queue in dead.queues]
            claimed = claims.Claim(server, tuple(queue for queue in queues if queue.peer_id not in refused), 0, ())
    refs = tuple(ref_of(source, queue) for queue in claimed.queues[:MAX_DRAINS])
    left = (*claimed.left[:MAX_LEFT], *_more(len(claimed.queues)))
    return Claimed(server, refs, claimed.moved, tuple(why[:MAX_TEXT_CHARS] for why in left))


@dataclass(frozen=True)
class SelectedQueues:
    """Recovered queues chosen by hand: those to drain, those whose peer is gone, and notes on the choice."""

    queues: list[QueueRef]
    orphans: list[QueueRef]
    notes: list[str]


def select(source: SourceCluster, peer: str, ref: str, delete_orphan: bool) -> SelectedQueues:
    """The recovered queue `ref`, or all of the peer, or all that Walferry may touch. Raises InputError, PeerError."""
    peer, ref = peer.strip(), ref.strip()
    if delete_orphan and not peer and not ref:
        raise InputError("name the peer or the queue whose WALs are to be deleted unshipped; without a name nothing is")
    with open_session(source) as session:
        there = recovered_queues(session)
        peers = children(session.zk, session.nodes.peers) or []
        live = {str(server) for server in live_servers(session.zk, session.nodes)}
        chosen = pick_queues(peer, ref, there, peers, live)
        # Also ask about peers that ZooKeeper does not know: the Master may know them, and then their queues are not orphans.
        refused: dict[str, PeerError] = dict(disagreements(session, {queue.peer_id for queue in chosen}))
        for peer_id in {queue.peer_id for queue in chosen} & set(peers):
            try:
                check_shippable(read_peer(session.zk, session.nodes, peer_id))
            except PeerError as error:
                refused[peer_id] = error
    hard = [error for error in refused.values() if not isinstance(error, PausedPeer)]
    if hard and (peer or ref):
        raise hard[0]
    notes = [f"Left alone: {queue.ref}: {refused[queue.peer_id]}" for queue in chosen if queue.peer_id in refused]
    mine = [queue for queue in chosen if queue.peer_id in peers and queue.peer_id not in refused]
    gone = [queue for queue in chosen if queue.peer_id not in peers and queue.peer_id not in refused]
    if not mine and not gone:
        notes.append(f"There are no recovered queues to drain{f' of peer {peer}' if peer else ''}.")
    notes += [*_more(len(mine)), *_more(len(gone))]
    refs, orphans = ([ref_of(source, queue) for queue in those[:MAX_DRAINS]] for those in (mine, gone))
    return SelectedQueues(refs, orphans, notes)


def preview(source: SourceCluster, selected: SelectedQueues, delete_orphan: bool) -> list[str]:
    """What a run would claim, ship and delete, WAL by WAL, for people. Raises WalferryError."""
    lines = ["Dry run: nothing is claimed, shipped or deleted.", *selected.notes]
    lines += [f"Server {server} would be claimed first." for server in servers_to_claim(selected.queues)]
    for queue, groups in _files(source, selected.queues):
        lines += recovery_report.preview(queue, groups)
    for queue, groups in _files(source, selected.orphans):
        lines.append(recovery_report.orphan(queue, groups, "would be deleted" if delete_orphan else "would be left"))
    return lines


@dataclass(frozen=True)
class Orphans:
    """What has become of queues whose peers are gone: a line for each, and why some of them were not deleted."""

    lines: list[str]
    problems: list[str]


def deal_with_orphans(source: SourceCluster, orphans: Iterable[QueueRef], delete: bool, run_id: str) -> Orphans:
    """Delete queues of peers that are gone, or only report them. Raises PeerError if a peer is back, ConnectError."""
    orphans = list(orphans)
    files = _files(source, orphans)
    kept: dict[int, str] = {}
    if delete:
        with open_session(source) as session:
            for problem in disagreements(session, {queue.peer for queue in orphans}).values():
                raise problem
            chosen = _Chosen(orphans)
            for lies in recovered_queues(session) if orphans else ():  # they may have been moved since they were chosen
                if (numbers := chosen.numbers(lies)) and (why := _not_deleted(session, lies, run_id)):
                    kept |= dict.fromkeys(numbers, why)
    done = "deleted" if delete else "left; delete_orphan would delete it"
    told = [f"not deleted: {kept[number]}" if number in kept else done for number in range(len(orphans))]
    lines = [recovery_report.orphan(queue, groups, what) for (queue, groups), what in zip(files, told, strict=True)]
    return Orphans(lines, [f"{orphans[number].ref} is not deleted: {why}" for number, why in sorted(kept.items())])


def _not_deleted(session: Session, queue: RecoveredQueue, run_id: str) -> str:
    """Delete a queue of a peer that is gone; why that failed, if it did: other queues are deleted all the same."""
    if queue.unread:
        return queue.unread
    try:
        delete_queue(session, queue, f"run {run_id} on {socket.gethostname()}")
    except ConnectError:
        raise
    except WalferryError as error:
        return str(error)
    return ""


def _more(queues: int) -> list[str]:
    """What to tell of queues beyond those that one run drains."""
    return [f"{queues - MAX_DRAINS:,} more queues are left to another run: trigger one."] if queues > MAX_DRAINS else []


def servers_to_claim(queues: Iterable[QueueRef]) -> list[str]:
    """The dead servers under which some of the queues still lie."""
    return sorted({queue.server for queue in queues if not queue.claimed})


def plan(source: SourceCluster, queues: Iterable[QueueRef], unclaimed: Collection[str], run_id: str) -> list[Drain]:
    """Each of the queues that is still there, where it lies now, with a plan or with a problem; of very many only the first.

    `unclaimed` are servers that could not be claimed. What only has to leave its queue does so here. Raises WalferryError.
    """
    drains: list[Drain] = []
    with open_session(source) as session:
        by_peer = _by_peer(queues)
        refused = disagreements(session, by_peer)
        there = recovered_queues(session) if by_peer else ()
        for peer_id, wanted in by_peer.items():
            chosen = _Chosen(wanted)
            here = [queue for queue in there if queue in chosen]
            if peer_id in refused:
                drains += [_stuck(session, queue, str(refused[peer_id])) for queue in here]
            else:
                drains += _plan_of_peer(session, peer_id, here, unclaimed, run_id)
    jobs = [drain for drain in drains if drain.needs_job]
    problem = f"one run drains {MAX_DRAINS} queues at most; run it again"
    late = [replace(drain, plan=None, problem=problem) for drain in jobs[MAX_DRAINS:]]
    rest = sorted((*late, *(drain for drain in drains if not drain.needs_job)), key=lambda drain: not drain.problem)
    return jobs[:MAX_DRAINS] + rest[:MAX_DRAINS]


def announced(events: Iterable[Any]) -> list[str]:
    """The servers that asset events have announced; an event made by hand may say anything."""
    names: set[str] = set()
    for event in events:
        payload = (event.extra or {}).get("payload")
        servers = payload.get("servers") if isinstance(payload, dict) else None
        names |= {name for name in servers if isinstance(name, str)} if isinstance(servers, dict) else set()
    return sorted(names)


def left(source: SourceCluster, queues: Iterable[QueueRef]) -> list[int]:
    """How many WALs are still queued of each of the queues, wherever they lie now; -1: not even the queue is left."""
    queues = list(queues)
    with open_session(source) as session:
        there = recovered_queues(session)
    wals: dict[int, int] = {}
    chosen = _Chosen(queues)
    for lies in there:
        for number in chosen.numbers(lies):
            wals[number] = wals.get(number, 0) + (1 if lies.unread else len(lies.wals))
    return [wals.get(number, -1) for number in range(len(queues))]


def clean_up(source: SourceCluster, servers: Collection[str], run_id: str) -> list[str]:
    """Remove empty queues and znodes of dead servers that no run claims now; returns the servers whose znodes were removed.

    A drain that is killed just after a queue's last WAL leaves the empty queue and its lease. Raises WalferryError.
    """
    removed: list[str] = []
    with open_session(source) as session:
        ours = shippable_peers(session)
        ours -= set(disagreements(session, ours))
        for queue in recovered_queues(session):
            if queue.dead_server in servers and queue.peer_id in ours and not queue.wals and not queue.unread:
                _remove_empty(session, queue, run_id)
        for server in servers:
            try:
                removed += claims.clean_up(session, server)
            except LiveServer as error:
                log.info("%s", error)
        for peer_id in sorted(ours):
            garbage_collection.collect_garbage(session, peer_id)
    return sorted(set(removed))


def ref_of(source: SourceCluster, queue: RecoveredQueue) -> QueueRef:
    """A queue as the tasks hand it on."""
    return QueueRef(
        peer=queue.peer_id,
        server=queue.server,
        queue=queue.queue_id,
        dead_server=queue.dead_server,
        claimed=queue.claimed,
        claimed_by=_claimed_by(source, queue),
        groups=queue.groups,
        wals=len(queue.wals),
    )


def _claimed_by(source: SourceCluster, queue: RecoveredQueue) -> str:
    """What has claimed the queue, judging by where it lies."""
    if not queue.claimed:
        return "nobody"
    if queue.server == WALFERRY_SERVER:
        return "Walferry"
    return "HBase or Walferry" if source.nodes.locked else "HBase"


def _files(source: SourceCluster, queues: Iterable[QueueRef]) -> list[tuple[QueueRef, tuple[GroupPlan, ...]]]:
    """The queues with what of their files is not shipped."""
    queues = list(queues)
    planned: dict[tuple[str, str], GroupPlan] = {}
    with open_session(source, look_only=True) as session:
        for peer_id, of_peer in _by_peer(queues).items():
            names = {group for queue in of_peer for group in queue.groups}
            planned |= {(peer_id, group.group): group for group in plan_peer(session, peer_id, names).groups}
    return [
        (queue, tuple(planned[queue.peer, group] for group in queue.groups if (queue.peer, group) in planned)) for queue in queues
    ]


def _by_peer(queues: Iterable[QueueRef]) -> dict[str, list[QueueRef]]:
    by_peer: dict[str, list[QueueRef]] = {}
    for queue in queues:
        by_peer.setdefault(queue.peer, []).append(queue)
    return dict(sorted(by_peer.items()))


def _stuck(session: Session, queue: RecoveredQueue, problem: str) -> Drain:
    return Drain(ref_of(session.source, queue), None, problem[:MAX_TEXT_CHARS])


class _Chosen:
    """Queues that were handed on, to tell whether one that lies somewhere now is among them.

    A WAL group is in one queue of its peer only, whatever the queue is called. A queue without WALs is known by its name.
    """

    def __init__(self, queues: Iterable[QueueRef]) -> None:
        self._numbers: dict[tuple[str, ...], list[int]] = {}
        for number, queue in enumerate(queues):
            for key in self._keys(queue.peer, queue.groups, queue.server, queue.queue):
                self._numbers.setdefault(key, []).append(number)

    def numbers(self, queue: RecoveredQueue) -> list[int]:
        """Which of those handed on it is, counted from 0."""
        keys = self._keys(queue.peer_id, queue.groups, queue.server, queue.queue_id)
        return sorted({number for key in keys for number in self._numbers.get(key, ())})

    def __contains__(self, queue: RecoveredQueue) -> bool:
        return bool(self.numbers(queue))

    @staticmethod
    def _keys(peer_id: str, groups: Iterable[str], server: str, queue_id: str) -> list[tuple[str, ...]]:
        return [*((peer_id, group) for group in groups), (peer_id, server, queue_id)]


def _plan_of_peer(
    session: Session, peer_id: str, queues: Sequence[RecoveredQueue], unclaimed: Collection[str], run_id: str
) -> list[Drain]:
    try:
        check_shippable(read_peer(session.zk, session.nodes, peer_id))
    except PeerError as error:
        paused = isinstance(error, PausedPeer)
        return [replace(_stuck(session, queue, str(error)), paused=paused) for queue in queues]
    names = sorted({group for queue in queues for group in queue.groups})
    planned = {group.group: group for group in plan_peer(session, peer_id, names).groups} if names else {}
    drains = []
    for queue in queues:
        if queue.server in unclaimed:
            drains.append(_stuck(session, queue, f"{queue.server} was not claimed"))
            continue
        if queue.unread:
            drains.append(_stuck(session, queue, queue.unread))
            continue
        if not queue.wals:
            _remove_empty(session, queue, run_id)
        mine = PeerPlan(peer_id, tuple(planned[name] for name in queue.groups if name in planned))
        swept = sweep(session, mine, f"plan of run {run_id} on {socket.gethostname()}")
        # No later run comes for what is held and could not be swept, so a drain waits for it.
        to_drain = (*mine.to_ship, *swept.held)
        figures = batch.figures(run_id, peer_id, to_drain, max_problems=PROBLEMS_A_DRAIN, swept=swept.wals, queue=queue.ref)
        drains.append(Drain(ref_of(session.source, queue), figures))
    return drains


def _remove_empty(session: Session, queue: RecoveredQueue, run_id: str) -> None:
    """Remove a queue without WALs, which a run or server has left that was killed while it moved or finished the queue."""
    group = ServerName.parse(queue.dead_server).encoded()
    try:
        with acquire(session, queue.peer_id, group, f"run {run_id}") as lease:
            lease.remove_empty_queue(session.nodes.queue(queue.server, queue.queue_id))
    except LeaseHeld as error:
        log.info("%s is left: %s", queue.ref, error)
