"""Makes RegionServers begin new WALs, so that all edits that they have written until now lie in closed WALs.

One roll serves any number of peers: a server queues its new WAL for each peer before it uses the WAL.

Each server is asked by itself: the Masters of HBase 1 and 2 have no call for all servers. HBase 3 has
one (rollAllWALWriters, HBASE-26974). It rolls servers that need no roll, and does not say which servers did not roll, or why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar

from walferry.base.security.login import Login
from walferry.base.zk.client import children_each
from walferry.base.zk.errors import AnswerTooLong
from walferry.hbase.cluster import live_servers
from walferry.hbase.files.listing import names_of_server
from walferry.hbase.names import ServerName, as_wal_name
from walferry.hbase.rpc.admin import roll_wal_writer
from walferry.hbase.rpc.errors import RpcError
from walferry.replication.source.session import Session

CALLS_SECONDS = 30.0  # for all servers together: silent servers delay a batch no longer than this
GRACE_SECONDS = 1.0  # for a call that ends in time to report its error
QUEUED_SECONDS = 30.0  # until the WALs that a roll has begun are queued
POLL_SECONDS = 0.2
POLL_FOLDERS_SECONDS = 0.5
ASKED_AT_ONCE = 64

log = logging.getLogger(__name__)

_Queue = tuple[str, str]  # a live server and a peer
_Newest = dict[_Queue, dict[str, int]]  # the newest WAL's timestamp by WAL group

T = TypeVar("T")


@dataclass(frozen=True)
class Rolled:
    """How many of the asked RegionServers that are live have begun new WALs, and why the others have not."""

    servers: int
    failures: Mapping[str, str] = field(default_factory=dict)


def roll(session: Session, peer_ids: Collection[str], only: Collection[ServerName] | None = None) -> Rolled:
    """Make each live RegionServer, or each of `only`, begin new WALs, and wait until they are queued for all of these peers.

    Only names are read. A server that dies in the meantime is not a failure: its WALs need no roll any more.

    Raises WalferryError.
    """
    servers = live_servers(session.zk, session.nodes) if only is None else only
    if not servers:
        return Rolled(0)
    before = _newest(session, ((str(server), peer_id) for server in servers for peer_id in peer_ids))
    failures = _ask(servers, session.source.login)
    late = _await_newer(session, {queue: newest for queue, newest in before.items() if queue[0] not in failures})
    alive = {str(server) for server in live_servers(session.zk, session.nodes)}
    failures |= {server: f"it has queued no newer WAL within {QUEUED_SECONDS:g} s of the roll" for server, _ in late}
    for server in sorted(set(failures) - alive):
        log.info("%s is gone, its WALs need no roll", server)
    failures = {server: why for server, why in sorted(failures.items()) if server in alive}
    return Rolled(len(alive & {str(server) for server in servers}) - len(failures), failures)


def _newest(session: Session, queues: Iterable[_Queue]) -> _Newest:
    """Return the newest WAL of each group in each of the queues. A missing queue and one that cannot be listed have none.

    The plan reports a queue that cannot be listed. The server's other queues show whether it has rolled.
    """
    queues = list(queues)
    if session.nodes.in_table:  # HBase 3 queues a WAL by beginning it
        names_of = {server: [wal.text for wal in names_of_server(session.store, server)] for server in {q[0] for q in queues}}
        return {queue: _newest_of(names_of[queue[0]]) for queue in queues}
    found = children_each(session.zk, [session.nodes.queue(*queue) for queue in queues])
    names = [() if isinstance(each, AnswerTooLong) else each or () for each in found]
    return {queue: _newest_of(of_queue) for queue, of_queue in zip(queues, names, strict=True)}


def _newest_of(names: Iterable[str]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for name in names:
        if (wal := as_wal_name(name)) is not None:  # the plan reports names that are not WALs
            newest[wal.group] = max(wal.timestamp, newest.get(wal.group, 0))
    return newest


def ask_each(
    servers: Collection[ServerName], ask: Callable[[ServerName, float], T], seconds: float
) -> tuple[dict[ServerName, T], dict[ServerName, str]]:
    """Ask all servers at the same time. Returns the answers, and why other servers gave none.

    `ask` gets a server and the seconds that are left for it, and may raise an RpcError. A call that hangs is abandoned, e.g. at a
    name look-up.
    """
    give_up = time.monotonic() + seconds
    failures: dict[ServerName, str] = {}

    def answer(server: ServerName) -> T:
        left = give_up - time.monotonic()
        if left <= 0:
            raise RpcError(f"it was not asked within {seconds:g} s, as too many other servers did not answer")
        return ask(server, left)

    pool = ThreadPoolExecutor(ASKED_AT_ONCE)
    try:
        calls = {server: pool.submit(answer, server) for server in servers}
        done, _ = wait(calls.values(), seconds + GRACE_SECONDS)
        answers: dict[ServerName, T] = {}
        for server, call in calls.items():
            if call not in done:
                failures[server] = f"it did not answer within {seconds:g} s"
            elif isinstance(error := call.exception(), RpcError):
                failures[server] = str(error)
            else:
                answers[server] = call.result()
        return answers, failures
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _ask(servers: Collection[ServerName], login: Login) -> dict[str, str]:
    """Ask all servers at the same time to roll; return why some did not."""

    def ask(server: ServerName, left: float) -> None:
        roll_wal_writer(server, login=login, timeout=left)

    return {str(server): why for server, why in ask_each(servers, ask, CALLS_SECONDS)[1].items()}


def _await_newer(session: Session, before: _Newest) -> Collection[_Queue]:
    """Return the queues where some group has no newer WAL when time is up. Groups that have left their queue do not count."""
    give_up = time.monotonic() + QUEUED_SECONDS
    pause = POLL_FOLDERS_SECONDS if session.nodes.in_table else POLL_SECONDS
    waiting = before
    while True:
        now = _newest(session, waiting)
        waiting = {
            queue: newest
            for queue, newest in waiting.items()
            if any(now[queue].get(group, timestamp + 1) <= timestamp for group, timestamp in newest.items())
        }
        if not waiting or time.monotonic() > give_up:
            return waiting.keys()
        time.sleep(pause)
