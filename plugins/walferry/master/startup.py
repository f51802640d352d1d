"""Starts a cluster: waits for servers, tells a start from a failover, and clears regions left in transition from the time before.

Source: HBase's ServerManager.waitForRegionServers, AssignmentManager.processDeadServersAndRegionsInTransition (branch-1.4).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from walferry.hbase.names import ServerName
from walferry.master.errors import StateChanged
from walferry.master.reconcile import ClusterView
from walferry.master.transitions import Transition
from walferry.master.writes import Change, MasterWrites, PlanChange
from walferry.master.znodes import META_ENCODED_NAME

MIN_SERVERS = 1  # hbase.master.wait.on.regionservers.mintostart
SETTLED_SECONDS = 1.5  # hbase.master.wait.on.regionservers.interval
WAIT_SECONDS = 4.5  # hbase.master.wait.on.regionservers.timeout
GIVE_UP_SECONDS = 600.0
ANSWER_SECONDS = 30.0
_POLL_SECONDS = 0.05
_LOOK_SECONDS = 0.2  # a look reads hbase:meta, and asks all servers


def never() -> bool:
    """Return that nobody wants to leave a wait before its end."""
    return False


def wait_for_servers(
    live: Callable[[], frozenset[ServerName]],
    minimum: int,
    give_up_seconds: float = GIVE_UP_SECONDS,
    leave: Callable[[], bool] = never,
) -> frozenset[ServerName]:
    """Wait until there are enough servers and no more come, as HBase's master does.

    This needs at least `minimum` servers from `live`, WAIT_SECONDS since the beginning, and SETTLED_SECONDS since the last server
    came or went. After `give_up_seconds`, or once `leave()` is true, it returns the servers that have come.
    """
    began = changed = time.monotonic()
    servers = live()
    while time.monotonic() - began < give_up_seconds and not leave():
        now = time.monotonic()
        if len(servers) >= minimum and now - began >= WAIT_SECONDS and now - changed >= SETTLED_SECONDS:
            break
        time.sleep(_POLL_SECONDS)
        before, servers = servers, live()
        if servers != before:
            changed = time.monotonic()
    return servers


def first_look(look: Callable[[], ClusterView], leave: Callable[[], bool] = never) -> ClusterView:
    """Look until all servers have said which regions they serve, but at most for ANSWER_SECONDS, or until `leave()` is true.

    A server creates its znode some moments before it answers calls. While a server is silent, a start looks like a failover.
    """
    began = time.monotonic()
    while (view := look()).silent and time.monotonic() - began < ANSWER_SECONDS and not leave():
        time.sleep(_LOOK_SECONDS)
    return view


def why_not_startup(view: ClusterView) -> str:
    """Say why this is not the start of a cluster but a failover; empty if it is a start.

    It is a start if all servers have answered, and none serves a region or has one in transition; hbase:meta does not count.
    """
    if not view.servers.live:
        return "there is no live server"
    if view.unanswered is not None:
        return view.unanswered.why
    for server, online in view.online.items():
        if regions := online - {META_ENCODED_NAME}:
            return f"{server} serves region {min(regions)}"
    for encoded, region in view.regions.items():
        if encoded == META_ENCODED_NAME:
            continue
        if region.znode is not None and region.znode.server in view.servers.live:
            return f"region {encoded} is {region.znode.state.name} at {region.znode.server}"
    return ""


def clear(view: ClusterView, writes: MasterWrites) -> int:
    """Delete the znodes and plans of all regions in transition before a cluster's first assignment. Returns how many.

    The view must show a start (`why_not_startup`). hbase:meta is left alone, and so is a znode that has changed since.
    """
    cleared = 0
    for encoded, region in view.regions.items():
        if region.znode is None or encoded == META_ENCODED_NAME:
            continue
        try:
            writes.write(Change(Transition.CLEAR, region.name, region.znode), PlanChange(view.stored.get(encoded), None))
            cleared += 1
        except StateChanged:
            continue
    return cleared
