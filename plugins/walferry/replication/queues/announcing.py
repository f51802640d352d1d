"""Decides when closed WALs that wait in peers' queues are announced, so that a run ships them.

The queue itself says what is still to be done, so nothing is stored: what was announced before a crash, and is still queued, is
announced again. What was announced is remembered for as long as the process lives:

    a peer with WALs that were not announced         is announced at once, if the last announcement has had an effect
    a peer whose announcement has had no effect yet  is announced again after a pause, which doubles each time
    a peer that a run holds                          is announced once the run has ended, if closed WALs are left by then

So the run that an announcement has begun, or will begin, takes all WALs that are closed before it looks, and a run that cannot
ship costs a few more runs an hour. An effect is that a group's oldest WAL has left the queue.

When servers are to roll, all peers are announced that no earlier announcement is for: that run rolls, and ships what it closes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

APART_SECONDS = 10.0  # between two announcements
AGAIN_SECONDS = 60.0  # before an announcement without effect is repeated
MAX_AGAIN_SECONDS = 600.0

Timestamps = Mapping[str, int]  # by WAL group, in milliseconds as in WAL names


@dataclass(frozen=True)
class WaitingWals:
    """The closed WALs in one peer's queues: how many, the newest of each live server's group, and the oldest of each group.

    Servers that have died have recoveries of their own, so their WALs are announced only after the first pause.
    """

    count: int = 0
    newest: Timestamps = field(default_factory=dict)
    oldest: Timestamps = field(default_factory=dict)

    def __or__(self, other: WaitingWals) -> WaitingWals:
        """Add the WALs of another queue. A group may lie in two queues while it is moved."""
        newest = {group: max(at, self.newest.get(group, at)) for group, at in other.newest.items()}
        oldest = {group: min(at, self.oldest.get(group, at)) for group, at in other.oldest.items()}
        return WaitingWals(self.count + other.count, {**self.newest, **newest}, {**self.oldest, **oldest})


@dataclass(frozen=True)
class _Announced:
    """What was announced of a peer, when it is due again (as `now`), and the pause until then."""

    newest: Timestamps
    oldest: Timestamps
    due: float
    pause: float = AGAIN_SECONDS
    moved: bool = True  # whether the announcement has had an effect; so nothing keeps the first one back

    def wants(self, wals: WaitingWals, now: float) -> bool:
        """Return whether the peer is to be announced."""
        unseen = any(at > self.newest.get(group, -1) for group, at in wals.newest.items())
        return (unseen and self.moved) or now >= self.due

    def announced(self, wals: WaitingWals, now: float) -> _Announced:
        """Return the state after an announcement."""
        pause = AGAIN_SECONDS if self.moved else min(2 * self.pause, MAX_AGAIN_SECONDS)
        return _Announced(wals.newest, wals.oldest, now + pause, pause, moved=False)


class Announcements:
    """What was announced so far. Times are in seconds, as time.monotonic counts them."""

    def __init__(self) -> None:
        self.ready = -math.inf  # the earliest time of another announcement
        self._peers: dict[str, _Announced] = {}
        self._waiting: frozenset[str] = frozenset()  # peers with closed WALs
        self._kept_back = False

    def look(
        self, now: float, waiting: Mapping[str, WaitingWals], held: Collection[str], *, roll: bool = False
    ) -> dict[str, int]:
        """Return the peers to announce now, each with the number of its closed WALs.

        `waiting` has all peers that may be shipped, and `held` are those that runs hold. With `roll` servers are to roll, and
        peers without closed WALs are announced, too.
        """
        known = {peer: state for peer, wals in waiting.items() if (state := self._known(peer, wals, now)) is not None}
        for peer in known.keys() & held:
            known[peer] = replace(known[peer], due=max(known[peer].due, now + AGAIN_SECONDS))
        wanted = [peer for peer in sorted(waiting.keys() - held) if self._wants(known.get(peer), waiting[peer], now, roll=roll)]
        self._kept_back = bool(wanted) and now < self.ready
        if wanted and not self._kept_back:
            fresh = _Announced({}, {}, now)
            known |= {peer: known.get(peer, fresh).announced(waiting[peer], now) for peer in wanted}
        if (wanted or roll) and not self._kept_back:
            self.ready = now + APART_SECONDS
        self._peers = known
        self._waiting = frozenset(peer for peer, wals in waiting.items() if wals.count)
        return {} if self._kept_back else {peer: waiting[peer].count for peer in wanted}

    def pause(self, now: float) -> float | None:
        """Return the seconds until the next look that is due even if nothing changes; None if nothing waits."""
        dues = [known.due for peer, known in self._peers.items() if peer in self._waiting]
        dues += [self.ready] if self._kept_back else []
        return max(0.0, min(dues) - now) if dues else None

    def _known(self, peer: str, wals: WaitingWals, now: float) -> _Announced | None:
        """Return what is known of a peer; None if nothing is."""
        before = self._peers.get(peer)
        if not wals.count:  # a roll that was announced for it may not have come yet
            return before if before is not None and not before.oldest and now < before.due else None
        if before is None:
            return _Announced({}, wals.oldest, now + AGAIN_SECONDS)
        moved = before.moved or any(wals.oldest.get(group) != at for group, at in before.oldest.items())
        return replace(before, moved=moved, oldest=before.oldest or wals.oldest)

    @staticmethod
    def _wants(known: _Announced | None, wals: WaitingWals, now: float, *, roll: bool) -> bool:
        if roll:
            return known is None or not wals.count or known.moved or now >= known.due
        return known is not None and wals.count > 0 and known.wants(wals, now)
