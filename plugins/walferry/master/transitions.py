"""The one table of changes to the znode of a region in transition: by whom, from which state to which, under which check.

Every write names a row of this table, takes the new state from it, and is made at the version of the znode that was read. So a
transition that is not in the table cannot be written. The table is based on the "legitimate transitions" of HBase's Master
Rewrite Notes (MASTER 1 to 4, REGIONSERVER 1 to 4). HBase 1.7 differs from the notes as follows:

- the master creates the znode as CLOSING before it asks the server to close the region (the notes: the RegionServer does);
- the znode names the server that acts next, and only that server may change it;
- a server that cannot open a region writes FAILED_OPEN;
- the master of a table that is being disabled also deletes the znode of a region whose server died before it was closed;
- splits and merges use the same folder, with ephemeral znodes.

An HMaster of 1.7 waits for ever for a server that has begun to open a region and does not go on. The operators' only transition
ends that wait: it writes FAILED_OPEN instead of the server, and the HMaster assigns the region again. See `beside_active_master`.

Source: HBase's ZKAssign, ZkOpenRegionCoordination, ZkCloseRegionCoordination, ZKSplitTransactionCoordination (branch-1.4).
"""

from dataclasses import dataclass
from enum import Enum

from walferry.master.states import OF_MOVES, Actor, RegionState


@dataclass(frozen=True)
class Rule:
    """One legitimate transition. An empty `before` means that there is no znode yet, and `after` None that it is deleted.

    `keeps_server` says whether the new znode names the same server (True), or another server that the writer chooses (False).
    """

    actor: Actor
    before: frozenset[RegionState]
    after: RegionState | None
    keeps_server: bool
    source: str


def _master(before: frozenset[RegionState], after: RegionState | None, source: str, *, keeps_server: bool = True) -> Rule:
    return Rule(Actor.MASTER, before, after, keeps_server, source)


def _server(before: frozenset[RegionState], after: RegionState | None, source: str, *, keeps_server: bool = True) -> Rule:
    return Rule(Actor.REGIONSERVER, before, after, keeps_server, source)


_NO_ZNODE: frozenset[RegionState] = frozenset()


class Transition(Enum):
    """The legitimate transitions. The writer must also hold what its actor needs: the master's role, or the region."""

    # The master's transitions
    CREATE_OFFLINE = _master(_NO_ZNODE, RegionState.OFFLINE, "MASTER 1", keeps_server=False)
    FORCE_OFFLINE = _master(OF_MOVES, RegionState.OFFLINE, "MASTER 2", keeps_server=False)
    DELETE_OPENED = _master(frozenset({RegionState.OPENED}), None, "MASTER 3")
    CLEAR = _master(frozenset(RegionState), None, "MASTER 4, only before a cluster's first assignment")
    DELETE_CLOSED = _master(frozenset({RegionState.CLOSED}), None, "the notes' flow DISABLE")
    DELETE_CLOSING = _master(frozenset({RegionState.CLOSING}), None, "1.7: the same, and the server that should close it is dead")
    CREATE_CLOSING = _master(_NO_ZNODE, RegionState.CLOSING, "REGIONSERVER 1; by the master in 1.7", keeps_server=False)
    ALLOW_SPLIT = _master(frozenset({RegionState.REQUEST_SPLIT}), RegionState.SPLITTING, "1.7: the master's answer to a split")
    ALLOW_MERGE = _master(frozenset({RegionState.REQUEST_MERGE}), RegionState.MERGING, "1.7: the master's answer to a merge")
    DELETE_SPLIT = _master(frozenset({RegionState.SPLIT}), None, "1.7: the master has seen the split")
    DELETE_MERGED = _master(frozenset({RegionState.MERGED}), None, "1.7: the master has seen the merge")
    # The RegionServer's transitions
    CLOSE = _server(frozenset({RegionState.CLOSING}), RegionState.CLOSED, "REGIONSERVER 2")
    BEGIN_OPEN = _server(frozenset({RegionState.OFFLINE}), RegionState.OPENING, "REGIONSERVER 3")
    KEEP_OPENING = _server(frozenset({RegionState.OPENING}), RegionState.OPENING, "1.7: the server is still at it")
    FINISH_OPEN = _server(frozenset({RegionState.OPENING}), RegionState.OPENED, "REGIONSERVER 4")
    FAIL_OPEN = _server(
        frozenset({RegionState.OFFLINE, RegionState.OPENING}), RegionState.FAILED_OPEN, "1.7: the region cannot be opened"
    )
    # An operator's transition, while an HMaster is active
    GIVE_UP_OPEN = Rule(
        Actor.OPERATOR,
        frozenset({RegionState.OPENING}),
        RegionState.FAILED_OPEN,
        keeps_server=True,
        source="1.7: FAIL_OPEN, which the znode's server owes; no live server serves the region or has opened it for long",
    )

    @property
    def rule(self) -> Rule:
        """The actor, and the states before and after."""
        found: Rule = self.value
        return found
