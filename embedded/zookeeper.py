"""Runs a ZooKeeper server without HBase, for tests of what Walferry does in ZooKeeper."""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType

from embedded.processes import SMALL_JVM, ZOOKEEPER_WITHOUT_FSYNC, ClusterError, JavaProcess, free_port, start_java, wait_until

START_TIMEOUT_SECONDS = 60
TICK_MS = 500  # sessions may be as short as two ticks, and last as long as maxSessionTimeout


class ZooKeeperServer:
    """One server with its data under `folder`; it keeps port and data over `stop()` and `start()`."""

    def __init__(self, folder: Path, *, heap: str = "192m") -> None:
        self.folder = folder
        self._heap = heap
        self._port = free_port()
        self._process: JavaProcess | None = None

    @property
    def quorum(self) -> str:
        """Connect string, known before the start."""
        return f"127.0.0.1:{self._port}"

    @property
    def process(self) -> JavaProcess | None:
        """Its JVM, once it was started."""
        return self._process

    def start(self) -> None:
        """Start the server and wait until it answers. Raises ClusterError with the end of the log."""
        if self._process is not None and self._process.alive:
            raise ClusterError("this ZooKeeper server is running already")
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        config = self.folder / "zoo.cfg"
        config.write_text(
            f"tickTime={TICK_MS}\ndataDir={self.folder}/data\nclientPort={self._port}\nclientPortAddress=127.0.0.1\n"
            "maxSessionTimeout=120000\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=ruok,cons\n"
        )
        self._process = start_java(
            "zookeeper",
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            [str(config)],
            folder=self.folder,
            heap=self._heap,
            options=[*SMALL_JVM, ZOOKEEPER_WITHOUT_FSYNC],
        )
        wait_until(self._answers, "ZooKeeper answers", processes=[self._process], timeout=START_TIMEOUT_SECONDS)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def __enter__(self) -> ZooKeeperServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=2) as probe:
                probe.sendall(b"ruok")
                return probe.recv(4) == b"imok"
        except OSError:
            return False
