"""Finds what is wrong with a source's replication from its status. It reads nothing.

If a look could not see whether there is a finding, the finding is unseen: it is then neither new nor over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from walferry.base.amounts import count, duration
from walferry.base.findings import Finding, wrong
from walferry.base.texts import shell_word
from walferry.observe.status.ages import Age, Certainty
from walferry.observe.status.model import PeerStatus, SourceStatus
from walferry.observe.status.words import UNKNOWN, lag
from walferry.replication.retention import limits
from walferry.replication.retention.survey import OldWalSurvey

SHOWN_ORPHANS = 5


class StatusKind(StrEnum):
    """The kinds of findings of a status."""

    UNREACHABLE = "unreachable"  # the source, or a part of it
    REFUSED = "refused"  # Walferry may not ship the peer
    PEER_DOWN = "peer-down"
    FAILING = "failing"
    STUCK = "stuck"
    BEHIND = "behind"
    ORPHANED = "orphaned queues"  # of peers that do not exist
    OLD_WALS = limits.OLD_WALS  # the disk will be full soon


@dataclass(frozen=True)
class StatusFindings:
    """The findings. Nothing is known of findings whose subject or kind is `unseen`."""

    findings: tuple[Finding, ...]
    unseen: frozenset[str] = frozenset()

    def has_seen(self, what: str) -> bool:
        """Return whether the look could see if there is this finding."""
        return what not in self.unseen and what.rpartition(": ")[2] not in self.unseen


def counts(peer: PeerStatus) -> bool:
    """Return whether findings about the peer count: its operator has not paused it."""
    return bool(peer.managed) and not peer.paused


def of_peer(peer: PeerStatus, max_lag: float | None = None) -> Iterator[Finding]:
    """Yield a peer's findings, the worst first. It may lag `max_lag` seconds (default: its configuration's limit)."""
    about = _about(peer)
    if peer.refusal:
        yield wrong(StatusKind.REFUSED, f"it cannot be shipped: {peer.refusal}", about=about)
    if peer.peer_cluster.reachable is False:
        yield wrong(StatusKind.PEER_DOWN, f"its peer cluster cannot be reached: {peer.peer_cluster.why}", about=about)
    if peer.error:
        since = "" if peer.failing_since_ms is None else f" for {duration(max(0.0, time.time() - peer.failing_since_ms / 1000))}"
        yield wrong(StatusKind.FAILING, f"it has failed{since}: {peer.error}", about=about)
    if peer.stuck:
        yield wrong(StatusKind.STUCK, peer.stuck, about=about)
    if peer.managed and (why := _behind(peer, max_lag)):
        yield wrong(StatusKind.BEHIND, why, about=about)


def of_source(status: SourceStatus, old_wals: OldWalSurvey | None, days_left: float) -> StatusFindings:
    """Return a source's findings. The disk under oldWALs should last `days_left` days; None: oldWALs was not listed."""
    if status.unreachable is not None:
        others = frozenset(map(str, StatusKind)) - {StatusKind.UNREACHABLE}
        return StatusFindings((wrong(StatusKind.UNREACHABLE, f"the source cannot be read: {status.unreachable}"),), others)
    peers = [peer for peer in status.peers or () if counts(peer)]
    findings = [*_unreadable(status), *(finding for peer in peers for finding in of_peer(peer)), *orphaned(status)]
    unseen = {f"{_about(peer)}: {StatusKind.PEER_DOWN}" for peer in peers if peer.peer_cluster.reachable is None}
    if status.peers is None:
        unseen |= {StatusKind.REFUSED, StatusKind.PEER_DOWN, StatusKind.FAILING, StatusKind.STUCK, StatusKind.BEHIND}
    if any(peer.queues is None for peer in peers):
        unseen |= {StatusKind.FAILING, StatusKind.STUCK}
    if status.orphaned is None:
        unseen.add(StatusKind.ORPHANED)
    if old_wals is None or old_wals.forecast.space is None:
        unseen.add(StatusKind.OLD_WALS)
    else:
        findings += limits.full_disk(old_wals, days_left)
    return StatusFindings(tuple(findings), frozenset(map(str, unseen)))


def orphaned(status: SourceStatus) -> Iterator[Finding]:
    """Yield the findings on queues of peers that do not exist."""
    if status.orphaned:
        queues = status.orphaned
        shown = ", ".join(shell_word(f"{queue.server}/{queue.queue_id}") for queue in queues[:SHOWN_ORPHANS])
        more = ", …" if len(queues) > SHOWN_ORPHANS else ""
        wals = sum(queue.sizeOfLogQueue for queue in queues)
        text = f"{count(len(queues), 'queue')} with {count(wals, 'WAL')} are of peers that do not exist, and nothing ships them"
        advice = "Their WALs are kept until `walferry drain SERVER/QUEUE --delete-orphan`"
        yield wrong(StatusKind.ORPHANED, f"{text}: {shown}{more}", advice)


def _about(peer: PeerStatus) -> str:
    return f"peer {peer.id}"


def _unreadable(status: SourceStatus) -> Iterator[Finding]:
    parts = [name for name, found in (("peers", status.peers), ("queues", status.orphaned)) if found is None]
    if parts:
        why = next(iter(status.problems), "they are not there")
        yield wrong(StatusKind.UNREACHABLE, f"the source's {' and '.join(parts)} cannot be read: {why}")
    for peer in status.peers or ():
        if peer.managed is None:
            its = [each for each in status.problems if f"/{peer.id}:" in each or f"/{peer.id}/" in each]
            why = its[0] if its else "`walferry check` says more"
            yield wrong(StatusKind.REFUSED, f"its configuration cannot be read: {why}", about=_about(peer))


def _behind(peer: PeerStatus, max_lag: float | None) -> str | None:
    limit = peer.max_lag if max_lag is None else max_lag
    if max_lag is None and peer.max_lag_problem:
        return peer.max_lag_problem
    if limit is None or _keeps(peer.replicationLag, limit):
        return None
    shown = lag(peer.replicationLag)
    why = f" ({peer.replicationLag.why})" if shown == UNKNOWN else ""
    return f"its lag is {shown}{why}, and {duration(limit)} are allowed"


def _keeps(age: Age, max_lag: float) -> bool:
    """Return whether the age is known to be at most that many seconds."""
    return age.ms is not None and age.certainty in (Certainty.EXACT, Certainty.AT_MOST) and age.ms <= max_lag * 1000
