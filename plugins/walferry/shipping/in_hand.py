"""The right to ship a peer, which one run at a time has.

    <root>/in-hand/<quoted znode parent>/<quoted peer>      a hold (zk/hold.py); each turn raises its version

Batches overlap, so that a slow peer does not delay the others. A run that finds a peer in another run's hands leaves it to that
run. The right only keeps runs out of each other's way; the lease on each WAL group keeps the edits safe. A repair has no lease,
and sends by this right alone (zk/right.py).
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from walferry.errors import WalferryError
from walferry.source.cluster import SourceCluster
from walferry.source.session import Session, open_session
from walferry.zk.client import children, read
from walferry.zk.errors import ConnectError, Contention
from walferry.zk.heard import now
from walferry.zk.hold import CALLS, Hold, Record, read_record, record_of

NO_TURN = -1  # no run has ever had the peer in hand
LOOK_SECONDS = 1.0
JOIN_SECONDS = 5.0

log = logging.getLogger(__name__)


class InOtherHands(WalferryError):
    """Another run ships the peer, or has shipped it since this run looked at its queues; `holder` names that run."""

    def __init__(self, peer_id: str, holder: str, since: str, *, now: bool = True) -> None:
        has = "has had it in hand since" if now else "has shipped it since this plan was made, beginning at"
        super().__init__(f"peer {peer_id} is left to {holder}, which {has} {since}")
        self.holder = holder


class RightLost(WalferryError):
    """This run no longer has the peer in hand."""


@dataclass(frozen=True)
class Turn:
    """The state of a peer's right: a number that grows with each turn, which other run has the peer in hand now, and the record
    that the last holder has left.
    """

    number: int
    other: InOtherHands | None
    last: Record = field(default_factory=dict)


def turn_of(session: Session, peer_id: str, run: str) -> Turn:
    """Look at the right without taking it; a session that a killed task of `run` has left does not count as another run."""
    path = session.own.in_hand(peer_id)
    znode = read(session.zk, path)
    if znode is None:
        return Turn(NO_TURN, None)
    held = bool(children(session.zk, path))
    record = read_record(session.zk, path)
    other = InOtherHands(peer_id, *_who_and_since(record)) if held and record.get("run") != run else None
    return Turn(int(znode.stat.version), other, record)


def turn_of_attempt(session: Session, peer_id: str, attempt: str) -> int | None:
    """The number of the peer's last turn if this attempt took it (see `in_hand`); None if another one did."""
    znode = read(session.zk, session.own.in_hand(peer_id))
    if znode is None or record_of(znode.value).get("attempt") != attempt:
        return None
    return int(znode.stat.version)


@dataclass(frozen=True)
class InHand:
    """A peer in the hands of an attempt of a run, by whose name other processes can tell whose turn it is.

    For who sends by this right itself: `allow` notes for how long requests may take effect if the attempt is killed. Raises
    RightLost, ConnectError.
    """

    attempt: str
    allow: Callable[[float], None]


@contextmanager
def in_hand(
    source: SourceCluster, peer_id: str, run: str, holder: str, planned: int, calls_seconds: float = 0.0
) -> Iterator[InHand]:
    """Have the peer in hand while the block runs; `planned` is the number of the turn that its plan has seen.

    `calls_seconds` is for who sends by this right itself: see `InHand`. If such a holder was killed, this waits first until its
    requests can take effect no more.

    A session that a killed task of the same run has left is ended. If our own session ends in the meantime, the right is taken
    again as soon as ZooKeeper answers, unless another run was faster. Raises InOtherHands, ConnectError.
    """
    with open_session(source) as session:
        right = _Right(session, peer_id, run, holder, calls_seconds)
        right.take(planned)
        try:
            yield InHand(right.attempt, right.allow)
        finally:
            right.give_up()


@contextmanager
def in_hand_after_others(
    source: SourceCluster, peer_id: str, run: str, holder: str, *, wait_seconds: float, waiting: Callable[[str], None],
    calls_seconds: float = 0.0,
) -> Iterator[InHand]:  # fmt: skip
    """Have the peer in hand as by `in_hand`, and wait before that for the run that has it now; `waiting` is told why.

    Raises InOtherHands after `wait_seconds`, ConnectError.
    """
    give_up = time.monotonic() + wait_seconds
    told = ""
    with ExitStack() as stack:
        while True:
            with open_session(source, look_only=True) as session:
                planned = turn_of(session, peer_id, run).number
            try:
                ours = stack.enter_context(in_hand(source, peer_id, run, holder, planned, calls_seconds))
                break
            except InOtherHands as error:
                if time.monotonic() > give_up:
                    raise
                if str(error) != told:
                    told = str(error)
                    waiting(told)
            time.sleep(LOOK_SECONDS)
        yield ours


def hold_of(session: Session, peer_id: str) -> Hold:
    """The hold that the right is, not acquired."""
    return Hold(
        session.zk,
        session.own.in_hand(peer_id),
        lambda holder, since: InOtherHands(peer_id, holder, since),
        lambda why: RightLost(f"this run no longer has peer {peer_id} in hand: {why}"),
    )


class _Right:
    def __init__(self, session: Session, peer_id: str, run: str, holder: str, calls_seconds: float = 0.0) -> None:
        self._session = session
        self._calls = _calls(calls_seconds)
        self._peer_id = peer_id
        self._run = run
        self._holder = holder
        self.attempt = uuid.uuid4().hex
        self._hold = hold_of(self._session, self._peer_id)
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"right to ship peer {peer_id}", daemon=True)

    def take(self, planned: int) -> None:
        # A run that was overtaken must not take a turn: it would overtake others, which would ship nothing either.
        seen = turn_of(self._session, self._peer_id, self._run)
        if seen.other is None and seen.number != planned and seen.last.get("run", self._run) != self._run:
            raise InOtherHands(self._peer_id, *_who_and_since(seen.last), now=False)
        before = self._acquire(self._hold)
        if before and before.get("run") != self._run and self._hold.turn - 1 != planned:
            self._hold.release()
            raise InOtherHands(self._peer_id, *_who_and_since(before), now=False)
        self._keeper.start()
        if (pause := self._hold.quiet_at - now()) > 0:
            log.info("waiting %.0f s: requests of %s may still take effect at the slave", pause, _who_and_since(before)[0])
            time.sleep(pause)
            self._hold.note(**self._calls)  # without those of the holder before

    def allow(self, seconds: float) -> None:
        """Note that requests may take effect for so long if this process is killed."""
        self._calls = _calls(seconds)
        self._hold.note(**self._calls)

    def give_up(self) -> None:
        self._ended.set()
        self._keeper.join(JOIN_SECONDS)
        self._hold.release()

    def _acquire(self, hold: Hold) -> Record:
        return hold.acquire(self._holder, self._run, attempt=self.attempt, **self._calls)

    def _keep(self) -> None:
        """Take the right anew whenever our session has ended."""
        while not self._ended.wait(LOOK_SECONDS):
            if not self._hold.lost.is_set():
                continue
            hold = hold_of(self._session, self._peer_id)
            try:
                self._acquire(hold)
            except InOtherHands as error:
                log.warning("the ZooKeeper session ended, and another run was faster: %s", error)
                return
            except (ConnectError, Contention, RightLost) as error:
                log.info("the right to ship peer %s is not taken anew yet: %s", self._peer_id, error)
                continue
            self._hold = hold


def _calls(seconds: float) -> Record:
    return {CALLS: f"{seconds:.1f}"}


def _who_and_since(record: Record) -> tuple[str, str]:
    return record.get("holder", "another run"), record.get("since", "an unknown time")
