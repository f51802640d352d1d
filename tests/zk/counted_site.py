"""Clusters with many servers, peers and WALs, which count requests to ZooKeeper and to the file system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes, LastingZNodes, wal
from walferry.hbase.files import listing, store, systems
from walferry.replication.source.session import Session

PEERS = ("p", "q", "r")
READS = ("GetData", "GetChildren", "GetChildren2", "Exists")
SMALL, LARGE = (3, 60), (12, 60)  # servers, and WALs of each
DEAD = 3  # every third server has died, and a live one has claimed its queue


class Site:
    """A cluster with so many servers and WALs, and their files. Counts requests to ZooKeeper and to the file system."""

    def __init__(self, hbase: HBaseZNodes, zk: KazooClient, folder: Path, servers: int, wals: int) -> None:
        self.servers, self.wals = servers, wals
        self.requests: Counter[str] = Counter()
        source = session_of(zk, hbase).source
        self.session = Session(replace(source, wal_root=f"file://{folder}"), zk)
        names = [f"rs-{n:03}.example.org,16020,1700000000001" for n in range(servers)]
        for number, server in enumerate(names):
            dead = number % DEAD == 1
            if not dead:
                hbase.start_server(server)
            for peer in PEERS:
                queue = f"{peer}-{server}" if dead else peer
                for timestamp in range(wals):
                    hbase.add_wal(names[0] if dead else server, queue, wal(timestamp, server), None if timestamp else 7)
            (folder / "WALs" / server).mkdir(parents=True)
            (folder / "oldWALs").mkdir(exist_ok=True)
            for timestamp in range(wals):
                newest = timestamp == wals - 1
                place = folder / "WALs" / server if newest and not dead else folder / "oldWALs"
                (place / wal(timestamp, server)).write_bytes(b"PWAL" + bytes(80_000 if timestamp == 0 else 100))

    @property
    def znodes(self) -> int:
        """Return the number of znodes in one peer's queues."""
        return self.servers * (1 + self.wals)

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """The requests of a block, by kind."""
        self.requests.clear()
        yield self.requests


@pytest.fixture
def make_site(
    new_client: Callable[[], KazooClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[tuple[int, int]], Site]:
    def make(size: tuple[int, int]) -> Site:
        hbase = LastingZNodes.new(new_client())
        for peer in PEERS:
            hbase.add_peer(peer)
        zk = new_client()
        site = Site(hbase, zk, tmp_path / str(size[0]), *size)
        send = zk._call

        def call(request: Any, result: Any) -> Any:
            site.requests["reads" if type(request).__name__ in READS else "writes"] += 1
            return send(request, result)

        monkeypatch.setattr(zk, "_call", call)
        for module, name in ((systems, "open_wal"), (store, "file_size"), (store, "open_wal"), (listing, "list_folder")):
            monkeypatch.setattr(module, name, _counting(getattr(module, name), site.requests))
        return site

    return make


def _counting(function: Callable[..., Any], requests: Counter[str]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        requests[function.__name__] += 1
        return function(*args, **kwargs)

    return counted
