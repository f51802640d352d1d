"""A peer's condition in one word, as a badge, and the order of peers, the worst one first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from walferry.observe.status.ages import Age
from walferry.observe.status.findings import StatusKind, of_peer
from walferry.observe.status.model import GroupStatus, PeerStatus

ERROR, WARNING, INFO, SUCCESS, NEUTRAL = "error", "warning", "info", "success", "neutral"
_LEVELS = (ERROR, WARNING, INFO, NEUTRAL, SUCCESS)  # the worst one first


@dataclass(frozen=True)
class Badge:
    """A word on a coloured ground. The word alone is enough to understand it."""

    word: str
    level: str


def condition(peer: PeerStatus) -> Badge:
    """Return a peer's condition in a word."""
    checks = (
        (peer.stuck is not None, Badge("Stuck", ERROR)),
        (peer.refusal is not None, Badge("Refused", ERROR)),
        (peer.failing_since_ms is not None, Badge("Failing", ERROR)),
        (peer.state is None, Badge("Unreadable", ERROR)),
        (peer.peer_cluster.reachable is False, Badge("Peer cluster down", ERROR)),
        (any(finding.kind == StatusKind.BEHIND for finding in of_peer(peer)), Badge("Behind", ERROR)),
        (peer.peer_lock is not None, Badge("Shipping", INFO)),
        (peer.replicationLag.ms is None, Badge("Lag unknown", WARNING)),
        (peer.replicationLag.nothing_waits, Badge("Up to date", SUCCESS)),
    )
    return next((badge for applies, badge in checks if applies), Badge("Waiting", NEUTRAL))


def badge_of_group(group: GroupStatus) -> Badge:
    """Return a WAL group's condition in a word."""
    if group.failing_since_ms is not None:
        return Badge("Failing", ERROR)
    if group.oldest.problem is not None:
        return Badge("Position unreadable", ERROR)
    if group.holder is not None:
        return Badge("Shipping", INFO)
    if group.replicationLag.ms is None:
        return Badge("Lag unknown", WARNING)
    return Badge("Up to date", SUCCESS) if group.replicationLag.nothing_waits else Badge("Waiting", NEUTRAL)


def worst_first(peer: PeerStatus) -> tuple[Any, ...]:
    """Return the key by which peers are sorted."""
    return _LEVELS.index(condition(peer).level), *longest_first(peer.replicationLag), peer.id


def longest_first(age: Age) -> tuple[int, int]:
    """Return the key by which ages are sorted: unknown ones first, then the longest."""
    return (0, 0) if age.ms is None else (1, -age.ms)
