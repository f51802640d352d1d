"""One holder a WAL group, and no write by anybody else.

    <root>/leases/<cluster>/<peer>/<group>          persistent, its version counts the acquisitions; {"holder", "since"} as JSON
    <root>/leases/<cluster>/<peer>/<group>/holder   ephemeral of the holder's session; its value is the acquisition's own token

Acquiring is one multi: create `holder` and set the lease. Each write is one multi too, and begins with three checks: the lease
has the version we made, `holder` is there, and the peer's state is the DISABLED that we saw. So a holder whose session ended,
whose lease was acquired by the next, or whose peer was enabled under its hands can change nothing, whatever it believes. The
lease znode is never deleted: a new one would count from 0 again and let an old holder pass.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, ConnectionClosedError, NodeExistsError, SessionExpiredError
from kazoo.protocol.states import KazooState

from walferry.zk.client import OUTCOME_UNKNOWN, Refusal, commit, hosts, read, retried
from walferry.zk.errors import ConnectError, EnabledPeer, LeaseHeld, LeaseLost, MissingPeer, PeerError, ZkError
from walferry.zk.layout import OwnZNodes, ZNodes
from walferry.zk.peers import DISABLED, ENABLED_ADVICE
from walferry.zk.values import decode_state

ACQUIRE_TRIES = 50  # each time somebody else has acquired and released in between
PATIENCE_S = 60.0  # with an ensemble that does not answer
RETRY_S = 0.1
FENCES = 3  # operations at the head of each write


@dataclass(frozen=True)
class Outcome:
    """What came of a write that the fences let pass."""

    refusal: Refusal | None  # None: done; else its operation counts from the first one after the fences
    maybe_before: bool  # an earlier try of this write may have been done


class Fence:
    """One holder's right to write, until it is released or lost; lost it stays lost, also when the client gets a new session.

    `lost` is set as soon as this client knows that its session is gone; the checks in each write do not depend on it.
    """

    def __init__(self, zk: KazooClient, nodes: ZNodes, peer_id: str, group: str, root: str) -> None:
        self.lost = threading.Event()
        self._zk = zk
        self._nodes = nodes
        self._peer_id = peer_id
        self._group = group
        self._path = OwnZNodes(root, nodes).lease(peer_id, group)
        self._version = -1
        self._state_version = -1
        self._why_lost = "the ZooKeeper session ended"

    def acquire(self, holder: str) -> None:
        """Become the holder. Raises LeaseHeld naming who is, EnabledPeer, MissingPeer, ConnectError."""
        self._state_version = _disabled_version(self._zk, self._nodes, self._peer_id)
        self._zk.add_listener(self._on_state)
        try:
            self._version = self._acquire(holder)
        except BaseException:
            self._zk.remove_listener(self._on_state)
            raise

    def check(self) -> None:
        """Raises LeaseLost if this client knows already that it may not write."""
        if self.lost.is_set():
            raise self._lost()

    def write(self, operations: Callable[[TransactionRequest], None]) -> Outcome:
        """One multi behind the fences, repeated while nobody can tell whether it was done: the operations must bear that.

        Raises LeaseLost, EnabledPeer, MissingPeer, ConnectError.
        """
        maybe_before = False
        give_up = time.monotonic() + PATIENCE_S
        while not self.lost.is_set():
            multi = self._zk.transaction()
            multi.check(self._path, self._version)
            multi.check(f"{self._path}/holder", -1)
            multi.check(self._nodes.peer_state(self._peer_id), self._state_version)
            operations(multi)
            try:
                refusal = commit(multi)
            except (SessionExpiredError, ConnectionClosedError):
                break
            except OUTCOME_UNKNOWN as error:
                maybe_before = True
                if time.monotonic() > give_up:
                    raise ConnectError(f"ZooKeeper at {hosts(self._zk)} has not answered for {PATIENCE_S:g} s") from error
                self.lost.wait(RETRY_S)
                continue
            if refusal is None:
                return Outcome(None, maybe_before)
            if refusal.operation < FENCES:
                raise self._refused(refusal.operation)
            return Outcome(Refusal(refusal.operation - FENCES, refusal.error), maybe_before)
        raise self._lost()

    def release(self) -> None:
        """Give the right up, so that the next holder need not wait for the session's end; harmless when it is lost already."""
        self._zk.remove_listener(self._on_state)
        try:
            self.write(lambda multi: multi.delete(f"{self._path}/holder"))
        except (LeaseLost, ConnectError, PeerError):
            pass  # the session's end does it, or somebody else has it already
        finally:
            self._lost("it was released")

    def _on_state(self, state: str) -> None:
        if state == KazooState.LOST:
            self.lost.set()

    def _lost(self, why: str | None = None) -> LeaseLost:
        self._why_lost = why or self._why_lost
        self.lost.set()
        return LeaseLost(self._peer_id, self._group, self._why_lost)

    def _refused(self, fence: int) -> LeaseLost | EnabledPeer:
        if fence == 0:
            return self._lost("{} has it since {}".format(*_who_and_since(self._zk, self._path)))
        if fence == 1:
            return self._lost("its holder znode is gone, so the session that made it has ended")
        _disabled_version(self._zk, self._nodes, self._peer_id)
        return EnabledPeer(
            self._peer_id,
            "its state was changed while it was being shipped, so RegionServers may have begun to ship it themselves",
            "Leave it disabled and restart the RegionServers before shipping it again",
        )

    def _acquire(self, holder: str) -> int:
        """The version of the lease that we made."""
        zk, path = self._zk, self._path
        retried(zk, zk.ensure_path, path)
        token = uuid.uuid4().hex.encode()
        value = json.dumps({"holder": holder, "since": datetime.now(UTC).isoformat(timespec="seconds")}).encode()
        for _ in range(ACQUIRE_TRIES):
            version = _version(zk, path)
            multi = zk.transaction()
            multi.create(f"{path}/holder", token, ephemeral=True)
            multi.set_data(path, value, version)
            try:
                refusal = commit(multi)
            except (*OUTCOME_UNKNOWN, SessionExpiredError):
                refusal = Refusal(0, NodeExistsError())  # perhaps by this very request: look whose it is
            if refusal is None:
                return version + 1
            if isinstance(refusal.error, NodeExistsError):
                retried(zk, zk.sync, path)
                found = read(zk, f"{path}/holder")
                if found is not None and found.value == token and zk.client_id and found.stat.ephemeralOwner == zk.client_id[0]:
                    return _version(zk, path)
                if found is not None:
                    raise LeaseHeld(self._peer_id, self._group, *_who_and_since(zk, path))
            elif not isinstance(refusal.error, BadVersionError):
                raise refusal.error
        raise ZkError(f"{path} changed {ACQUIRE_TRIES} times while it was being acquired; try again later")


def _disabled_version(zk: KazooClient, nodes: ZNodes, peer_id: str) -> int:
    """The version of the peer's state, which is DISABLED. Raises MissingPeer, EnabledPeer, ZNodeValueError."""
    path = nodes.peer_state(peer_id)
    znode = read(zk, path)
    if znode is None:
        raise MissingPeer(peer_id, f"there is no {path}", "It was removed, or was never added")
    state = decode_state(znode.value, path)
    if state != DISABLED:
        raise EnabledPeer(peer_id, f"it is {state}, so its RegionServers ship it themselves", ENABLED_ADVICE)
    return int(znode.stat.version)


def _version(zk: KazooClient, path: str) -> int:
    znode = read(zk, path)
    if znode is None:
        raise ZkError(f"{path} was deleted by somebody; Walferry's own znodes are nobody else's to delete. Start again")
    return int(znode.stat.version)


def _who_and_since(zk: KazooClient, path: str) -> tuple[str, str]:
    znode = read(zk, path)
    try:
        known = json.loads(znode.value) if znode else {}
        return str(known["holder"]), str(known["since"])
    except (ValueError, KeyError, TypeError):
        return "somebody", "an unknown time"
