"""The only way to change the znode of a region in transition: by a row of the table of transitions, at the version that was read.

A master's change is one multi with the checks of its role (`base.zk.fenced_lock`), and it includes the change of the region's
plan. So a master that has lost its role can change nothing, and a plan exists exactly as long as its transitions need it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NoNodeError

from walferry.base.zk.client import NOT_AS_READ, expected, retried
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.master.errors import IllegitimateTransition, StateChanged
from walferry.master.plans import Plan, StoredPlan, encode_plan
from walferry.master.states import OF_SPLITS, Actor
from walferry.master.transitions import Transition
from walferry.master.znodes import RegionInTransition, encode_region, encoded_name, read_region


@dataclass(frozen=True)
class Change:
    """One transition of one region. `seen` is the znode as read, None if there was none.

    `server` is the server that acts next, for transitions that choose a server; other transitions keep the znode's server.
    """

    transition: Transition
    name: bytes
    seen: RegionInTransition | None
    server: ServerName | None = None


@dataclass(frozen=True)
class PlanChange:
    """The change of a region's plan: `seen` is the plan as read (None: there was none), `plan` the new plan (None: deleted)."""

    seen: StoredPlan | None
    plan: Plan | None


class MasterWrites:
    """Writes the changes of the holder of the master's role, or of another `actor` with the role's lock."""

    def __init__(self, zk: KazooClient, nodes: ZNodes, own: OwnZNodes, lock: FencedLock, actor: Actor = Actor.MASTER) -> None:
        self._zk = zk
        self._nodes = nodes
        self._own = own
        self._hold = lock
        self._actor = actor

    def write(self, change: Change, plan: PlanChange | None = None) -> RegionInTransition | None:
        """Make the change and return the znode after it; None if the znode was deleted.

        Raises StateChanged if the znode or the plan is not as read, IllegitimateTransition, the role's errors, ConnectError.
        """
        (written,) = self.write_all([(change, plan)])
        if isinstance(written, StateChanged):
            raise written
        return written

    def write_all(self, changes: Sequence[tuple[Change, PlanChange | None]]) -> list[RegionInTransition | StateChanged | None]:
        """Make changes of different regions, each as `write` does, many of them at a time.

        A StateChanged is returned in place of its change's znode. Raises IllegitimateTransition before anything is written, the
        role's errors and ConnectError.
        """
        znodes = [_after(change, self._actor) for change, _ in changes]
        values = [_value(znode) for znode in znodes]
        written: list[RegionInTransition | StateChanged | None] = []
        outcomes = self._hold.write_all(
            [partial(self._add, change, plan, value) for (change, plan), value in zip(changes, values, strict=True)]
        )
        for (change, _), znode, value, outcome in zip(changes, znodes, values, outcomes, strict=True):
            encoded, refusal = encoded_name(change.name), expected(outcome.refusal, *NOT_AS_READ)
            if refusal is not None and not (outcome.maybe_before and self._is_done(encoded, value)):
                written.append(StateChanged(encoded, change.transition.name))
            else:
                written.append(znode)
        return written

    def _add(self, change: Change, plan: PlanChange | None, value: bytes | None, multi: TransactionRequest) -> None:
        _add(multi, self._nodes, change, value)
        if plan is not None:
            _add_plan(multi, self._own.region_plan(encoded_name(change.name)), plan)

    def read(self, name: bytes) -> RegionInTransition | None:
        """Read a region's znode as it is now; None if the region is not in transition. Raises ZNodeValueError."""
        return read_region(self._zk, self._nodes, encoded_name(name))

    def _is_done(self, encoded: str, value: bytes | None) -> bool:
        """Return whether an earlier try of a write with unknown outcome succeeded: its value contains its time in ms."""
        path = self._nodes.region_in_transition(encoded)
        retried(self._zk, self._zk.sync, path)
        try:
            found, _ = retried(self._zk, self._zk.get, path)
        except NoNodeError:
            return value is None
        return bool(found == value)


def _value(znode: RegionInTransition | None) -> bytes | None:
    return None if znode is None else encode_region(znode.name, znode.state, znode.server, znode.payload)


def _after(change: Change, actor: Actor) -> RegionInTransition | None:
    """Return the znode after the change, at the version after the one seen; None if the znode is deleted."""
    rule, seen = change.transition.rule, change.seen
    where = f"region {encoded_name(change.name)}: {change.transition.name}"
    if rule.actor is not actor:
        raise IllegitimateTransition(f"{where} is {rule.actor.value}'s, not {actor.value}'s")
    if (seen is None) != (not rule.before) or (seen is not None and seen.state not in rule.before):
        state = "without a znode" if seen is None else f"in state {seen.state.name}"
        raise IllegitimateTransition(f"{where} is not allowed for a region {state}")
    if seen is not None and seen.name != change.name:
        raise IllegitimateTransition(f"{where} was decided for another region, {seen.encoded_name}")
    server = seen.server if rule.keeps_server and seen is not None else change.server
    if rule.after is None:
        return None
    if server is None:
        raise IllegitimateTransition(f"{where} needs a server that acts next")
    # A server that splits or merges compares the regions in the payload with its own.
    payload = seen.payload if seen is not None and rule.after in OF_SPLITS else b""
    version, ephemeral = (0, False) if seen is None else (seen.version + 1, seen.ephemeral)
    return RegionInTransition(change.name, rule.after, server, version, int(time.time() * 1000), ephemeral, payload)


def _add(multi: TransactionRequest, nodes: ZNodes, change: Change, value: bytes | None) -> None:
    path = nodes.region_in_transition(encoded_name(change.name))
    if change.seen is None:
        multi.create(path, value)
    elif value is None:
        multi.delete(path, change.seen.version)
    else:
        multi.set_data(path, value, change.seen.version)


def _add_plan(multi: TransactionRequest, path: str, change: PlanChange) -> None:
    if change.plan is None:
        if change.seen is not None:
            multi.delete(path, change.seen.version)
    elif change.seen is None:
        multi.create(path, encode_plan(change.plan))
    else:
        multi.set_data(path, encode_plan(change.plan), change.seen.version)
