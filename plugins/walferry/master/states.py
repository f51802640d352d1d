"""The states of a region in transition, as stored in its znode, and the actors that change them.

Source: HBase's EventType (branch-1.4), whose codes are stored.
"""

from enum import Enum, IntEnum


class RegionState(IntEnum):
    """The state in a region's znode. Without a znode the region is open at a server, or its table is disabled."""

    CLOSED = 2
    OPENING = 3
    OPENED = 4
    SPLITTING = 5
    SPLIT = 6
    FAILED_OPEN = 7
    MERGING = 8
    MERGED = 9
    REQUEST_SPLIT = 10
    REQUEST_MERGE = 11
    OFFLINE = 50
    CLOSING = 51


class Actor(Enum):
    """The actors that change states."""

    MASTER = "the master"
    REGIONSERVER = "the RegionServer"
    OPERATOR = "an operator beside an HMaster"


# States of a split or a merge. These znodes are ephemeral: they end with their RegionServer, which must undo or redo its work.
OF_SPLITS = frozenset(
    {
        RegionState.REQUEST_SPLIT,
        RegionState.SPLITTING,
        RegionState.SPLIT,
        RegionState.REQUEST_MERGE,
        RegionState.MERGING,
        RegionState.MERGED,
    }
)
OF_MOVES = frozenset(RegionState) - OF_SPLITS
