"""The steps of recovering dead servers' queues that run inside Airflow's tasks. The Spark jobs do the shipping.

Each step reads ZooKeeper again, so any step may be run again at any time. `plan` notes there the queues that the run is to drain
(shipping/drains.py). From then on a peer and its WAL groups identify a queue: the queue's name, and the server under which it
lies, change with each claim. Each step reads a queue a fixed number of times at most, however many queues there are.
"""

from __future__ import annotations

import hashlib
import logging
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from walferry.base.errors import WalferryError
from walferry.base.zk.errors import ConnectError, ZNodeValueError
from walferry.hbase.cluster import live_servers
from walferry.hbase.errors import MasterSilent, MissingPeer, PausedPeer, PeerError, UnmanagedPeer
from walferry.hbase.names import ServerName, parse_queue_id
from walferry.replication.peers.reading import check_shippable
from walferry.replication.queues.claims import claim as claims
from walferry.replication.queues.claims.claim import delete_queue
from walferry.replication.queues.dead_servers import WALFERRY_SERVER, RecoveredQueue, find_dead, recovered_queues, shippable_peers
from walferry.replication.queues.errors import LeaseHeld, LiveServer, NoTarget
from walferry.replication.queues.lease import acquire
from walferry.replication.source.agreement import disagreements, master_peers
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import peer_ids, read_peer, read_peers
from walferry.replication.source.session import Session, open_session
from walferry.runs.input import InputError, pick_queues, pick_server, was_called
from walferry.runs.reports import recovery as recovery_report
from walferry.runs.reports.recovery import Drained
from walferry.runs.steps import batch
from walferry.runs.values import MAX_TEXT_CHARS, Claimed, Planned, Selected
from walferry.shipping import garbage_collection
from walferry.shipping.drains import Drain, groups_to_drain, note_drains, read_drains
from walferry.shipping.empty_wals import dequeue_empty
from walferry.shipping.plan import GroupPlan, PeerPlan, plan_peer
from walferry.shipping.runs import read_run

MAX_LEFT = 20  # reasons why a claim left queues of other peers, kept in Airflow's database
MAX_SERVERS = 500  # of one run: Airflow maps over at most 1024

Wanted = Callable[[RecoveredQueue], bool]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FoundServers:
    """The servers that a run is to recover, and notes on the others."""

    servers: list[str]
    notes: list[str]


def find(source: SourceCluster, asked: str, announced: Collection[str]) -> FoundServers:
    """Return the dead servers of a run: the chosen one, else the servers that its events announced, else all dead servers now.

    Raises InputError if the chosen server is not a server, is live, or has queues of managed peers that must not be shipped;
    WalferryError.
    """
    with open_session(source) as session:
        dead = [server.name for server in find_dead(session)]
        alive = {str(server) for server in live_servers(session.zk, session.nodes)}
        wanted = {pick_server(asked, dead, alive)} if asked.strip() else set(announced) or set(dead)
        rest = sorted(wanted - set(dead))
        there = recovered_queues(session) if rest else ()
        others = {server: _why_left(session, [q for q in there if q.dead_server == server]) for server in rest}
        notes = [f"Left out: {problem}" for problem in read_peers(session).problems]
    servers = sorted(wanted & set(dead))
    for server, reasons in others.items():
        ours = [str(reason) for reason in reasons if not isinstance(reason, (UnmanagedPeer, MissingPeer, PausedPeer))]
        if asked.strip() and ours:
            raise InputError(f"server {server} has queues, but they must not be shipped now: {'; '.join(ours)}")
        nothing = "no queue of it is left: they were all handled before, or it never had one (compare the start code)."
        if source.nodes.in_table:
            nothing += " If it has just died, HBase's Master may not have made its row yet: try again in a minute."
        notes.append(f"Server {server}: {'; '.join(map(str, reasons)) or nothing}")
    notes += [f"Server {server} is left to another run: trigger one." for server in servers[MAX_SERVERS:]]
    return FoundServers(servers[:MAX_SERVERS], notes)


def _why_left(session: Session, queues: Iterable[RecoveredQueue]) -> list[WalferryError]:
    """Return the reasons why these queues may not be shipped, peer by peer; empty if they may."""
    reasons: list[WalferryError] = []
    for peer_id in sorted({queue.peer_id for queue in queues}):
        try:
            check_shippable(read_peer(session, peer_id))
        except WalferryError as error:
            reasons.append(error)
    return reasons


def claim(source: SourceCluster, server: str, run_id: str) -> Claimed:
    """Claim a dead server's queues, or go on with a claim of this run. Raises ClaimHeld, LiveServer, WalferryError."""
    with open_session(source) as session:
        peers = shippable_peers(session)
        refused = disagreements(session, peers)
        claimed = claims.Claim(server, 0, ())
        try:
            claimed = claims.claim(session, server, run_id, f"run {run_id} on {socket.gethostname()}", refused=refused)
        except NoTarget as error:  # all RegionServers are down, so HBase does not claim the queues either
            log.warning("%s", error)
    left = [why[:MAX_TEXT_CHARS] for why in claimed.left[:MAX_LEFT]]
    return Claimed(server, sorted(peers - set(refused)), claimed.moved, left)


def wanted_by_claims(claimed: Iterable[Claimed]) -> Wanted:
    """Return a filter for all queues that came from the claimed servers, also for queues that HBase has claimed, even twice."""
    peers = {claim.server: frozenset(claim.peers) for claim in claimed}

    def wanted(queue: RecoveredQueue) -> bool:
        came_from = {queue.dead_server, *parse_queue_id(queue.queue_id).dead_servers}
        return queue.has_work and any(queue.peer_id in peers.get(server, ()) for server in came_from)

    return wanted


def wanted_by_hand(selected: Selected) -> Wanted:
    """Return a filter for the chosen queues, wherever they lie now."""
    peers = frozenset(selected.peers)
    return lambda queue: queue.peer_id in peers and (not selected.queue or was_called(queue, selected.queue))


@dataclass(frozen=True)
class SelectedQueues:
    """Recovered queues that were chosen by hand: queues to drain, queues whose peer is gone, and notes on the choice."""

    queues: list[RecoveredQueue]
    orphans: list[RecoveredQueue]
    notes: list[str]
    ref: str  # the one queue that was chosen; empty: more than one may have been chosen

    @property
    def to_drain(self) -> Selected:
        """The queues that `plan` is to look for."""
        return Selected(sorted({queue.peer_id for queue in self.queues}), self.ref)

    @property
    def to_delete(self) -> Selected:
        """The queues that `deal_with_orphans` is to look for."""
        return Selected(sorted({queue.peer_id for queue in self.orphans}), self.ref)

    @property
    def servers(self) -> list[str]:
        """The dead servers under which some of the queues still lie, to be claimed first."""
        return sorted({queue.server for queue in self.queues if not queue.claimed})[:MAX_SERVERS]


DIGEST_CHARS = 12
NOT_SHOWN = "it was not shown in this form to the person who approved that. Trigger another run for it"
NONE_SELECTED = SelectedQueues([], [], [], "")


def select(source: SourceCluster, peer: str, ref: str, delete_orphan: bool) -> SelectedQueues:
    """Return the recovered queue `ref`, or all of the peer, or all that Walferry may touch. Raises InputError, PeerError."""
    peer, ref = peer.strip(), ref.strip()
    if delete_orphan and not peer and not ref:
        raise InputError("name the peer or the queue whose WALs are to be deleted unshipped; without a name nothing is")
    with open_session(source) as session:
        there = recovered_queues(session)
        peers = peer_ids(session) or []
        live = {str(server) for server in live_servers(session.zk, session.nodes)}
        chosen = pick_queues(peer, ref, there, peers, live)
        # The Master may know peers that ZooKeeper does not know. Their queues are not orphans.
        refused: dict[str, WalferryError] = dict(disagreements(session, {queue.peer_id for queue in chosen}))
        for peer_id in {queue.peer_id for queue in chosen} & set(peers):
            try:
                check_shippable(read_peer(session, peer_id))
            except (PeerError, ZNodeValueError) as error:
                refused[peer_id] = error
    hard = [error for error in refused.values() if not isinstance(error, PausedPeer)]
    if hard and (peer or ref):
        raise hard[0]
    notes = [f"Left alone: {queue.ref}: {refused[queue.peer_id]}" for queue in chosen if queue.peer_id in refused]
    mine = [queue for queue in chosen if queue.peer_id in peers and queue.peer_id not in refused]
    gone = [queue for queue in chosen if queue.peer_id not in peers and queue.peer_id not in refused]
    if not mine and not gone:
        notes.append(f"There are no recovered queues to drain{f' of peer {peer}' if peer else ''}.")
    return SelectedQueues(mine, gone, notes, ref)


def preview(source: SourceCluster, selected: SelectedQueues, delete_orphan: bool) -> list[str]:
    """Return what a run would claim, ship and delete, WAL by WAL, for people. Raises WalferryError."""
    lines = ["Dry run: nothing is claimed, shipped or deleted.", *selected.notes]
    lines += [f"Server {server} would be claimed first." for server in selected.servers]
    for queue, groups in _files(source, selected.queues):
        lines += recovery_report.preview(queue, claimed_by(source, queue), groups)
    return lines + preview_orphans(source, selected.orphans, "would be deleted" if delete_orphan else "would be left")


def preview_orphans(source: SourceCluster, orphans: Sequence[RecoveredQueue], what: str) -> list[str]:
    """Return a line on each queue whose peer is gone, and on what would be done with it. Raises WalferryError."""
    return [recovery_report.orphan(queue, groups, what) for queue, groups in _files(source, orphans)]


def contents_of(queue: RecoveredQueue) -> str:
    """Return a digest of what a queue contains, wherever it lies."""
    return hashlib.sha256("\n".join((queue.peer_id, queue.dead_server, *queue.wals)).encode()).hexdigest()[:DIGEST_CHARS]


@dataclass(frozen=True)
class Orphans:
    """The outcome of queues whose peers are gone: a line for each, and why some of them were not deleted."""

    lines: list[str]
    problems: list[str]


def deal_with_orphans(
    source: SourceCluster,
    selected: Selected,
    delete: bool,
    run_id: str,
    *,
    shown: Collection[str] | None = None,
    refusal: str = "",
) -> Orphans:
    """Report queues of peers that are gone, and `delete` them if asked, unless there is a `refusal`.

    `shown` are the contents of the queues that a person has seen, if that was needed: no others are deleted. Raises PeerError if
    a peer is back, ConnectError.
    """
    if not selected.peers:
        return Orphans([], [])
    with open_session(source) as session:
        orphans = list(filter(wanted_by_hand(selected), recovered_queues(session)))
    files = _files(source, orphans)  # before they are deleted
    kept: dict[str, str] = {}
    refusal = refusal or ("" if delete else "delete_orphan would delete it")
    if not refusal:
        with open_session(source) as session:
            for problem in disagreements(session, selected.peers).values():
                raise problem
            for queue in orphans:
                unseen = NOT_SHOWN if shown is not None and contents_of(queue) not in shown else ""
                if why := unseen or _not_deleted(session, queue, run_id):
                    kept[queue.ref] = why
    done = f"left; {refusal}" if refusal else "deleted"
    lines = [
        recovery_report.orphan(queue, groups, f"not deleted: {kept[queue.ref]}" if queue.ref in kept else done)
        for queue, groups in files
    ]
    return Orphans(lines, [f"{ref} is not deleted: {why}" for ref, why in kept.items()])


def _not_deleted(session: Session, queue: RecoveredQueue, run_id: str) -> str:
    """Delete a queue of a peer that is gone. Return why that failed, if it did: other queues are deleted all the same."""
    if queue.unread:
        return queue.unread
    try:
        delete_queue(session, queue, f"run {run_id} on {socket.gethostname()}")
    except ConnectError:
        raise
    except WalferryError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class RecoveryPlan:
    """The queues that a run is to drain, and what each peer's Spark job has to ship, if there is anything."""

    drains: list[Drain]
    jobs: list[Planned]

    @property
    def peers(self) -> list[str]:
        """The peers whose drains were noted."""
        return sorted({drain.peer for drain in self.drains})


def plan(source: SourceCluster, wanted: Wanted, claimed: Collection[str], run_id: str) -> RecoveryPlan:
    """Note each wanted queue, where it lies now and what is to be shipped of it, as the run's drains, and return the plan.

    A queue that still lies under its dead server is left there, unless the server is one of `claimed`. WALs that need no shipping
    leave their queue here. Raises WalferryError.
    """
    found = RecoveryPlan([], [])
    with open_session(source) as session:
        by_peer = _by_peer(filter(wanted, recovered_queues(session)))
        refused = disagreements(session, by_peer)
        for peer_id, queues in by_peer.items():
            drains, groups = _plan_of_peer(session, peer_id, queues, claimed, run_id, refused.get(peer_id))
            note_drains(session, peer_id, run_id, drains)
            found.drains.extend(drains)
            if groups:
                found.jobs.append(batch.figures(run_id, peer_id, groups))
    return found


def announced(events: Iterable[Any]) -> list[str]:
    """Return the servers that asset events have announced. An event that was made by hand may contain anything."""
    names: set[str] = set()
    for event in events:
        payload = (event.extra or {}).get("payload")
        servers = payload.get("servers") if isinstance(payload, dict) else None
        names |= {name for name in servers if isinstance(name, str)} if isinstance(servers, dict) else set()
    return sorted(names)


def drains_of(source: SourceCluster, peers: Iterable[str], run_id: str) -> list[Drain]:
    """Return the drains that `plan` has noted for these peers. Raises WalferryError."""
    with open_session(source) as session:
        return [drain for peer_id in peers for drain in read_drains(session, peer_id, run_id)]


def ship_in_rounds(source: SourceCluster, planned: Planned, deadline: float, ship: Callable[[bool], Collection[str]]) -> None:
    """Call `ship` to run the job of a plan, and again for WAL groups that other runs held, until the deadline.

    `ship` gets whether some of the groups were free when it began, and returns the groups that its job has found held. It is not
    called if nothing is noted for the plan. `deadline` is in seconds. Raises WalferryError.
    """
    until, tried = time.monotonic() + deadline, set[str]()
    with open_session(source) as session:
        groups: Collection[str] = groups_to_drain(session, planned.peer, planned.run_id)
    while groups:
        held = ship(batch.await_free(source, planned.peer, groups, until))
        groups = batch.again(source, planned.peer, held if time.monotonic() < until else (), tried)


def outcome(source: SourceCluster, drains: Sequence[Drain], run_id: str, jobs: Mapping[str, str | None]) -> list[Drained]:
    """Return the outcome of the run's queues, wherever they lie now. `jobs` contains how each peer's job has ended."""
    with open_session(source) as session:
        there = recovered_queues(session)
        with suppress(MasterSilent):  # otherwise a queue that is gone may have been moved to HBase 3's table
            master_peers(session)
        peers = sorted({drain.peer for drain in drains})
        summaries = {(peer_id, s.group): s for peer_id in peers for s in read_run(session, peer_id, run_id)}
    left = _wals_left(drains, there)
    return [
        Drained(
            drain, jobs.get(drain.peer) if drain.to_ship else None,
            [summaries[drain.peer, group] for group in drain.groups if (drain.peer, group) in summaries], number,
        )
        for drain, number in zip(drains, left, strict=True)
    ]  # fmt: skip


def _wals_left(drains: Sequence[Drain], there: Iterable[RecoveredQueue]) -> list[int]:
    """Return for each drain how many WALs are still queued; -1: the queue is gone.

    A WAL group is in one queue of its peer only, whatever the queue is called. A queue without WALs, or whose WALs cannot be
    listed, is found by its name, or by the name that it gets when it is claimed.
    """
    wals: dict[tuple[str, ...], int] = {}
    by_name = [drain for drain in drains if not drain.groups]
    for queue in there:
        number = 1 if queue.unread else len(queue.wals)
        for key in {(queue.peer_id, group) for group in queue.groups} | {(queue.peer_id, queue.server, queue.queue_id)}:
            wals[key] = max(wals.get(key, 0), number)
        for drain in by_name:
            if drain.peer == queue.peer_id and was_called(queue, drain.ref):
                key = (drain.peer, drain.server, drain.queue)
                wals[key] = max(wals.get(key, 0), number)
    keys = (({(drain.peer, group) for group in drain.groups} | {(drain.peer, drain.server, drain.queue)}) for drain in drains)
    return [max(wals.get(key, -1) for key in of_one) for of_one in keys]


def clean_up(source: SourceCluster, servers: Collection[str], run_id: str) -> list[str]:
    """Remove empty queues and znodes of dead servers that no run claims now. Return the servers whose znodes were removed.

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


def claimed_by(source: SourceCluster, queue: RecoveredQueue) -> str:
    """Return who has claimed the queue, judging by where it lies."""
    if not queue.claimed:
        return "nobody"
    if queue.server == WALFERRY_SERVER:
        return "Walferry"
    return "HBase or Walferry" if source.nodes.locked else "HBase"


def _files(source: SourceCluster, queues: Iterable[RecoveredQueue]) -> list[tuple[RecoveredQueue, tuple[GroupPlan, ...]]]:
    """Return the queues with the parts of their files that are not shipped."""
    queues = list(queues)
    planned: dict[tuple[str, str], GroupPlan] = {}
    with open_session(source, look_only=True) as session:
        for peer_id, of_peer in _by_peer(queues).items():
            names = {group for queue in of_peer for group in queue.groups}
            planned |= {(peer_id, group.group): group for group in plan_peer(session, peer_id, names).groups}
    return [
        (queue, tuple(planned[queue.peer_id, group] for group in queue.groups if (queue.peer_id, group) in planned))
        for queue in queues
    ]


def _by_peer(queues: Iterable[RecoveredQueue]) -> dict[str, list[RecoveredQueue]]:
    by_peer: dict[str, list[RecoveredQueue]] = {}
    for queue in queues:
        by_peer.setdefault(queue.peer_id, []).append(queue)
    return dict(sorted(by_peer.items()))


def _plan_of_peer(
    session: Session, peer_id: str, queues: Sequence[RecoveredQueue], claimed: Collection[str], run_id: str,
    refused: WalferryError | None,
) -> tuple[list[Drain], list[GroupPlan]]:  # fmt: skip
    """Return a peer's drains, unless the peer is `refused`, and the WAL groups that its job has to ship."""
    try:
        if refused is not None:
            raise refused
        check_shippable(read_peer(session, peer_id))
    except (PeerError, ZNodeValueError) as error:
        paused = isinstance(error, PausedPeer)
        return [_stuck(session, queue, str(error), paused=paused) for queue in queues], []
    names = {group for queue in queues for group in queue.groups}
    planned = {group.group: group for group in plan_peer(session, peer_id, names).groups} if names else {}
    drains: list[Drain] = []
    to_drain: dict[str, GroupPlan] = {}  # a group that is being moved may lie in two queues
    for queue in queues:
        if not queue.claimed and queue.server not in claimed:
            drains.append(_stuck(session, queue, f"{queue.server} was not claimed"))
            continue
        if queue.unread:
            drains.append(_stuck(session, queue, queue.unread))
            continue
        if not queue.wals:
            _remove_empty(session, queue, run_id)
        mine = PeerPlan(peer_id, tuple(planned[name] for name in queue.groups if name in planned))
        dequeued = dequeue_empty(session, mine, f"plan of run {run_id} on {socket.gethostname()}")
        # No later run comes for groups that are held, whose finished WALs stay queued, so a drain waits for them.
        groups = (*mine.to_ship, *dequeued.held)
        to_drain |= {group.group: group for group in groups}
        drains.append(_drain(session, queue, groups))
    return drains, list(to_drain.values())


def _drain(session: Session, queue: RecoveredQueue, groups: Sequence[GroupPlan] = (), **others: Any) -> Drain:
    """Return the queue with what its peer's job has to ship of it."""
    expected = next((group.problem for group in groups if group.problem), "")
    return Drain(
        peer=queue.peer_id, server=queue.server, queue=queue.queue_id, dead_server=queue.dead_server,
        claimed_by=claimed_by(session.source, queue), groups=queue.groups, wals=len(queue.wals),
        bytes=sum(group.bytes_left for group in groups), to_ship=tuple(group.group for group in groups),
        expected=expected[:MAX_TEXT_CHARS], **others,
    )  # fmt: skip


def _stuck(session: Session, queue: RecoveredQueue, problem: str, *, paused: bool = False) -> Drain:
    return _drain(session, queue, problem=problem[:MAX_TEXT_CHARS], paused=paused)


def _remove_empty(session: Session, queue: RecoveredQueue, run_id: str) -> None:
    """Remove a queue without WALs. A run or server that was killed while it moved or finished the queue has left it."""
    group = ServerName.parse(queue.dead_server).encoded()
    try:
        with acquire(session, queue.peer_id, group, f"run {run_id}") as lease:
            lease.remove_empty_queue(queue.server, queue.queue_id)
    except LeaseHeld as error:
        log.info("%s is left: %s", queue.ref, error)
