"""Reads the web pages of HBase's servers (ConfServlet, JMXJsonServlet), in bounded time and size.

    GET http://<server>:<info port>/conf?format=json    {"properties": [{"key": "hbase.rootdir", "value": "…", …}, …]}
    GET http://<server>:<info port>/jmx?qry=<bean>      {"beans": [{"name": "<bean>", "<attribute>": …, …}]}
    HEAD http://<server>:<info port>/                   Date: <the server's time, in whole seconds>

Only these pages show a server's configuration: no call does. Servers whose pages want TLS or a login show their time at most.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException
from typing import Any

from kazoo.client import KazooClient

from walferry.base.records import NotARecord, parsed
from walferry.base.zk.client import read_all
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.values import decode_info_port

PAGE_SECONDS = 3.0  # for a page, from the connection to its last byte
MAX_BYTES = 2 << 20  # some 200 kB are usual
MAX_VALUE_CHARS = 20_000
MAX_DATE_CHARS = 100
NO_PAGE = (OSError, HTTPException, ValueError)  # a name that is impossible in DNS raises UnicodeError


def sample_of_ports(zk: KazooClient, nodes: ZNodes, most: int) -> dict[ServerName, int]:
    """Return the ports of the pages of some of the live RegionServers, at most so many. Raises WalferryError."""
    servers = sorted(live_servers(zk, nodes))
    asked = random.sample(servers, min(most, len(servers)))
    paths = [f"{nodes.rs}/{server}" for server in asked]
    pages: dict[ServerName, int] = {}
    for server, path, znode in zip(asked, paths, read_all(zk, paths), strict=True):
        if znode is not None and (port := decode_info_port(znode.value, path)) is not None:
            pages[server] = port
    return pages


def time_of(host: str, port: int) -> float:
    """Return the server's time when it answered, in whole seconds since the epoch. Raises one of NO_PAGE."""
    with closing(HTTPConnection(host, port, timeout=PAGE_SECONDS)) as connection:
        connection.connect()
        with _hung_up_in_time(connection.sock):
            connection.request("HEAD", "/")
            date = connection.getresponse().headers.get("Date", "")
    told = parsedate_to_datetime(date[:MAX_DATE_CHARS])
    if told.tzinfo is None:
        raise ValueError("its Date has no zone")
    return told.timestamp()


def configuration(host: str, port: int, keys: Collection[str]) -> dict[str, str]:
    """Read the values of those `keys` that the server's configuration contains. Raises one of NO_PAGE."""
    properties = read_page(host, port, "/conf?format=json").get("properties")
    if not isinstance(properties, list):
        raise NotARecord("it has no list of properties")
    pairs = [(each.get("key"), each.get("value")) for each in properties if isinstance(each, dict)]
    found = {str(key): value for key, value in pairs if key in keys and isinstance(value, str)}
    if any(len(value) > MAX_VALUE_CHARS for value in found.values()):
        raise NotARecord(f"a value has more than {MAX_VALUE_CHARS} characters")
    return found


def read_page(host: str, port: int, path: str) -> dict[str, Any]:
    """Read a page with a JSON object; any other JSON counts as an empty object. Raises one of NO_PAGE."""
    with closing(HTTPConnection(host, port, timeout=PAGE_SECONDS)) as connection:
        connection.connect()
        with _hung_up_in_time(connection.sock):
            connection.request("GET", path)
            answer = connection.getresponse()
            if answer.status != 200:
                raise OSError(f"HTTP {answer.status}")
            body = answer.read(MAX_BYTES + 1)
    page = parsed(body, MAX_BYTES)
    return page if isinstance(page, dict) else {}


@contextmanager
def _hung_up_in_time(sock: socket.socket) -> Iterator[None]:
    """End the connection after PAGE_SECONDS: its timeout limits each wait, and a server may send a byte a second for ever.

    Raises TimeoutError then.
    """
    late = threading.Event()

    def hang_up() -> None:
        late.set()
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(PAGE_SECONDS, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError(f"the page did not come within {PAGE_SECONDS:g} s")
