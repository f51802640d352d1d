"""Begins an initial snapshot, to a peer cluster or into a lake: who may copy, from when on, and which snapshots there are."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

from walferry.base.jobs import Tell
from walferry.base.zk.client import children
from walferry.base.zk.right import NEVER
from walferry.base.zk.session_time import now
from walferry.hbase.cluster import live_servers
from walferry.hbase.cluster import master as active_master
from walferry.hbase.names import without_default_namespace
from walferry.hbase.rpc import master
from walferry.initial_snapshot.lives import lives
from walferry.initial_snapshot.snapshots import TakeSnapshot
from walferry.load.copied_tables import ChosenTable, choose
from walferry.load.copy_border import find_border
from walferry.load.copy_records import CopyState, Records, TableRecord
from walferry.load.errors import CopyRefused, NotQueued
from walferry.load.fence import Claim
from walferry.replication.filters.rules import PeerTables
from walferry.replication.locks.peer_lock import holding_peer_after_others
from walferry.replication.peers.reading import Peer
from walferry.replication.queues.errors import LeaseHeld
from walferry.replication.queues.lease import acquire, await_settled
from walferry.replication.source.agreement import check_peer, check_queues_complete
from walferry.replication.source.peer_state import disabled_guard
from walferry.replication.source.peers import successor
from walferry.replication.source.session import Session

WAIT_SECONDS = 3600.0  # for a batch that holds the peer lock; a batch's deadline is 1800 s by default
LOOK_SECONDS = 1.0  # between two looks at leases that are held
WORTH_REPORTING_SECONDS = 1.0  # shorter waits are not reported
BEGIN_TRIES = 3  # if a table becomes another one between the roll and its snapshot

NoteEnd = Callable[[Mapping[str, str]], tuple[str, Collection[str]]]
"""Gets the snapshots that were taken, by table. Returns a name for their end, and the tables whose snapshots do not count."""

Known = Callable[[Sequence[ChosenTable], Mapping[str, str]], dict[str, TableRecord]]
"""Gets tables and the tables' present lives. Returns the records of those tables whose copies go on."""


@dataclass(frozen=True)
class Copied:
    """The state at the end, and the reasons why some regions were not copied."""

    state: CopyState
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class BegunTable:
    """A table whose snapshot is taken. `fresh`: nothing of it is copied yet, or nothing that counts.

    `end` is what the caller noted once the snapshot was taken.
    """

    table: ChosenTable
    snapshot: str
    record: TableRecord
    fresh: bool
    end: str = ""


def ended_before(session: Session, peer_id: str, run_id: str) -> Copied | None:
    """Return what this run has copied, if it has ended before. Raises MissingPeer, ConnectError."""
    state = Records(session, peer_id).state()
    return Copied(state) if state is not None and state.complete and state.run == run_id else None


@contextmanager
def copying(session: Session, peer_id: str, run_id: str, say: Tell) -> Iterator[tuple[Peer, Claim]]:
    """Hold the peer lock for a copy, after other runs. Yield the peer and the right to write the copy's records.

    Raises PeerLocked, CopyRefused, EnabledPeer, WalferryError.
    """
    holder = f"run {run_id}, an initial snapshot, on {socket.gethostname()}"
    ours = holding_peer_after_others(
        session.source, peer_id, run_id, holder, wait_seconds=WAIT_SECONDS,
        waiting=lambda why: say(f"waiting until the other run ends: {why}"),
    )  # fmt: skip
    with ours as attempt:
        guard = disabled_guard(session, peer_id)
        await_settled(session, peer_id, guard, session.own.peer_lock(peer_id))
        peer = peer_to_copy(session, peer_id)  # again: the peer may have changed while this run waited for others
        yield peer, Claim(session, peer_id, attempt, guard.version)


def peer_to_copy(session: Session, peer_id: str) -> Peer:
    """Return the peer, if it may be shipped and is not being handed back to HBase. Raises CopyRefused, check_peer's errors."""
    peer = check_peer(session, peer_id)
    new = successor(session, peer)
    if new is not None:
        raise CopyRefused(
            f"peer {peer_id} is being handed back to {new.id}, whose queues have edits of before a copy that begins now: HBase "
            "would ship them on top of it",
            f"Remove {new.id} in HBase's shell, copy, and then hand back again",
        )
    return peer


def await_quiet(session: Session, peer_id: str, holder: str, waiting: Callable[[str], object], wait_seconds: float) -> None:
    """Wait until no lease on the peer's groups is held, and until their last holders' requests cannot take effect any more.

    Recoveries of dead servers ship side by side with batches, without holding the peer lock, and tasks of a batch may outlive its
    driver. If they shipped older edits after the copy, these would lie over it. A task that ships a group holds the group's
    lease, and then checks whether a copy is under way (shipping/group.py). So a copy first notes that it is under way. Then it
    waits for each lease that is held, and for requests that may still take effect.

    `waiting` gets the reason for the wait. Raises LeaseHeld after `wait_seconds`, EnabledPeer, MissingPeer, ConnectError.
    """
    give_up, quiet_at, reported = time.monotonic() + wait_seconds, NEVER, ""
    left = [unquote(name) for name in children(session.zk, session.own.leases(peer_id)) or ()]
    while left:
        held = []
        for group in left:
            try:
                with acquire(session, peer_id, group, holder) as lease:
                    quiet_at = max(quiet_at, now() + lease.right.quiet_seconds)
            except LeaseHeld as error:
                held.append((group, error))
        if held and time.monotonic() > give_up:
            raise held[0][1]
        if held and (why := str(held[0][1])) != reported:
            reported = why
            waiting(reported)
        left = [group for group, _ in held]
        time.sleep(LOOK_SECONDS if held else 0)
    if (seconds := quiet_at - now()) > 0:
        if seconds >= WORTH_REPORTING_SECONDS:
            waiting(f"requests of an earlier run that had no answer may take effect for {seconds:.0f} s more")
        time.sleep(seconds)


def check_queued(session: Session, peer_id: str) -> None:
    """Check that every live RegionServer has a queue for the peer: all later edits are then in the queues. Raises NotQueued.

    In HBase 3 it has one once the peer is added. Raises ChangingPeer.
    """
    if session.nodes.in_table:
        check_queues_complete(session, peer_id)
        return
    without = [
        str(server)
        for server in sorted(live_servers(session.zk, session.nodes))
        if children(session.zk, session.nodes.queue(str(server), peer_id)) is None
    ]
    if without:
        raise NotQueued(
            f"peer {peer_id} has no queue at {', '.join(without)}, so the copy could lack what is written there now",
            "A server makes its queue when it begins its first WAL: try again in a moment",
        )


def choose_tables(session: Session, peer: Peer, asked: Sequence[str]) -> list[ChosenTable]:
    """Choose the tables `asked`, or all that the peer replicates. Raises CopyRefused, RpcError, ConnectError."""
    names = tuple(map(without_default_namespace, asked))
    with master.connect(active_master(session.zk, session.nodes), login=session.source.login) as source:
        schemas = master.table_schemas(source, names or None)
    return choose(schemas, PeerTables.of_peer(peer), names)


def begin_tables(
    session: Session, peer_id: str, run_id: str, records: Records, chosen: Sequence[ChosenTable], take: TakeSnapshot,
    known: Known, note_end: NoteEnd = lambda _: ("", ()),
) -> list[BegunTable]:  # fmt: skip
    """Take a snapshot of each table; tables whose copy begins now get a border first. Sorted by name.

    `note_end` is called once snapshots are taken, and before it is known that their tables are still the same ones. Raises
    CopyRefused, NotRolled, the errors of `known` and `note_end`, WalferryError.
    """
    left, begun, names = list(chosen), list[BegunTable](), [table.name for table in chosen]
    for _ in range(BEGIN_TRIES):
        before = lives(session, names)
        going_on = known(left, before)
        border = ""
        if len(going_on) < len(left):
            border = records.add_border(find_border(session, peer_id, run_id))
        snapshots = {table.name: take(table.name) for table in left}
        end, changed = note_end(snapshots)
        after = lives(session, names)
        for table in left:
            if (life := before.get(table.name)) == after.get(table.name) and life is not None and table.name not in changed:
                fresh, record = table.name not in going_on, going_on.get(table.name) or TableRecord(life, border)
                begun.append(BegunTable(table, snapshots[table.name], record, fresh, end))
        taken = {each.table.name for each in begun}
        left = [table for table in left if table.name not in taken]
        if not left:
            return sorted(begun, key=lambda each: each.table.name)
    if left[0].name in changed:
        raise CopyRefused(
            f"regions of table {left[0].name} were split or merged while its snapshot was taken, {BEGIN_TRIES} times", "Run again"
        )
    raise CopyRefused(
        f"table {left[0].name} was disabled or dropped at the source while its snapshot was taken, {BEGIN_TRIES} times",
        "Run again once it stays enabled",
    )
