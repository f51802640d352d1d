"""Implements a right with one holder at a time. Only the holder can write under it.

    <path>                   persistent, each acquisition raises its version; {"holder", "since", …} as JSON
    <path>/holder-<token>    ephemeral of the holder's session; each acquisition has a token of its own
    <path>/held              ephemeral too; all holders use this name, so there are never two

A holder acquires the right with one multi, which sets the path at the version that was read without a holder, and creates both
ephemerals. Each write is also one multi, and begins with checks: the path still has the holder's version, the holder's znode
exists, and everything else that the write depends on is unchanged. So a holder that has lost its session or its right cannot
change anything, whatever it believes, even if the path was deleted meanwhile and counts from 0 again. And a client that read the
path before the deletion cannot displace the later holder.

The holder may delete the path, and any client may while the path has no children.

Some holders send requests to another cluster, and nothing fences these requests. The record of such a holder says in "calls" for
how many seconds they may take effect after the holder's end (right.py). A holder that gives the right up writes the rest of that
time, and "ended". Then the seconds count from the time of that write. Otherwise the holder's end is unknown, and they count from
the next acquisition.
"""

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import AuthFailedError, ConnectionClosedError, SessionExpiredError
from kazoo.protocol.states import KazooState

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.base.zk.client import (
    NOT_AS_READ,
    OUTCOME_UNKNOWN,
    Refusal,
    ZNode,
    children,
    commit,
    read,
    refusal_of,
    refusal_of_login,
    retried,
    unanswered,
)
from walferry.base.zk.errors import ConnectError, Contention
from walferry.base.zk.records import decode_or_none, encode
from walferry.base.zk.right import NEVER, has_heard, spare_seconds
from walferry.base.zk.session_time import now

ACQUIRE_TRIES = 50  # a try fails if another client acquires and releases in between
PATIENCE_SECONDS = 60.0  # the wait for an ensemble that does not answer
RETRY_SECONDS = 0.1
PIPELINED_WRITES = 256
HELD = "held"
MAX_TEXT_CHARS = 1000  # of each text of a record
OWN_CHECKS = 2  # checks at the head of each write, before the guards
CALLS, ENDED, TOKEN = "calls", "ended", "token"
MAX_CALLS_SECONDS = 86_400.0

Record = Mapping[str, str]
Operations = Callable[[TransactionRequest], None]  # adds the operations of a write to its multi


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Guard:
    """A znode that a write depends on: it must have this version, or only exist if `version` is -1."""

    path: str
    version: int
    broken: Callable[[], WalferryError]  # makes the error if the check fails
    renew: Callable[[], None] = _nothing  # brings the znode up to date before each write, if it stands for something elsewhere


@dataclass(frozen=True)
class WriteOutcome:
    """The result of a write whose checks all passed."""

    refusal: Refusal | None  # None: done. Otherwise `operation` counts from the first one after the checks
    maybe_before: bool  # an earlier try of this write may have been carried out


class FencedLock:
    """One holder's right to write, until it is released or lost. A lost right stays lost, even if the client gets a new session.

    `lost` is set as soon as this client knows that its session has ended; the checks in each write do not depend on it.
    `held_error(holder, since)` and `lost_error(reason)` make the errors, which name the right.
    """

    def __init__(
        self,
        zk: KazooClient,
        path: str,
        held_error: Callable[[str, str], WalferryError],
        lost_error: Callable[[str], WalferryError],
    ) -> None:
        self.lost = threading.Event()
        self.path = path
        self._zk = zk
        self._held_error = held_error
        self._lost_error = lost_error
        self._version = -1
        self._znode = ""  # of this acquisition
        self._guards: tuple[Guard, ...] = ()
        self._why_lost = "the ZooKeeper session ended"
        self._record: Record = {}
        self._before = ZNode(b"", None)
        self.quiet_at = NEVER  # the moment of `heard.now` from which no request of an earlier holder takes effect

    def acquire(self, holder: str, run: str | None = None, **details: str) -> Record:
        """Become the holder. Returns the last holder's record, which is empty if there was none.

        A holder with the same `run` is a killed attempt of that run, and is displaced at once; without `run` no holder is
        displaced. `details` go into the record, with the holder. Raises `held_error`, ConnectError.
        """
        self._zk.add_listener(self._on_state)
        try:
            before = self._acquire({"holder": holder, **({"run": run} if run else {}), **details}, run)
            clock = read(self._zk, self.path) if ENDED in before else None
            self.quiet_at = now() + calls_left(self._before, clock)
        except BaseException:
            self._zk.remove_listener(self._on_state)
            raise
        if self.lost.is_set():  # a session ended meanwhile, perhaps the one that acquired the right
            self.release()
            raise self._lost("the ZooKeeper session ended")
        return before

    @property
    def turn(self) -> int:
        """The number of this acquisition at the path, counted from 1."""
        return self._version

    @property
    def token(self) -> str:
        """A name of this acquisition, which its record also contains."""
        return self._znode.rpartition("-")[2]

    def is_sure(self) -> bool:
        """Return whether this client surely has the right now. Raises `lost_error` if it has surely lost the right."""
        heard = has_heard(self._zk)  # first: a later answer may belong to a new session
        self.check()
        return heard

    def depend_on(self, guard: Guard) -> None:
        """Make each later write of this holder depend on one more znode."""
        self._guards += (guard,)

    def check(self) -> None:
        """Raise `lost_error` if this client already knows that it has lost the right."""
        if self.lost.is_set():
            raise self._lost()

    def write(self, operations: Operations, guards: Sequence[Guard] = ()) -> WriteOutcome:
        """Write in one multi, after the checks. It is repeated while its outcome is unknown, so the operations must allow that.

        Raises `lost_error`, the error of a broken guard or of its `renew`, ConnectError.
        """
        (outcome,) = self.write_all([operations], guards)
        return outcome

    def write_all(self, writes: Sequence[Operations], guards: Sequence[Guard] = ()) -> list[WriteOutcome]:
        """Make writes that do not depend on each other, each as `write` does, many of them under way at a time.

        Raises the errors of `write` at the first write that fails; the others may have been carried out.
        """
        outcomes: list[WriteOutcome] = []
        for start in range(0, len(writes), PIPELINED_WRITES):
            outcomes += self._pipelined(writes[start : start + PIPELINED_WRITES], (*self._guards, *guards))
        return outcomes

    def note(self, **details: str) -> None:
        """Change details of the record. No other write of this holder may be under way. Raises `lost_error`, ConnectError."""
        self.check()
        record = {**self._record, **details}
        value = encode(record)

        def send() -> Refusal | None:
            multi = self._zk.transaction()
            multi.check(self._znode, -1)
            multi.set_data(self.path, value, self._version)
            return commit(multi)

        try:
            refusal = retried(self._zk, send)
        except SessionExpiredError:
            raise self._lost() from None
        if refusal is not None:
            znode = read(self._zk, self.path)
            if refusal.operation == 0 or znode is None or (znode.value, znode.stat.version) != (value, self._version + 1):
                raise self._refused(1 - min(refusal.operation, 1))
        self._record = record  # written now, or by an earlier try whose answer was lost
        self._version += 1

    def _pipelined(self, writes: Sequence[Operations], guards: Sequence[Guard]) -> list[WriteOutcome]:
        outcomes: dict[int, WriteOutcome] = {}
        maybe_before: set[int] = set()
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not self.lost.is_set():
            for guard in guards:
                guard.renew()
            sent = {i: self._send(writes[i], guards) for i in range(len(writes)) if i not in outcomes}
            unknown: Exception | None = None
            for i, answer in sent.items():
                if unknown is not None and not answer.ready():  # the connection is lost, or the ensemble silent
                    maybe_before.add(i)
                    continue
                try:
                    refusal = refusal_of(answer.get())
                except (SessionExpiredError, ConnectionClosedError, AuthFailedError):
                    raise self._lost() from None
                except OUTCOME_UNKNOWN as error:
                    unknown = error
                    maybe_before.add(i)
                    continue
                outcomes[i] = self._outcome(refusal, guards, i in maybe_before)
            if unknown is None:
                return [outcomes[i] for i in range(len(writes))]
            if time.monotonic() > give_up:
                raise unanswered(self._zk, f"has not answered for {PATIENCE_SECONDS:g} s") from unknown
            self.lost.wait(RETRY_SECONDS)
        raise self._lost()

    def _send(self, operations: Operations, guards: Sequence[Guard]) -> Any:
        multi = self._zk.transaction()
        multi.check(self.path, self._version)
        multi.check(self._znode, -1)
        for guard in guards:
            multi.check(guard.path, guard.version)
        operations(multi)
        return multi.commit_async()

    def _outcome(self, refusal: Refusal | None, guards: Sequence[Guard], maybe_before: bool) -> WriteOutcome:
        if refusal is None:
            return WriteOutcome(None, maybe_before)
        if refusal.operation < OWN_CHECKS:
            raise self._refused(refusal.operation)
        checks = OWN_CHECKS + len(guards)
        if refusal.operation < checks:
            raise guards[refusal.operation - OWN_CHECKS].broken()
        return WriteOutcome(Refusal(refusal.operation - checks, refusal.error), maybe_before)

    def release(self, *, forget: bool = False, calls_seconds: float = 0.0) -> None:
        """Give up the right, so that the next holder need not wait for the session's end. Harmless if the right is already lost.

        With `forget` this also deletes the path and its record, for a right to something that is gone for good. The record of a
        holder that sends requests stays while these may take effect: for `calls_seconds` more.
        """
        self._zk.remove_listener(self._on_state)
        calls_seconds = max(calls_seconds, self.quiet_at - now(), 0.0)
        left = encode({**self._record, CALLS: f"{calls_seconds:.1f}", ENDED: "yes"})

        def give_up() -> None:
            for with_path in (True, False) if forget and not calls_seconds else (False,):
                multi = self._zk.transaction()
                multi.check(self.path, self._version)
                multi.delete(self._znode)
                multi.delete(f"{self.path}/{HELD}")
                if with_path:
                    multi.delete(self.path)
                elif CALLS in self._record:
                    multi.set_data(self.path, left, self._version)
                if commit(multi) is None:
                    return
            # refused: an earlier try was carried out, or another client already has the right

        try:
            retried(self._zk, give_up)
        except (ConnectError, SessionExpiredError):
            pass  # the right ends with the session
        finally:
            self._lost("it was released")

    def _on_state(self, state: str) -> None:
        if state == KazooState.LOST:
            if (why := refusal_of_login(self._zk)) is not None:
                self._why_lost = f"{self._why_lost}, because there is {why}"
            self.lost.set()

    def _lost(self, why: str | None = None) -> WalferryError:
        self._why_lost = why or self._why_lost
        self.lost.set()
        return self._lost_error(self._why_lost)

    def _refused(self, check: int) -> WalferryError:
        if check == 0:
            record = read_record(self._zk, self.path)
            if not record:
                return self._lost("it has no holder any more, because what it was for is finished")
            return self._lost("{} has it since {}".format(*_who_and_since(record)))
        return self._lost("its holder znode is gone, so the session that made it has ended")

    def _acquire(self, record: Record, run: str | None) -> Record:
        zk, path = self._zk, self.path
        self._znode = f"{path}/holder-{uuid.uuid4().hex}"
        since = datetime.now(UTC).isoformat(timespec="seconds")
        maybe_ours: Record | None = None  # the record that our request has overwritten, if the request was carried out
        for _ in range(ACQUIRE_TRIES):
            retried(zk, zk.ensure_path, path)
            if maybe_ours is not None:
                retried(zk, zk.sync, path)
            # In this order: an acquisition after the first read changes the version, whatever the second read finds.
            znode, holders = read(zk, path), children(zk, path)
            if znode is None or holders is None:
                continue  # the last holder has just released and deleted the path
            if maybe_ours is not None and self._znode in (f"{path}/{holder}" for holder in holders) and self._is_ours():
                return maybe_ours
            self._before = znode
            before, version = record_of(znode.value), int(znode.stat.version)
            if holders and (run is None or before.get("run") != run):
                raise self._held_error(*_who_and_since(before))
            multi = zk.transaction()
            for holder in holders:
                multi.delete(f"{path}/{holder}")
            multi.create(self._znode, ephemeral=True)
            multi.create(f"{path}/{HELD}", ephemeral=True)
            self._record = {**record, "since": since, **_calls_of_both(record, before), TOKEN: self.token}
            multi.set_data(path, encode(self._record), version)
            try:
                refusal = commit(multi)
            except (*OUTCOME_UNKNOWN, SessionExpiredError):
                maybe_ours = before
                continue
            if refusal is None:
                self._version = version + 1
                return before
            if not isinstance(refusal.error, NOT_AS_READ):
                raise refusal.error
        raise Contention(f"{path} changed {ACQUIRE_TRIES} times while it was being acquired; try again later")

    def _is_ours(self) -> bool:
        """Return whether a request with unknown outcome was carried out in the present session."""
        ours = read(self._zk, self._znode)
        if ours is None or not self._zk.client_id or ours.stat.ephemeralOwner != self._zk.client_id[0]:
            return False
        znode = read(self._zk, self.path)  # read second: the same multi has set its version
        self._version = int(znode.stat.version) if znode else -1
        return znode is not None


def is_held(zk: KazooClient, path: str) -> bool:
    """Return whether the right at `path` has a holder now."""
    return bool(children(zk, path))


def read_record(zk: KazooClient, path: str) -> Record:
    """Read the last holder's record at a fenced lock's path; empty if there was no holder."""
    znode = read(zk, path)
    return record_of(znode.value) if znode else {}


def record_of(value: bytes) -> Record:
    """Return the record in the value of a fenced lock's path; empty if it makes no sense."""
    known = decode_or_none(dict[str, Any], value) or {}
    return {one_line(name, MAX_TEXT_CHARS): one_line(str(text), MAX_TEXT_CHARS) for name, text in known.items()}


def calls_left(left: ZNode, clock: ZNode | None) -> float:
    """Return for how many more seconds requests of a fenced lock's last holder may take effect; `left` is the znode that the
    holder left at the path.

    `clock` is any znode that was just written; without it, the holder counts as having ended just now.
    """
    record = record_of(left.value)
    seconds = _calls_seconds(record)
    if not seconds or ENDED not in record:
        return seconds and seconds + spare_seconds(seconds)
    passed = 0.0 if clock is None else (clock.stat.mtime - left.stat.mtime) / 1000
    return max(0.0, seconds - max(0.0, passed))  # the clock of a new leader of the ensemble may be behind


def _calls_seconds(record: Record) -> float:
    try:
        seconds = float(record.get(CALLS, "0"))
    except ValueError:
        return 0.0
    return min(seconds, MAX_CALLS_SECONDS) if seconds > 0 else 0.0  # NaN is not


def _calls_of_both(record: Record, before: Record) -> Record:
    """Return a new holder's record of requests: its own and the previous holder's, in case it is killed meanwhile."""
    return {CALLS: f"{max(_calls_seconds(record), _calls_seconds(before)):.1f}"} if CALLS in record else {}


def _who_and_since(record: Record) -> tuple[str, str]:
    return record.get("holder", "an unknown holder"), record.get("since", "an unknown time")
