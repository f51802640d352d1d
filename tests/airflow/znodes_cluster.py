"""A cluster that is znodes and empty WALs, as tests with a real scheduler and triggerer need it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.zk.hbase_znodes import HBaseZNodes, wal
from tests.zk.test_agreement import be_of

EMPTY_WAL = b"PWAL\x00" + b"\x00\x00\x00\x00LAWP"  # closed, without an entry: it only has to leave its queue
WAIT_SECONDS = 180


def until(condition: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> Any:
    """Wait for something, and return it. Fails with `what` after so many seconds."""
    began = time.monotonic()
    while not (found := condition()):
        assert time.monotonic() - began < seconds, f"not within {seconds} s: {what}"
        time.sleep(0.3)
    print(f"{time.monotonic() - began:.1f} s until {what}")
    return found


class Cluster:
    """RegionServers that tests can start and kill. Each has an empty WAL queued for peer p."""

    def __init__(self, znodes: HBaseZNodes, folder: Path) -> None:
        be_of(znodes, "1.7.2")  # a release whose Master, which is absent here, is not asked for peers
        self.znodes = znodes
        self._folder = folder
        self._archive = folder / "oldWALs"
        self._archive.mkdir(parents=True)
        (folder / "WALs").mkdir()

    def connection(self, quorum: str, root: str, **fields: str) -> str:
        extra = {"znode_parent": self.znodes.nodes.base, "wal_root": f"file://{self._folder}", "walferry_root": root}
        return json.dumps({"conn_type": "generic", "host": quorum, **fields, "extra": extra})

    def start(self, *servers: str) -> None:
        for server in servers:
            self.znodes.start_server(server)
            self.add_wal(server, "p", 1)

    def add_wal(self, server: str, queue: str, timestamp: int) -> None:
        """Queue a new WAL, which closes the one before."""
        self.file(wal(timestamp, server))
        self.znodes.add_wal(server, queue, wal(timestamp, server))

    def file(self, name: str) -> None:
        """Write the file of a WAL."""
        (self._archive / name).write_bytes(EMPTY_WAL)

    def kill(self, *servers: str) -> None:
        for server in servers:
            self.znodes.stop_server(server)

    def wals(self, server: str, queue: str) -> list[int]:
        """The timestamps of the WALs in a queue, oldest first."""
        return sorted(int(name.rpartition(".")[2]) for name in self.znodes.children(self.znodes.nodes.queue(server, queue)))

    def servers_with_queues(self) -> list[str]:
        return sorted(self.znodes.zk.get_children(self.znodes.nodes.queues))
