"""One holder of a right at a time, and no write by anybody else.

    <path>                   persistent, its version counts the acquisitions; {"holder", "since", …} as JSON
    <path>/holder-<token>    ephemeral of the holder's session, named by a token of this acquisition's own
    <path>/held              ephemeral too, and of the same name for all: there are never two

Acquiring is one multi: set the path as it was seen without a holder, and create ours. Each write is one multi too, and begins
with checks: the path has the version we made, our znode is there, and what else the write depends on is as it was seen. So a
holder whose session ended, or whose right was acquired by the next, can change nothing, whatever it believes; not even when the
path was forgotten in between and counts from 0 again. Nor does one who looked before that put out the holder that came after it.

The path may be forgotten by its holder, or by anybody while it has no children.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, ConnectionClosedError, NodeExistsError, NoNodeError, SessionExpiredError
from kazoo.protocol.states import KazooState

from walferry.errors import WalferryError
from walferry.texts import one_line
from walferry.zk.client import OUTCOME_UNKNOWN, Refusal, children, commit, hosts, read, retried, whose
from walferry.zk.errors import ConnectError, Contention

ACQUIRE_TRIES = 50  # each time somebody else has acquired and released in between
PATIENCE_SECONDS = 60.0  # with an ensemble that does not answer
RETRY_SECONDS = 0.1
HELD = "held"
MAX_TEXT_CHARS = 1000  # of each text of a record
OWN_CHECKS = 2  # at the head of each write, before the guards

Record = Mapping[str, str]


@dataclass(frozen=True)
class Guard:
    """A znode that must be as it was seen for a write to be done; `version` -1 means that it is there at all."""

    path: str
    version: int
    broken: Callable[[], WalferryError]  # what is wrong then


@dataclass(frozen=True)
class Outcome:
    """What came of a write that all checks let pass."""

    refusal: Refusal | None  # None: done; else its operation counts from the first one after the checks
    maybe_before: bool  # an earlier try of this write may have been done


class Hold:
    """One holder's right to write, until it is released or lost; lost it stays lost, also when the client gets a new session.

    `lost` is set as soon as this client knows that its session is gone; the checks in each write do not depend on it.
    `held_error(holder, since)` and `lost_error(reason)` say what is held and lost.
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
        self._znode = ""  # ours, of the acquisition
        self._why_lost = "the ZooKeeper session ended"

    def acquire(self, holder: str, run: str | None = None, **details: str) -> Record:
        """Become the holder; what the last one has left as record, empty at the first time.

        A holder of the same `run` is this one's own killed attempt, and is put out at once; without a run nobody is.
        `details` are kept in the record beside the holder. Raises `held_error`, ConnectError.
        """
        self._zk.add_listener(self._on_state)
        try:
            before = self._acquire({"holder": holder, **({"run": run} if run else {}), **details}, run)
        except BaseException:
            self._zk.remove_listener(self._on_state)
            raise
        if self.lost.is_set():  # a session ended meanwhile; which one holds it is not known
            self.release()
            raise self._lost("the ZooKeeper session ended")
        return before

    @property
    def turn(self) -> int:
        """How many acquisitions there have been at this path, the present one included; counts from 1."""
        return self._version

    def check(self) -> None:
        """Raises `lost_error` if this client knows already that it may not write."""
        if self.lost.is_set():
            raise self._lost()

    def write(self, operations: Callable[[TransactionRequest], None], guards: Sequence[Guard] = ()) -> Outcome:
        """One multi behind the checks, repeated while nobody can tell whether it was done: the operations must bear that.

        Raises `lost_error`, the error of the guard that is broken, ConnectError.
        """
        maybe_before = False
        give_up = time.monotonic() + PATIENCE_SECONDS
        checks = OWN_CHECKS + len(guards)
        while not self.lost.is_set():
            multi = self._zk.transaction()
            multi.check(self.path, self._version)
            multi.check(self._znode, -1)
            for guard in guards:
                multi.check(guard.path, guard.version)
            operations(multi)
            try:
                refusal = commit(multi)
            except (SessionExpiredError, ConnectionClosedError):
                break
            except OUTCOME_UNKNOWN as error:
                maybe_before = True
                if time.monotonic() > give_up:
                    where = f"ZooKeeper of {whose(self._zk).name} at {hosts(self._zk)}"
                    raise ConnectError(f"{where} has not answered for {PATIENCE_SECONDS:g} s") from error
                self.lost.wait(RETRY_SECONDS)
                continue
            if refusal is None:
                return Outcome(None, maybe_before)
            if refusal.operation < OWN_CHECKS:
                raise self._refused(refusal.operation)
            if refusal.operation < checks:
                raise guards[refusal.operation - OWN_CHECKS].broken()
            return Outcome(Refusal(refusal.operation - checks, refusal.error), maybe_before)
        raise self._lost()

    def release(self, *, forget: bool = False) -> None:
        """Give the right up, so that the next holder need not wait for the session's end; harmless when it is lost already.

        With `forget` the path goes too, with what it has recorded: for a right to something that is gone for good.
        """
        self._zk.remove_listener(self._on_state)

        def give_up() -> None:
            for with_path in (True, False) if forget else (False,):
                multi = self._zk.transaction()
                multi.check(self.path, self._version)
                multi.delete(self._znode)
                multi.delete(f"{self.path}/{HELD}")
                if with_path:
                    multi.delete(self.path)
                if commit(multi) is None:
                    return
            # refused: it was done before, or somebody else has it already

        try:
            retried(self._zk, give_up)
        except (ConnectError, SessionExpiredError):
            pass  # the session's end does it
        finally:
            self._lost("it was released")

    def _on_state(self, state: str) -> None:
        if state == KazooState.LOST:
            self.lost.set()

    def _lost(self, why: str | None = None) -> WalferryError:
        self._why_lost = why or self._why_lost
        self.lost.set()
        return self._lost_error(self._why_lost)

    def _refused(self, check: int) -> WalferryError:
        if check == 0:
            record = read_record(self._zk, self.path)
            if not record:
                return self._lost("nobody holds it any more, what it was for is finished")
            return self._lost("{} has it since {}".format(*_who_and_since(record)))
        return self._lost("its holder znode is gone, so the session that made it has ended")

    def _acquire(self, record: Record, run: str | None) -> Record:
        zk, path = self._zk, self.path
        self._znode = f"{path}/holder-{uuid.uuid4().hex}"
        value = json.dumps({**record, "since": datetime.now(UTC).isoformat(timespec="seconds")}).encode()
        maybe_ours: Record | None = None  # what a request of ours has overwritten, if it was done
        for _ in range(ACQUIRE_TRIES):
            retried(zk, zk.ensure_path, path)
            if maybe_ours is not None:
                retried(zk, zk.sync, path)
            # In this order: who acquires it after the first reading changes the version, whatever the second one finds.
            znode, holders = read(zk, path), children(zk, path)
            if znode is None or holders is None:
                continue  # just released and forgotten by the last holder
            if maybe_ours is not None and self._znode in (f"{path}/{holder}" for holder in holders) and self._is_ours():
                return maybe_ours
            before, version = _record(znode.value), int(znode.stat.version)
            if holders and (run is None or before.get("run") != run):
                raise self._held_error(*_who_and_since(before))
            multi = zk.transaction()
            for holder in holders:
                multi.delete(f"{path}/{holder}")
            multi.create(self._znode, ephemeral=True)
            multi.create(f"{path}/{HELD}", ephemeral=True)
            multi.set_data(path, value, version)
            try:
                refusal = commit(multi)
            except (*OUTCOME_UNKNOWN, SessionExpiredError):
                maybe_ours = before
                continue
            if refusal is None:
                self._version = version + 1
                return before
            if not isinstance(refusal.error, (NodeExistsError, BadVersionError, NoNodeError)):
                raise refusal.error
        raise Contention(f"{path} changed {ACQUIRE_TRIES} times while it was being acquired; try again later")

    def _is_ours(self) -> bool:
        """Whether a request whose outcome was unknown was done, in the session that we have now."""
        ours = read(self._zk, self._znode)
        if ours is None or not self._zk.client_id or ours.stat.ephemeralOwner != self._zk.client_id[0]:
            return False
        znode = read(self._zk, self.path)  # after it: the same multi has set the version
        self._version = int(znode.stat.version) if znode else -1
        return znode is not None


def is_held(zk: KazooClient, path: str) -> bool:
    """Whether somebody has the right at `path` now."""
    return bool(children(zk, path))


def read_record(zk: KazooClient, path: str) -> Record:
    """What the last holder has left at a hold's path; empty if nobody ever held it."""
    znode = read(zk, path)
    return _record(znode.value) if znode else {}


def _record(value: bytes) -> Record:
    try:
        known = json.loads(value)
        return {str(name): one_line(str(text), MAX_TEXT_CHARS) for name, text in known.items()}
    except (ValueError, AttributeError, RecursionError):  # the last one: lists in lists in lists …
        return {}


def _who_and_since(record: Record) -> tuple[str, str]:
    return record.get("holder", "somebody"), record.get("since", "an unknown time")
