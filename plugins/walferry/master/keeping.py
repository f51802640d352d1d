"""Keeps the master's role of a cluster that has no HMaster: the master who watches, until it is told to stop or an HMaster waits.

It repairs what becomes of the deaths of RegionServers, finishes transitions that have come to a halt, balances, and lets clients
enable and disable tables. If it is killed, another run goes on with what ZooKeeper says.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from walferry.base.texts import one_line
from walferry.base.zk.client import children
from walferry.hbase.cluster import live_servers
from walferry.master.role import Role
from walferry.master.role_loop import BALANCE_SECONDS, Cluster
from walferry.master.work import Tell, WorkTerms, at_work
from walferry.replication.source.session import Session

SERVERS_SECONDS = 1.0  # between two looks for a first RegionServer
MAX_NAMED_CHARS = 300


def keep_role(
    session: Session, terms: WorkTerms, stop: threading.Event, tell: Tell, *,
    balance_seconds: float | None = BALANCE_SECONDS, yields: bool = True,
) -> Sequence[str]:  # fmt: skip
    """Act as the cluster's master until `stop` is set, or, with `yields`, until an HMaster waits to become active.

    `tell` gets what is done in lines for people; `balance_seconds` lie between two looks at the balance (None: it never moves
    regions for that). Returns the HMasters that wait. Raises NotHBase1, LiveMaster and the role's other errors, StoreError,
    ConnectError.
    """
    with at_work(session, terms, tell) as (cluster, role, master):
        tell(f"This run acts as the cluster's master at {role.me.host}:{role.me.port}, and RegionServers report to it")
        waiting = _await_servers(cluster, role, stop, yields=yields)
        if not waiting and not stop.is_set():
            master.start()
            waiting = master.run(stop, balance_seconds, yields=yields)
        if waiting:
            named = one_line(waiting[0], MAX_NAMED_CHARS)
            tell(f"HMaster {named} waits to become active, so this run gives it the master's role")
    return waiting


def _await_servers(cluster: Cluster, role: Role, stop: threading.Event, *, yields: bool) -> Sequence[str]:
    """Wait for a first RegionServer, or for one of the ends of `keep_role`. Returns the HMasters that wait."""
    while not stop.is_set() and not live_servers(cluster.zk, cluster.nodes):
        role.lock.check()
        if yields and (waiting := children(cluster.zk, cluster.nodes.backup_masters)):
            return waiting
        stop.wait(SERVERS_SECONDS)
    return ()
