"""Asks many servers in parallel, and reports each server's answer, or why there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from functools import partial

from walferry.base.findings import Finding, well, wrong
from walferry.base.protos.hbase_pb2 import ReplicateWALEntryResponse
from walferry.base.security.login import Login
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.admin import connect
from walferry.hbase.rpc.connection import Connection, Security
from walferry.hbase.rpc.errors import AccessDenied, NotAuthenticated, RemoteError, RpcError

CALL_SECONDS = 10.0
ALL_SECONDS = 30.0
ASKED_AT_ONCE = 64
MAX_REPORTED = 10

Answer = str | RpcError
"""How the connection is protected, or why there is no answer."""
Call = Callable[[Connection], object]


def get_server_info(connection: Connection) -> object:
    """Make a call that needs no right and costs the server nothing. An error from the server is an answer too."""
    try:
        return connection.call("GetServerInfo", b"", ReplicateWALEntryResponse)  # any message without required fields works
    except AccessDenied:  # the server does not let us in
        raise
    except RemoteError as error:
        return error


def replicate_nothing(connection: Connection) -> object:
    """Send a shipment without entries: it changes nothing, and needs the right that shipments need.

    AccessController wants global WRITE (preReplicateLogEntries); ReplicationSink.replicateEntries returns at once.
    """
    return connection.call("ReplicateWALEntry", b"", ReplicateWALEntryResponse)


def ask(servers: Sequence[ServerName], login: Login, call: Call = get_server_info) -> dict[ServerName, Answer]:
    """Ask all servers. Do not wait longer than ALL_SECONDS in all for their answers."""
    give_up = time.monotonic() + ALL_SECONDS
    pool = ThreadPoolExecutor(min(ASKED_AT_ONCE, max(1, len(servers))))
    try:
        asked = {server: pool.submit(partial(_ask, server, login, call)) for server in servers}
        return {server: _answer(server, future, give_up) for server, future in asked.items()}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def is_answer(answer: Answer) -> bool:
    """Return whether the server has answered."""
    return isinstance(answer, str)


def silent(answers: dict[ServerName, Answer], advice: str, about: str = "") -> list[Finding]:
    """Return findings on a bounded number of servers that did not answer, with `advice`, or that do not let us in."""
    errors = [(server, answer) for server, answer in answers.items() if isinstance(answer, RpcError)]
    found = [_silent(server, error, advice, about) for server, error in errors[:MAX_REPORTED]]
    if len(errors) > MAX_REPORTED:
        found.append(wrong("RegionServers", f"{len(errors) - MAX_REPORTED:,} more do not answer", about=about))
    return found


def _silent(server: ServerName, error: RpcError, advice: str, about: str) -> Finding:
    if isinstance(error, AccessDenied | NotAuthenticated):  # these errors say themselves what to do
        return wrong("RegionServers", f"{server} does not let us in: {error}", about=about)
    return wrong("RegionServers", f"{server} does not answer: {error}", advice, about)


def answering(answers: dict[ServerName, Answer]) -> str:
    """Return how many servers have answered, and how their connections are protected."""
    protected = {answer for answer in answers.values() if isinstance(answer, str)}
    counted = f"{sum(map(is_answer, answers.values())):,} of {len(answers):,} answer"
    return ", ".join([counted, *sorted(filter(None, protected))])


def may_write(server: ServerName, login: Login, about: str) -> Finding:
    """Check whether the server accepts shipments from us."""
    answer = ask([server], login, replicate_nothing)[server]
    if isinstance(answer, AccessDenied):
        return wrong("rights", answer, grant(login, "W", "the peer cluster"), about)
    if isinstance(answer, RpcError):
        return wrong("rights", answer, f"The peer cluster's {server} refuses a shipment without entries; see its log", about)
    return well("rights", f"WRITE: {server} accepts shipments", about)


def grant(login: Login, right: str, where: str) -> str:
    """Return the advice for a login without a right there."""
    name = (login.kerberos.principal if login.kerberos else login.user) or "<user>"
    short = name.partition("@")[0].partition("/")[0]
    return f"In the HBase shell of {where}: grant '{short}', '{right}'"


def _ask(server: ServerName, login: Login, call: Call) -> Answer:
    try:
        with connect(server, login=login, timeout=CALL_SECONDS) as connection:
            call(connection)
            return _protected(connection.security)
    except RpcError as error:
        return error


def _protected(security: Security | None) -> str:
    if security is None:
        return ""
    by_kerberos = f"Kerberos with {security.protection}" if security.protection else ""
    return " in ".join(filter(None, [by_kerberos, security.tls or ""]))


def _answer(server: ServerName, future: Future[Answer], give_up: float) -> Answer:
    try:
        return future.result(max(0.0, give_up - time.monotonic()))
    except NotInTime:
        return RpcError(f"{server}: no answer within {ALL_SECONDS:g} s, with all that were asked beside it")
