"""Acts as the cluster's master towards RegionServers, for as long as a run has the role."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from kazoo.client import KazooClient

from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.server import RpcServer
from walferry.master.cluster_znodes import create_missing
from walferry.master.master_calls import MasterCalls, ServerRegistry
from walferry.master.role import check_clock, check_no_master, publish, take_role, withdraw
from walferry.master.writes import MasterWrites

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MasterAddress:
    """Where this master listens, and the `host` under which RegionServers can reach it. Port 0: the system chooses one."""

    host: str = "localhost"
    listen: str = "127.0.0.1"
    port: int = 0


@dataclass(frozen=True)
class Role:
    """The master's role while a run has it. All that it writes to ZooKeeper goes through `hold`, or `writes` on top of it."""

    me: ServerName
    lock: FencedLock
    writes: MasterWrites
    registry: ServerRegistry


@dataclass(frozen=True)
class Candidate:
    """A run that wants the role. `holder` is its name for people; a killed attempt of the same `run` is put out at once.

    `root_dir` is the URL of hbase.rootdir as this process reads it. `settings` are told to RegionServers that start, see
    MasterCalls; they are not needed where the servers' own configuration is complete.
    """

    holder: str
    root_dir: str
    run: str | None = None
    address: MasterAddress = MasterAddress()
    settings: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def acting_as_master(zk: KazooClient, nodes: ZNodes, own: OwnZNodes, candidate: Candidate) -> Iterator[Role]:
    """Take the role for the length of a block: with its znode, and answering RegionServers.

    Raises RoleHeld, LiveMaster, ClockAhead, NoClusterId, CannotListen, ConnectError.
    """
    check_no_master(zk, nodes)
    with ExitStack() as at_the_end:
        lock = take_role(zk, nodes, own, candidate.holder, candidate.run)
        at_the_end.callback(lock.release)
        registry = ServerRegistry()
        calls = MasterCalls(registry, lock.check, candidate.settings)
        address = candidate.address
        server = at_the_end.enter_context(RpcServer(calls.services(), address.listen, address.port))
        me = ServerName(address.host, server.port, int(time.time() * 1000))
        publish(zk, nodes, lock, me)
        at_the_end.callback(withdraw, nodes, lock)
        check_clock(zk, nodes, me)
        created = create_missing(zk, nodes, lock, candidate.root_dir)
        log.info("%s acts as the master of %s%s", me, nodes.base, f"; created {', '.join(created)}" if created else "")
        yield Role(me, lock, MasterWrites(zk, nodes, own, lock), registry)
