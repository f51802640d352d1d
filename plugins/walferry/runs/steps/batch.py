"""The steps of a batch that run inside Airflow's tasks. The Spark job does the shipping.

Each step reads ZooKeeper again and keeps nothing, so any step may be run again at any time.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from walferry.base.errors import WalferryError
from walferry.base.zk.errors import Contention
from walferry.base.zk.fenced_lock import is_held, read_record
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.errors import MissingPeer, PausedPeer, PeerError
from walferry.hbase.names import ServerName, parse_wal_name
from walferry.load.copy_records import under_way
from walferry.replication.locks import peer_lock as rights
from walferry.replication.peers.reading import Peer, check_shippable
from walferry.replication.peers.settings import PeerSettings, SinkKind
from walferry.replication.queues import needed_rolls, rolling
from walferry.replication.queues.dead_servers import recovered_queues
from walferry.replication.queues.reading import queued_groups
from walferry.replication.retention.unflushed import near_limit
from walferry.replication.source.agreement import check_peer, disagreements, master_peers
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peer_logins import with_logins_of
from walferry.replication.source.peers import read_peer, read_peers
from walferry.replication.source.session import Session, open_session
from walferry.runs.values import MAX_PROBLEMS, ChosenPeers, Planned, PlanProblem, RollReport
from walferry.shipping import garbage_collection
from walferry.shipping.empty_wals import dequeue_empty
from walferry.shipping.plan import GroupPlan, PeerPlan, plan_peer
from walferry.shipping.runs import read_run

FREE_POLL_SECONDS = 2.0
ASKED_AT_ONCE = 16  # peer clusters
MASTER_WORD_SECONDS = 600.0  # for how long a plan trusts the Master's answer about the peers

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Due:
    """What a run is to do that asset events have begun."""

    peers: frozenset[str]
    roll: bool


def choose(source: SourceCluster, asked: str | None) -> ChosenPeers:
    """Return the chosen peer, or all managed peers, sorted. It asks the Master once for all of them.

    Peers that only the Master knows are included: their plans then say why they are refused. A peer that cannot be read is logged
    and left out. The garbage of peers that are gone is deleted. Raises WalferryError.
    """
    with open_session(source) as session:
        listing = read_peers(session)
        known = master_peers(session)
        garbage_collection.collect_garbage_of_gone_peers(session, known or {})
        for problem in listing.problems:
            log.error("left out: %s", problem)
        managed = {peer.id for peer in (*listing.peers, *(known or {}).values()) if peer.managed} - set(listing.unreadable)
        peers = [asked] if asked else sorted(managed)
        refused = disagreements(session, peers, known) if known is not None else {}
        return ChosenPeers(peers, sorted(refused), time.time())


def announced(events: Iterable[Any]) -> Due | None:
    """Return what the run's asset events have announced; None, which stands for everything, without events.

    It is None as well if somebody has made an event by hand, which may contain anything.
    """
    peers: set[str] = set()
    rolls: list[bool] = []
    for event in events:
        payload = (event.extra or {}).get("payload")
        if not isinstance(payload, dict) or not isinstance(payload.get("peers"), dict):
            return None
        peers |= {name for name in payload["peers"] if isinstance(name, str)}
        rolls.append(payload.get("roll") is True)
    return Due(frozenset(peers), any(rolls)) if rolls else None


def roll(source: SourceCluster, peer_ids: Collection[str]) -> RollReport | None:
    """Make RegionServers begin new WALs, once for all of these peers; return None if there is no peer to roll for.

    Servers that have written nothing since that a managed peer may want are left alone. It does not wait for the queues of peers
    that cannot be shipped. Raises WalferryError.
    """
    with open_session(source) as session:
        mine = [peer_id for peer_id in peer_ids if _is_shippable(session, peer_id)]
        if not mine:
            return None
        choice = needed_rolls.choose(session)
        rolled = rolling.roll(session, mine, choice.needed)
        needed_rolls.note(session, choice, rolled.failures)
        crowded = _crowded(session, choice.needed)
    for server, why in rolled.failures.items():  # the report contains the first ones
        log.warning("roll of %s: %s", server, why)
    for warning in crowded:
        log.warning("%s", warning)
    return RollReport.of(rolled.servers, rolled.failures, spared=len(choice.spared), warnings=crowded)


def _crowded(session: Session, rolled: Collection[ServerName]) -> list[str]:
    """Return a warning if rolls will soon make HBase flush. A roll does not fail because that cannot be found out."""
    try:
        return [finding.line for finding in near_limit(session, rolled)]
    except WalferryError as error:
        log.info("whether the servers have many WALs is not known: %s", error)
        return []


def plan(source: SourceCluster, peer_id: str, attempt: str, run: str = "", chosen: ChosenPeers | None = None) -> Planned:
    """Return what is to be shipped for the peer, in a few figures. Raises PeerError, WalferryError.

    `attempt` names the summaries to come, `run` is the run that asks, and `chosen` contains the Master's earlier answer. If
    another run holds the peer, the plan leaves the peer to that run. It leaves a peer to its initial snapshot until that is
    complete, and a paused peer to its operator. It leaves dead servers' groups to the recoveries that hold them. Groups that need
    no job are finished here: an idle server's WALs have no entries.
    """
    with open_session(source) as session:
        try:
            _check(session, peer_id, chosen)
        except PausedPeer as error:
            return Planned(attempt, peer_id, left_to=str(error))
        turn = rights.turn_of(session, peer_id, run)
        if turn.other is not None:
            return Planned(attempt, peer_id, turn=turn.number, left_to=str(turn.other))
        if (copying := under_way(session, peer_id)) is not None:
            return Planned(attempt, peer_id, turn=turn.number, left_to=str(copying))
        found = plan_peer(session, peer_id)
        held = holders(session, peer_id, found.dead & {group.group for group in found.groups})
        ours = PeerPlan(peer_id, tuple(group for group in found.groups if group.group not in held))
        dequeued = dequeue_empty(session, ours, f"plan of run {attempt} on {socket.gethostname()}")
        garbage_collection.collect_garbage(session, peer_id)
    for group, holder in sorted(held.items()):
        log.info("WAL group %s of a dead server is left to %s", group, holder)
    return figures(attempt, peer_id, ours.to_ship, dequeued=dequeued.wals, held=len(held), turn=turn.number)


def figures(attempt: str, peer_id: str, groups: Collection[GroupPlan], **others: Any) -> Planned:
    """Return counts, bytes and problems of the groups that a job ships. `others` are further fields of the plan."""
    found = [PlanProblem.of(group.server, group.queue_id, group.group, group.problem) for group in groups if group.problem]
    begun = [parse_wal_name(wal.name).timestamp for group in groups for wal in group.wals if not wal.finished]
    return Planned(
        attempt,
        peer_id,
        groups=len(groups),
        wals=sum(len(group.wals) for group in groups),
        bytes=sum(group.bytes_left for group in groups),
        problems=tuple(found[:MAX_PROBLEMS]),
        problems_left_out=max(0, len(found) - MAX_PROBLEMS),
        oldest=min(begun, default=None),
        **others,
    )


def holding_peer(source: SourceCluster, planned: Planned, run: str) -> AbstractContextManager[str]:
    """Hold the lock of the plan's peer while the block runs. Raises PeerLocked, ConnectError."""
    return rights.holding_peer(source, planned.peer, run, f"run {run} on {socket.gethostname()}", planned.turn)


def joining(source: SourceCluster, lead: str, sink: SinkKind | None) -> list[str]:
    """Return the peers whose files are to be made by the jobs of peer `lead`, in a run that asks for `sink`. Raises
    WalferryError."""
    with open_session(source, look_only=True) as session:
        # For most peers this one read says that there are none: a run has many peers.
        return _joining(source, read_peers(session).peers, lead, sink) if _leads(source, session, lead, sink) else []


def lead_of(source: SourceCluster, peer_id: str, sink: SinkKind | None) -> str | None:
    """Return the peer whose jobs make this peer's files, too; None if there is none. Raises WalferryError."""
    with open_session(source, look_only=True) as session, suppress(MissingPeer):
        lead = read_peer(session, peer_id).hfiles_with
        if lead and peer_id in _joining(source, read_peers(session).peers, lead, sink):
            return lead
    return None


def _joining(source: SourceCluster, peers: Iterable[Peer], lead: str, sink: SinkKind | None) -> list[str]:
    managed = {peer.id: peer for peer in peers if peer.managed and not peer.paused}
    named = [peer for peer in managed.values() if peer.hfiles_with == lead]
    if not named or lead not in managed or managed[lead].hfiles_with or not _makes_files(source, managed[lead], sink):
        return []
    return [peer.id for peer in named if _makes_files(source, peer, sink)]


def _leads(source: SourceCluster, session: Session, peer_id: str, sink: SinkKind | None) -> bool:
    with suppress(MissingPeer):
        return _makes_files(source, read_peer(session, peer_id), sink)
    return False


def _makes_files(source: SourceCluster, peer: Peer, sink: SinkKind | None) -> bool:
    with suppress(PeerError):  # its own run reports a wrong setting
        return peer.in_hbase and PeerSettings.of(source.replication, peer).chosen(sink).sink.makes_files
    return False


@contextmanager
def holding_with(source: SourceCluster, lead: str, run: str, peer_ids: Collection[str]) -> Iterator[list[str]]:
    """Hold the locks of the peers whose files the job of peer `lead` makes, too, and yield their ids.

    Waits for nobody but, side by side, for the peer clusters' first answers: a peer that another run ships, whose cluster is
    down, or whose rows a killed run may still be sending, is left out.
    """
    with ExitStack() as held:
        found = []
        for peer_id, why in _problems(source, peer_ids).items():
            problem = why
            if not problem:
                try:
                    held.enter_context(_holding_for(source, lead, run, peer_id))
                except WalferryError as error:
                    problem = str(error)
            if problem:
                log.info("peer %s is left to its own run: %s", peer_id, problem)
            else:
                found.append(peer_id)
        yield found


def _problems(source: SourceCluster, peer_ids: Collection[str]) -> dict[str, str | None]:
    def problem(peer_id: str) -> str | None:
        try:
            return why_down(source, peer_id)
        except WalferryError as error:
            return str(error)

    with ThreadPoolExecutor(max(1, min(ASKED_AT_ONCE, len(peer_ids))), "is-it-up") as pool:
        return dict(zip(peer_ids, pool.map(problem, peer_ids), strict=True))


def _holding_for(source: SourceCluster, lead: str, run: str, peer_id: str) -> AbstractContextManager[str]:
    with open_session(source, look_only=True) as session:
        if rights.has_rows(session, peer_id):
            raise Contention(f"rows of a killed run may still arrive at the cluster of peer {peer_id}")
        ours = _run_with(run, lead)
        turn = rights.turn_of(session, peer_id, ours).number
    return rights.holding_peer(source, peer_id, ours, f"run {run} on {socket.gethostname()}, with peer {lead}", turn)


def _run_with(run: str, lead: str) -> str:
    """Return the name by which a run's job of peer `lead` holds other peers: it takes over from no job of theirs."""
    return f"{run} with peer {lead}"


def after_lead(source: SourceCluster, planned: Planned, run: str, lead: str) -> Planned:
    """Return the plan of a peer whose lock this run's job of peer `lead` has held since, with the present turn."""
    with open_session(source, look_only=True) as session:
        turn = rights.turn_of(session, planned.peer, run)
    ours = turn.other is None and turn.last.get("run") == _run_with(run, lead)
    return replace(planned, turn=turn.number) if ours else planned


def shipped_whole(source: SourceCluster, planned: Planned) -> set[str]:
    """Return the WAL groups of which the run's jobs have shipped everything that they found queued. Raises WalferryError."""
    return {s.group for s in summaries(source, planned.peer, planned.run_id) if s.status is Status.DONE}


def for_job(source: SourceCluster, *peer_ids: str) -> SourceCluster:
    """Return the source for a job of these peers. It contains the peer clusters' logins, because Spark has no connections to read
    them from.

    The logins contain names of files, no secrets. Raises WalferryError.
    """
    peers = []
    with open_session(source, look_only=True) as session:
        for peer_id in peer_ids:
            with suppress(MissingPeer):  # the job reports that
                peers.append(read_peer(session, peer_id))
    return with_logins_of(source, peers)


def why_down(source: SourceCluster, peer_id: str) -> str | None:
    """Return why the peer cluster cannot be shipped to now; None if it can, or if only the job can find out. Raises
    WalferryError."""
    from walferry.replication.sinks.of_peer import why_down

    with open_session(source) as session:
        peer = read_peer(session, peer_id)
    return why_down(peer, source)


def why_paused(source: SourceCluster, peer_id: str) -> str | None:
    """Return a text that says that the peer is paused; None if it is not, or if that cannot be found out."""
    with suppress(WalferryError), open_session(source) as session:
        return str(PausedPeer(peer_id)) if read_peer(session, peer_id).paused else None
    return None


def summaries(source: SourceCluster, peer_id: str, run_id: str) -> list[GroupSummary]:
    """Return the summaries of the peer's WAL groups that the run's Spark jobs have written."""
    with open_session(source) as session:
        return read_run(session, peer_id, run_id)


def ahead_ms(source: SourceCluster, peer_id: str) -> int:
    """Return by how many ms, at least, the peer cluster's clocks are ahead of the source's; 0 if that is not known."""
    from walferry.verification.clocks import surely_apart_ms

    try:
        with open_session(source, look_only=True) as session:
            return surely_apart_ms(session, read_peer(session, peer_id))
    except Exception as error:  # a batch that has shipped does not fail because of its peer cluster's clocks
        log.info("how far the clocks are apart is not known: %s", error)
        return 0


def holders(session: Session, peer_id: str, groups: Collection[str]) -> dict[str, str]:
    """Return the WAL groups that are held now, each with its holder."""
    leases = {group: session.own.lease(peer_id, group) for group in groups}
    return {
        group: read_record(session.zk, lease).get("holder", "another run")
        for group, lease in leases.items()
        if is_held(session.zk, lease)
    }


def not_held(source: SourceCluster, peer_id: str, shipped: Collection[str] = ()) -> list[str]:
    """Return the peer's WAL groups except dead servers' groups that a recovery holds, and those that are `shipped`."""
    with open_session(source) as session:
        dead = {group for queue in recovered_queues(session, peer_id) for group in queue.groups}
        held = holders(session, peer_id, dead).keys()
        return sorted(queued_groups(session, peer_id, even_unread=True) - held - set(shipped))


def again(source: SourceCluster, peer_id: str, groups: Collection[str], tried: set[str]) -> Collection[str]:
    """Return the WAL groups for which another job is worth it, of those that a job has found held.

    These are groups that are held now or have become free. A free group is `tried` once, as it may be left for another reason.
    """
    if not groups:
        return ()
    with open_session(source) as session:
        now = holders(session, peer_id, groups).keys()
    free = {group for group in groups if group not in now} - tried
    tried |= free
    return {*now, *free}


def await_free(source: SourceCluster, peer_id: str, groups: Collection[str], give_up: float) -> bool:
    """Wait until some of the WAL groups are free. Return False if other runs hold all of them at `give_up` (time.monotonic)."""
    reported: dict[str, str] = {}
    with open_session(source) as session:
        while len(held := holders(session, peer_id, groups)) == len(groups):
            if held != reported:
                reported = held
                for group, holder in sorted(held.items()):
                    log.info("waiting for %s, which holds WAL group %s of peer %s", holder, group, peer_id)
            if time.monotonic() > give_up:
                return False
            time.sleep(FREE_POLL_SECONDS)
    return True


def _check(session: Session, peer_id: str, chosen: ChosenPeers | None) -> None:
    """Raise the reason against shipping the peer. The Master is not asked again for a short while after it has agreed."""
    if chosen is None or peer_id in chosen.refused or not 0 <= time.time() - chosen.at < MASTER_WORD_SECONDS:
        peer = check_peer(session, peer_id)
    else:
        peer = read_peer(session, peer_id)
        check_shippable(peer)
    PeerSettings.of(session.source.replication, peer)  # a job would refuse an unknown setting, too, but later


def _is_shippable(session: Session, peer_id: str) -> bool:
    try:
        check_shippable(read_peer(session, peer_id))
    except WalferryError as error:  # the peer's plan reports it, too
        log.info("%s", error)
        return False
    return True
