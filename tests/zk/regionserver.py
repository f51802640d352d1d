"""The RegionServer's side of the protocol: its transitions, each a compare-and-set at the version that it has read.

HBase's RegionServers do this themselves. Here it lets masters and servers meet in any order, and documents what the master may
rely on: a server changes only a znode that names the server, is in the expected state, and has the version that the master's call
named.

Source: HBase's ZKAssign.transitionNode (branch-1.4).
"""

from __future__ import annotations

from kazoo.client import KazooClient

from walferry.base.zk.client import NOT_AS_READ, commit, expected, retried
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.master.states import Actor
from walferry.master.transitions import Transition
from walferry.master.writes import Change, _add, _after, _value
from walferry.master.znodes import RegionInTransition, read_region


def begin_open(zk: KazooClient, nodes: ZNodes, me: ServerName, encoded: str, version: int) -> int | None:
    """OFFLINE → OPENING at the version that the master's call named. Returns the new version, or None if refused."""
    return _transition(zk, nodes, me, encoded, version, Transition.BEGIN_OPEN)


def keep_opening(zk: KazooClient, nodes: ZNodes, me: ServerName, encoded: str, version: int) -> int | None:
    """OPENING → OPENING, before the server writes to hbase:meta. If this is refused, the server closes the region again."""
    return _transition(zk, nodes, me, encoded, version, Transition.KEEP_OPENING)


def finish_open(zk: KazooClient, nodes: ZNodes, me: ServerName, encoded: str, version: int) -> int | None:
    """OPENING → OPENED at the version that `keep_opening` returned. If this is refused, the server closes the region again."""
    return _transition(zk, nodes, me, encoded, version, Transition.FINISH_OPEN)


def fail_open(zk: KazooClient, nodes: ZNodes, me: ServerName, encoded: str, version: int) -> int | None:
    """OFFLINE or OPENING → FAILED_OPEN."""
    return _transition(zk, nodes, me, encoded, version, Transition.FAIL_OPEN)


def close(zk: KazooClient, nodes: ZNodes, me: ServerName, encoded: str, version: int) -> int | None:
    """CLOSING → CLOSED, once the region is closed, at the version that the master's call named."""
    return _transition(zk, nodes, me, encoded, version, Transition.CLOSE)


def _transition(zk: KazooClient, nodes: ZNodes, me: ServerName, encoded: str, version: int, transition: Transition) -> int | None:
    retried(zk, zk.sync, nodes.region_in_transition(encoded))
    seen = read_region(zk, nodes, encoded)
    if seen is None or not _may(seen, me, version, transition):
        return None
    return seen.version + 1 if _write(zk, nodes, Change(transition, seen.name, seen)) else None


def _write(zk: KazooClient, nodes: ZNodes, change: Change) -> bool:
    """Make a RegionServer's change; False if the znode is not as read. Raises IllegitimateTransition, ConnectError."""
    multi = zk.transaction()
    _add(multi, nodes, change, _value(_after(change, Actor.REGIONSERVER)))
    return expected(commit(multi), *NOT_AS_READ) is None


def _may(seen: RegionInTransition, me: ServerName, version: int, transition: Transition) -> bool:
    return seen.server == me and seen.version == version and seen.state in transition.rule.before
