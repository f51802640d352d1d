"""The master's role: one run at a time has it, and never while an HMaster is active. `acting_as_master` holds it for a block.

A run first acquires a fenced lock of Walferry's own, which keeps other runs out. Then it creates the ephemeral znode
<base>/master, as an HMaster does when it becomes active. That keeps HMasters out: an HMaster that starts later waits as a backup
until the znode is gone. RegionServers read there to which master they report.

Each write depends on both: the lock checks itself, and after `publish` it checks the znode too. The lock alone would not do,
because an operator may delete the znode, and then an HMaster becomes active while the lock is still held. The znode that an
HMaster creates has version 0. Our znode is set once more in the multi that creates it, so its version is never an HMaster's. By
its version a run also recognizes the znode of a killed run, whose session has not ended yet, and replaces the znode. The lock's
record lists the sessions of its last holders: a znode of our version from any other session belongs to a run with another
`walferry_root`, whose lock is elsewhere.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kazoo.client import KazooClient, TransactionRequest

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import UNSECURED, Login
from walferry.base.zk.acls import readable_by_all
from walferry.base.zk.client import NOT_AS_READ, ZNode, expected, read, retried
from walferry.base.zk.errors import Contention
from walferry.base.zk.fenced_lock import FencedLock, Guard, read_record
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.server import RpcServer
from walferry.hbase.values import PBUF, decode_message, server_in
from walferry.master.client_calls import ClientCalls
from walferry.master.cluster_znodes import create_missing
from walferry.master.errors import ClockAhead, LiveMaster, RoleHeld, RoleLost
from walferry.master.master_calls import MAX_SKEW_SECONDS, MasterCalls, ServerRegistry
from walferry.master.writes import MasterWrites

OUR_VERSION = 1
HMASTER_VERSION = 0  # the version of any HMaster's znode
_RPC_VERSION = 0
_MAX_SESSIONS = 20  # of killed holders, whose sessions may not have ended
_TRIES = 10  # a try fails if a master comes or goes in between

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Role:
    """The master's role while a run has it. All its writes to ZooKeeper go through `lock`, or `writes` on top of it.

    `changed` is set when there may be work for a pass.
    """

    me: ServerName
    lock: FencedLock
    writes: MasterWrites
    registry: ServerRegistry
    changed: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Candidate:
    """A run that wants the role. `holder` is its name for people; a killed attempt of the same `run` loses the role at once.

    `root_dir` is the URL of hbase.rootdir for this process. `settings` are sent to RegionServers that start, see MasterCalls;
    they are not needed where the servers' own configuration is complete. The run listens at `listen`, and RegionServers reach it
    at `host`. With port 0 the system chooses a port. If it `serves_clients`, HBase's clients may enable and disable tables.
    """

    holder: str
    root_dir: str
    run: str | None = None
    host: str = "localhost"
    listen: str = "127.0.0.1"
    port: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    serves_clients: bool = False
    login: Login = UNSECURED


@contextmanager
def acting_as_master(zk: KazooClient, nodes: ZNodes, own: OwnZNodes, candidate: Candidate) -> Iterator[Role]:
    """Hold the role while the block runs: keep its znode, and answer RegionServers.

    Raises RoleHeld, LiveMaster, ClockAhead, NoClusterId, CannotListen, ConnectError.
    """
    check_no_master(zk, nodes)
    with ExitStack() as at_the_end:
        lock = take_role(zk, nodes, own, candidate.holder, candidate.run)
        at_the_end.callback(lock.release)
        registry = ServerRegistry()
        changed, published = threading.Event(), threading.Event()

        def check() -> None:
            lock.check()
            if not published.is_set():
                raise RoleLost("it has not been published yet")

        services = dict(MasterCalls(registry, lock.check, candidate.settings).services())
        if candidate.serves_clients:
            services |= ClientCalls(zk, nodes, lock, check, changed, candidate.login).services()
        server = at_the_end.enter_context(RpcServer(services, candidate.listen, candidate.port))
        me = ServerName(candidate.host, server.port, int(time.time() * 1000))
        publish(zk, nodes, lock, me)
        published.set()
        at_the_end.callback(withdraw, nodes, lock)
        check_clock(zk, nodes, me)
        created = create_missing(zk, nodes, lock, candidate.root_dir)
        log.info("%s acts as the master of %s%s", me, nodes.base, f"; created {', '.join(created)}" if created else "")
        yield Role(me, lock, MasterWrites(zk, nodes, own, lock), registry, changed)


def take_role(zk: KazooClient, nodes: ZNodes, own: OwnZNodes, holder: str, run: str | None = None) -> FencedLock:
    """Become the holder of the master's role; `holder` is its name for people.

    A killed attempt of the same `run` loses the role at once. Raises RoleHeld, ConnectError.
    """
    for path in (nodes.in_transition, nodes.tables, own.region_plans):
        retried(zk, zk.ensure_path, path, acl=readable_by_all(zk) if nodes.clients_read(path) else None)
    lock = FencedLock(zk, own.master_role, RoleHeld, RoleLost)
    session = str(zk.client_id[0]) if zk.client_id else ""
    lock.acquire(holder, run, sessions=" ".join([session, *_sessions(zk, own.master_role)][:_MAX_SESSIONS]))
    return lock


def _sessions(zk: KazooClient, path: str) -> list[str]:
    return read_record(zk, path).get("sessions", "").split()


def active_hmaster(zk: KazooClient, nodes: ZNodes) -> ServerName | None:
    """Read which HMaster is active; None if none is, or if a run of Walferry has the role. Raises ZNodeValueError."""
    return _hmaster(nodes, read(zk, nodes.master))


def check_no_master(zk: KazooClient, nodes: ZNodes) -> None:
    """Raise LiveMaster if an HMaster is active."""
    _refuse_master(nodes, read(zk, nodes.master))


def publish(zk: KazooClient, nodes: ZNodes, lock: FencedLock, me: ServerName) -> None:
    """Create the znode that names this run as the cluster's master. Each later write of the lock depends on this znode.

    RegionServers call `me` from now on. Raises LiveMaster, RoleHeld, the role's errors, ConnectError, Contention.
    """
    name = pb.ServerName(host_name=me.host, port=me.port, start_code=me.start_code)
    value = PBUF + pb.Master(master=name, rpc_version=_RPC_VERSION, info_port=0).SerializeToString()
    for _ in range(_TRIES):
        found = read(zk, nodes.master)
        _refuse_master(nodes, found)
        if found is not None and found.value == value:
            lock.depend_on(Guard(nodes.master, OUR_VERSION, lambda: RoleLost(f"{nodes.master} is gone or is another master's")))
            return
        if found is not None and str(found.stat.ephemeralOwner) not in _sessions(zk, lock.path):
            since = datetime.fromtimestamp(found.stat.ctime / 1000, UTC).isoformat(timespec="seconds")
            raise RoleHeld("a run whose connection has another walferry_root", since)

        def operations(multi: TransactionRequest, found: ZNode | None = found) -> None:
            if found is not None:  # the znode of a run that has lost the lock
                multi.delete(nodes.master, found.stat.version)
            multi.create(nodes.master, value, acl=readable_by_all(zk), ephemeral=True)
            multi.set_data(nodes.master, value, OUR_VERSION - 1)

        expected(lock.write(operations).refusal, *NOT_AS_READ)
    raise Contention(f"{nodes.master} changed {_TRIES} times while it was being created; try again later")


def check_clock(zk: KazooClient, nodes: ZNodes, me: ServerName) -> None:
    """Raise ClockAhead if the clock that gave `me` its start code is far ahead of ZooKeeper's. Call it after `publish`."""
    found = read(zk, nodes.master)
    ahead = 0.0 if found is None else (me.start_code - found.stat.ctime) / 1000
    if ahead > MAX_SKEW_SECONDS:
        raise ClockAhead(ahead, MAX_SKEW_SECONDS)


def withdraw(nodes: ZNodes, lock: FencedLock) -> None:
    """Delete the znode, so that a waiting HMaster becomes active at once. Harmless if the role is already lost."""
    with contextlib.suppress(WalferryError):  # then another master owns the znode, or it ends with the session
        lock.write(lambda multi: multi.delete(nodes.master, OUR_VERSION))


def _refuse_master(nodes: ZNodes, found: ZNode | None) -> None:
    master = _hmaster(nodes, found)
    if master is not None:
        raise LiveMaster(str(master), nodes.master)


def _hmaster(nodes: ZNodes, found: ZNode | None) -> ServerName | None:
    if found is None or found.stat.version == OUR_VERSION:
        return None
    return server_in(decode_message(pb.Master, found.value, nodes.master).master, nodes.master)
