"""Sets the position of a queued WAL for an operator: to the start of an entry, or to 0.

Positions normally move as entries are acknowledged. HBase has written wrong ones, beyond the end of a file or within an entry
(HBASE-29987): then nothing of the WAL's group is shipped. Moving a position back ships entries again, which is harmless. Moving a
position ahead leaves entries out for good, so the operator has to ask for it. A wrong position does not show what is shipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from walferry.base.errors import WalferryError
from walferry.base.zk.errors import Contention
from walferry.hbase.files.closedness import await_closed
from walferry.hbase.names import parse_wal_name
from walferry.hbase.wal.reader import read_wal_batches
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.queue import QueuedWal
from walferry.replication.source.session import Session
from walferry.shipping.candidates import Candidate, find_candidate


class PositionRefused(WalferryError):
    """No entry of the WAL begins at the position, or it would leave out entries that no one has agreed to lose."""

    retry_helps = False


@dataclass(frozen=True)
class PositionChange:
    """A position to be set, and the effect. `before` is None if the position cannot be read."""

    queued: QueuedWal
    url: str
    size: int
    before: int | None
    to: int
    entries: int  # in the whole file
    again: int  # entries shipped again; all from `to` on if `before` is not a position of this file
    left_out: int  # entries that are never shipped, unless they already were


def look(session: Session, peer_id: str, wal: str, to: int) -> PositionChange:
    """Return the effect of setting the WAL's position to `to`; change nothing.

    Raises WalGone, LastWal, PositionRefused, WalError, WalNotClosed, StoreError, and ValueError if `wal` is not a WAL's name.
    """
    candidate = _candidate(session, peer_id, wal)
    location = await_closed(session.store, candidate.queued.name, candidate.dead_servers)
    found = candidate.queued.position_or_problem
    before = found if isinstance(found, int) else None
    entries, after, between, below, above, tells = 0, 0, 0, 0, 0, before == 0
    if location.size:
        with session.store.open(location) as file:
            for batch in read_wal_batches(file, location.url, 0, partial_tail="stop", unwrap_key=session.source.keys()):
                starts, ends = batch.positions, batch.next_positions
                entries += len(starts)
                after += int((starts >= to).sum())
                between += int(((starts >= min(to, before or 0)) & (starts < max(to, before or 0))).sum())
                tells |= bool((starts == before).any() or (ends == before).any())
                below = int(starts[starts <= to].max(initial=below))
                above = above or int(starts[starts > to].min(initial=location.size)) * bool((starts > to).any())
    if to not in (0, below):
        other = f", the next one at byte {above}" if above else ", the last one"
        raise PositionRefused(
            f"no entry of {location.url} begins at byte {to}: one begins at byte {below}{other}",
            "Take the start of an entry, or 0 for the whole file. `walferry wal show` prints where entries begin",
        )
    if not tells or before is None:
        again, left_out = after, entries - after
    else:
        again, left_out = (between, 0) if to < before else (0, between)
    return PositionChange(candidate.queued, location.url, location.size, before, to, entries, again, left_out)


def set_position(session: Session, peer_id: str, wal: str, to: int, holder: str, *, leave_out: bool = False) -> PositionChange:
    """Set the WAL's position, under the lease of the WAL's group.

    Raises the errors of `look`, LeaseHeld, LeaseLost, EnabledPeer, Contention; PositionRefused for entries left out unasked.
    """
    with acquire(session, peer_id, parse_wal_name(wal).group, holder) as lease:
        change = look(session, peer_id, wal, to)
        if change.left_out and not leave_out:
            raise PositionRefused(
                f"{change.left_out:,} entries of {change.url} before byte {to} are not known to be shipped and would be left out",
                "Take an earlier position. If the peer cluster is to go without them, say --leave-out",
            )
        if not lease.set_position(change.queued, to):
            raise Contention(f"WAL {wal} of peer {peer_id} was moved or changed while its position was being set; try again")
    return change


def _candidate(session: Session, peer_id: str, wal: str) -> Candidate:
    """Return the WAL as it is queued, with its position."""
    candidate, group = find_candidate(session, peer_id, wal)
    if session.nodes.in_table and candidate is not (oldest := group.wals[0]):
        raise PositionRefused(
            f"{wal} is not the oldest queued WAL of its group, which is {oldest.queued.name}: HBase 3 keeps one offset a group, "
            "and all WALs before it count as shipped",
            "Set the position of the oldest one",
        )
    return candidate
