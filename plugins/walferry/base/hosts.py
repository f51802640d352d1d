"""Finds out whether servers are reachable at all, for callers whose clients would try an unknown host for minutes.

The clients of ZooKeeper and HDFS treat an unknown name, or a port without a listener, like a server that will be up soon. In the
end they report only that there was no answer.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection
from concurrent.futures import as_completed
from contextlib import suppress
from functools import partial
from typing import TypeVar

from walferry.base.security.waiting import in_background

RESOLVE_SECONDS = 5.0
CONNECT_SECONDS = 10.0
MAX_SERVERS = 64  # each takes a thread; no ensemble and no cluster's NameNodes reach this number

K = TypeVar("K")
V = TypeVar("V")

log = logging.getLogger(__name__)


def unreachable(servers: Collection[tuple[str, int]], connect_seconds: float = CONNECT_SECONDS) -> str | None:
    """Return why none of the servers (host, port) is reachable, or None if one is, or if there are no servers.

    This tries all at the same time, for at most RESOLVE_SECONDS and `connect_seconds`. It does not try more than MAX_SERVERS.
    """
    if len(servers) > MAX_SERVERS:
        return None
    unresolved = {(host, port): f"the name {host} was not resolved within {RESOLVE_SECONDS:g} s" for host, port in servers}
    seconds = RESOLVE_SECONDS + connect_seconds
    problems = side_by_side(lambda server: _problem(*server, connect_seconds), servers, seconds, lambda problem: problem is None)
    if None in problems.values():
        return None
    return "; ".join(dict.fromkeys(filter(None, (unresolved | problems).values()))) or None


def side_by_side(ask: Callable[[K], V], asked: Collection[K], seconds: float, is_enough: Callable[[V], bool]) -> dict[K, V]:
    """Call `ask` for each of `asked` at the same time, until an answer `is_enough`. Returns the answers within `seconds`.

    A call may hang for ever, as calls of resolvers do. Then its thread is left behind.
    """
    calls = {in_background(partial(ask, each), "one of several questions"): each for each in asked}
    answers: dict[K, V] = {}
    with suppress(TimeoutError):
        for call in as_completed(calls, seconds):
            if error := call.exception():
                log.error("a question to %s has failed", calls[call], exc_info=error)
                continue
            answers[calls[call]] = call.result()
            if is_enough(call.result()):
                break
    return answers


def _problem(host: str, port: int, connect_seconds: float) -> str | None:
    try:
        addresses = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # names that are impossible in DNS raise UnicodeError
        return f"the name {host} does not resolve ({error.strerror if isinstance(error, OSError) else error})"
    problem = ""
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as sock:
                sock.settimeout(connect_seconds / len(addresses))  # a silent address must leave time for the others
                sock.connect(address)
        except ConnectionRefusedError:
            problem = f"nothing listens on {host}:{port} (connection refused)"
        except TimeoutError:
            problem = f"{host}:{port} did not accept a connection within {connect_seconds:g} s"
        except (OSError, OverflowError) as error:
            problem = f"{host}:{port} cannot be reached ({getattr(error, 'strerror', None) or error})"
        else:
            return None
    return problem
