"""What is wrong with a source's replication, as a status tells it. Nothing is read here.

A trouble is known by its kind and its peer, so that the same one is known again in the next look. A look that could not see
whether there is a trouble says so: then it is neither new nor over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from walferry.base.amounts import count, duration
from walferry.base.texts import one_line
from walferry.observe.status.ages import Age, Certainty
from walferry.observe.status.model import PeerStatus, SourceStatus
from walferry.observe.status.old_wals import OldWalsStatus
from walferry.observe.status.words import UNKNOWN, lag

MAX_TEXT_CHARS = 1000
SHOWN_ORPHANS = 5


class TroubleKind(StrEnum):
    """The kinds of troubles."""

    UNREACHABLE = "unreachable"  # the source, or a part of it
    REFUSED = "refused"  # Walferry may not ship the peer
    SLAVE_DOWN = "slave-down"
    FAILING = "failing"
    STUCK = "stuck"
    BEHIND = "behind"
    ORPHANED = "orphaned"  # queues of peers that do not exist
    OLD_WALS = "old-wals"  # the disk will be full soon


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong. `text` is a line that can stand behind the peer's name."""

    kind: TroubleKind
    text: str
    peer_id: str = ""

    @property
    def key(self) -> str:
        """What it is known by."""
        return f"{self.kind}:{self.peer_id}" if self.peer_id else str(self.kind)

    @property
    def line(self) -> str:
        """The trouble as a line of its own."""
        return one_line(f"peer {self.peer_id}: {self.text}" if self.peer_id else self.text, MAX_TEXT_CHARS)


@dataclass(frozen=True)
class StatusLook:
    """What a look has found. Nothing is known of troubles whose key or kind is among those `not_seen`."""

    troubles: tuple[Trouble, ...]
    not_seen: frozenset[str] = frozenset()

    def has_seen(self, key: str) -> bool:
        """Whether the look tells if there is this trouble."""
        return key not in self.not_seen and key.partition(":")[0] not in self.not_seen


def counts(peer: PeerStatus) -> bool:
    """Whether troubles of the peer are Walferry's to look after: its operator has not paused it."""
    return bool(peer.managed) and not peer.paused


def of_peer(peer: PeerStatus, max_lag: float | None = None) -> Iterator[Trouble]:
    """What is wrong with a peer, the worst first. It may lag for so many seconds (default: as its configuration says)."""
    if peer.refusal:
        yield Trouble(TroubleKind.REFUSED, f"it cannot be shipped: {peer.refusal}", peer.id)
    if peer.slave.reachable is False:
        yield Trouble(TroubleKind.SLAVE_DOWN, f"its slave cannot be reached: {peer.slave.why}", peer.id)
    if peer.error:
        since = "" if peer.failing_since_ms is None else f" for {duration(max(0.0, time.time() - peer.failing_since_ms / 1000))}"
        yield Trouble(TroubleKind.FAILING, f"it has failed{since}: {peer.error}", peer.id)
    if peer.stuck:
        yield Trouble(TroubleKind.STUCK, peer.stuck, peer.id)
    if peer.managed and (why := _behind(peer, max_lag)):
        yield Trouble(TroubleKind.BEHIND, why, peer.id)


def of_source(status: SourceStatus, old_wals: OldWalsStatus | None, days_left: float) -> StatusLook:
    """What is wrong with a source. The disk under oldWALs should last for so many days; None: oldWALs was not looked at."""
    if status.unreachable is not None:
        others = frozenset(map(str, TroubleKind)) - {TroubleKind.UNREACHABLE}
        return StatusLook((Trouble(TroubleKind.UNREACHABLE, f"the source cannot be looked at: {status.unreachable}"),), others)
    peers = [peer for peer in status.peers or () if counts(peer)]
    troubles = [*_unreadable(status), *(trouble for peer in peers for trouble in of_peer(peer))]
    not_seen = {f"{TroubleKind.SLAVE_DOWN}:{peer.id}" for peer in peers if peer.slave.reachable is None}
    if status.peers is None:
        not_seen |= {TroubleKind.REFUSED, TroubleKind.SLAVE_DOWN, TroubleKind.FAILING, TroubleKind.STUCK, TroubleKind.BEHIND}
    if any(peer.queues is None for peer in peers):
        not_seen |= {TroubleKind.FAILING, TroubleKind.STUCK}
    if status.orphaned is None:
        not_seen.add(TroubleKind.ORPHANED)
    elif status.orphaned:
        troubles.append(_orphaned(status))
    if old_wals is None or old_wals.remaining is None:
        not_seen.add(TroubleKind.OLD_WALS)
    elif (full := _full(old_wals, days_left)) is not None:
        troubles.append(full)
    return StatusLook(tuple(troubles), frozenset(map(str, not_seen)))


def _unreadable(status: SourceStatus) -> Iterator[Trouble]:
    parts = [name for name, found in (("peers", status.peers), ("queues", status.orphaned)) if found is None]
    if parts:
        why = next(iter(status.problems), "they are not there")
        yield Trouble(TroubleKind.UNREACHABLE, f"the source's {' and '.join(parts)} cannot be read: {why}")
    for peer in status.peers or ():
        if peer.managed is None:
            its = [each for each in status.problems if f"/{peer.id}:" in each or f"/{peer.id}/" in each]
            why = its[0] if its else "`walferry check` tells more"
            yield Trouble(TroubleKind.REFUSED, f"its configuration cannot be read: {why}", peer.id)


def _behind(peer: PeerStatus, max_lag: float | None) -> str | None:
    limit = peer.max_lag if max_lag is None else max_lag
    if max_lag is None and peer.max_lag_problem:
        return peer.max_lag_problem
    if limit is None or _keeps(peer.replicationLag, limit):
        return None
    told = lag(peer.replicationLag)
    why = f" ({peer.replicationLag.why})" if told == UNKNOWN else ""
    return f"its lag is {told}{why}, and {duration(limit)} are allowed"


def _keeps(age: Age, max_lag: float) -> bool:
    """Whether the age is known to be no larger than that many seconds."""
    return age.ms is not None and age.certainty in (Certainty.EXACT, Certainty.AT_MOST) and age.ms <= max_lag * 1000


def _orphaned(status: SourceStatus) -> Trouble:
    queues = status.orphaned or ()
    shown = ", ".join(f"{queue.server}/{queue.queue_id}" for queue in queues[:SHOWN_ORPHANS])
    more = ", …" if len(queues) > SHOWN_ORPHANS else ""
    wals = sum(queue.sizeOfLogQueue for queue in queues)
    return Trouble(
        TroubleKind.ORPHANED,
        f"{count(len(queues), 'queue')} with {count(wals, 'WAL')} are of peers that do not exist, and nothing ships them: "
        f"{shown}{more}",
    )


def _full(old_wals: OldWalsStatus, days_left: float) -> Trouble | None:
    if old_wals.full_ms is None or old_wals.full_ms - old_wals.at_ms >= days_left * 86_400_000:
        return None
    left = duration(max(0, old_wals.full_ms - old_wals.at_ms) / 1000)
    keepers = ", ".join(keeper.peer_id for keeper in old_wals.keepers[:SHOWN_ORPHANS])
    return Trouble(
        TroubleKind.OLD_WALS,
        f"the disk under oldWALs is full in {left} if what queues keep there (of peers: {keepers}) grows on so",
    )
