"""Keeps the master's role of a cluster that has no HMaster: the master who watches, until it is told to stop or an HMaster waits.

It repairs what becomes of the deaths of RegionServers, finishes transitions that have come to a halt, balances, and lets clients
enable and disable tables. If it is killed, another run goes on with what ZooKeeper says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from walferry.base.texts import one_line
from walferry.base.zk.client import Watch, children, has_znode, stat_all
from walferry.hbase.cluster import live_servers
from walferry.hbase.names import ServerName
from walferry.master.cluster_znodes import check_files
from walferry.master.errors import Refused
from walferry.master.role import Role
from walferry.master.role_loop import BALANCE_SECONDS
from walferry.master.work import Tell, WorkTerms, at_work, check_hbase_1
from walferry.replication.source.session import Session

SERVERS_SECONDS = 1.0  # between two looks for a first RegionServer
# An HMaster that is started with --backup looks every zookeeper.session.timeout, 180 s at most, whether there is a master.
BACKUP_SECONDS = 200.0
REPORT_SECONDS = 30.0  # RegionServers report every 3 s
MAX_NAMED_CHARS = 300


def check_keepable(session: Session) -> None:
    """Check that this session's cluster is one whose role can be kept. Raises NotHBase1, Refused, WrongFiles, StoreError."""
    if session.source.login.kerberos is not None:
        raise Refused(
            "the source's connection has Kerberos, and RegionServers with Kerberos do not report to a run of Walferry",
            "Start an HMaster. Single regions can be mended by `walferry regions`",
        )
    check_hbase_1(session)
    check_files(session.zk, session.nodes, session.source.wal_root)


def keep_role(
    session: Session, terms: WorkTerms, stop: threading.Event, tell: Tell, *,
    balance_seconds: float | None = BALANCE_SECONDS, yields: bool = True,
) -> Sequence[str]:  # fmt: skip
    """Act as the cluster's master until `stop` is set, or, with `yields`, until an HMaster waits to become active.

    `tell` gets what is done in lines for people; `balance_seconds` lie between two looks at the balance (None: it never moves
    regions for that). Returns the HMasters that wait; at once, if the cluster was shut down. Raises NotHBase1, LiveMaster and the
    role's other errors, StoreError, ConnectError.
    """
    if not has_znode(session.zk, session.nodes.running):
        tell("The cluster was shut down meanwhile, so it wants no master")
        return ()
    with at_work(session, terms, tell) as (cluster, role, master):
        tell(f"This run acts as the cluster's master at {role.me.host}:{role.me.port}")
        watch = _Watch(session, role, tell, yields)
        while not stop.is_set() and not watch.look() and not live_servers(cluster.zk, cluster.nodes):
            stop.wait(SERVERS_SECONDS)
        if not stop.is_set() and not watch.waiting:
            master.start(leave=lambda: stop.is_set() or bool(watch.look()))
            master.run(stop, balance_seconds, watch.look)
        if watch.waiting:
            named = one_line(watch.waiting[0], MAX_NAMED_CHARS)
            tell(f"HMaster {named} waits to become active, so this run gives it the master's role")
    return watch.waiting


@dataclass
class _Watch:
    """Looks, before each pass, who waits for the role, and which servers have come."""

    session: Session
    role: Role
    tell: Tell
    yields: bool
    waiting: Sequence[str] = ()  # the HMasters for which the role is given up
    since: float = field(default_factory=time.monotonic)
    first: frozenset[str] | None = None  # the HMasters that waited when the role was taken
    servers: frozenset[ServerName] = frozenset()  # that were live at the last look
    warned: bool = False

    def look(self, watch: Watch | None = None) -> Sequence[str]:
        """Return the HMasters for which the role is to be given up. Raises the role's errors, NotHBase1, ConnectError."""
        self.role.lock.check()
        found = self._masters(watch)
        self.first = frozenset(found) if self.first is None else self.first
        if self.yields:  # those that waited before did not take the role while it was free, and look for a master seldom
            late = time.monotonic() - self.since >= BACKUP_SECONDS
            self.waiting = [name for name in found if late or name not in self.first]
        if not self.waiting:
            self._check_servers()
        return self.waiting

    def _masters(self, watch: Watch | None) -> list[str]:
        """List the HMasters that wait. What is left of one that was not deleted with its session is none."""
        zk, folder = self.session.zk, self.session.nodes.backup_masters
        names = children(zk, folder, watch) or []
        stats = stat_all(zk, [f"{folder}/{name}" for name in names])
        return [name for name, stat in zip(names, stats, strict=True) if stat is not None and stat.ephemeralOwner]

    def _check_servers(self) -> None:
        live = live_servers(self.session.zk, self.session.nodes)
        if live - self.servers:
            check_hbase_1(self.session)
        self.servers = live
        silent = live and not self.role.registry.reports and time.monotonic() - self.since >= REPORT_SECONDS
        if silent and not self.warned:
            me, self.warned = self.role.me, True
            self.tell(
                f"WARNING: no RegionServer has reported to {me.host}:{me.port} within {REPORT_SECONDS:.0f} s. Servers that start "
                "cannot join, and clients hang: set host and port so that they reach this worker"
            )
