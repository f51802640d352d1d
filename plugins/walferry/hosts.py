"""Whether servers can be connected to at all, for callers whose clients would try an unknown host for minutes.

The clients of ZooKeeper and HDFS take a name that does not resolve, or a port that nothing listens on, for a server that will be
up soon, and say in the end only that there was no answer.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection
from queue import Empty, SimpleQueue

RESOLVE_S = 5.0
CONNECT_S = 10.0
MAX_SERVERS = 64  # each takes a thread; no ensemble and no cluster's NameNodes are as many


def unreachable(servers: Collection[tuple[str, int]], connect_s: float = CONNECT_S) -> str | None:
    """Why none of the servers (host, port) can be connected to, in words; None if one of them can, or if there are none.

    All are tried at the same time, and given up after RESOLVE_S and `connect_s` seconds. More than MAX_SERVERS are not tried.
    """
    if len(servers) > MAX_SERVERS:
        return None
    outcomes: SimpleQueue[tuple[tuple[str, int], str | None]] = SimpleQueue()

    def look(server: tuple[str, int]) -> None:
        outcomes.put((server, _problem(*server, connect_s)))

    for server in servers:
        # A resolver may hang for as long as it likes; its thread is left behind then.
        threading.Thread(target=look, args=(server,), daemon=True).start()
    problems = {(host, port): f"the name {host} was not resolved within {RESOLVE_S:g} s" for host, port in servers}
    give_up = time.monotonic() + RESOLVE_S + connect_s
    for _ in servers:
        try:
            server, problem = outcomes.get(timeout=max(0.0, give_up - time.monotonic()))
        except Empty:
            break
        if problem is None:
            return None
        problems[server] = problem
    return "; ".join(dict.fromkeys(problems.values())) or None


def _problem(host: str, port: int, connect_s: float) -> str | None:
    try:
        addresses = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as e:  # a name that cannot be one in DNS is a UnicodeError
        return f"the name {host} does not resolve ({e.strerror if isinstance(e, OSError) else e})"
    problem = ""
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as sock:
                sock.settimeout(connect_s / len(addresses))  # a silent address must leave time for the others
                sock.connect(address)
        except ConnectionRefusedError:
            problem = f"nothing listens on {host}:{port} (connection refused)"
        except TimeoutError:
            problem = f"{host}:{port} did not take a connection within {connect_s:g} s"
        except (OSError, OverflowError) as e:
            problem = f"{host}:{port} cannot be reached ({getattr(e, 'strerror', None) or e})"
        else:
            return None
    return problem
