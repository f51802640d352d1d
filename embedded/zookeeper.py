"""Runs a ZooKeeper server without HBase, for tests of Walferry's work in ZooKeeper."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from embedded.processes import SMALL_JVM, ZOOKEEPER_WITHOUT_FSYNC, ClusterError, JavaProcess, free_port, start_java, wait_until

if TYPE_CHECKING:
    from kazoo.client import KazooClient

START_TIMEOUT_SECONDS = 60
TICK_MS = 500  # sessions may be as short as two ticks, and last as long as maxSessionTimeout
PIPELINED = 2000  # the number of requests that wait for their answers


@dataclass(frozen=True)
class ServerSecurity:
    """A server's identity, and its demands on clients: lines of zoo.cfg, of a JAAS file, and options of the JVM.

    See embedded.zookeeper_security.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    jaas: str = ""
    options: tuple[str, ...] = ()

    def __add__(self, other: ServerSecurity) -> ServerSecurity:
        return ServerSecurity({**self.settings, **other.settings}, self.jaas + other.jaas, self.options + other.options)


UNSECURED = ServerSecurity()


class ZooKeeperServer:
    """One server with its data under `folder`; it keeps ports and data over `stop()` and `start()`.

    `security` may be changed while the server is stopped.
    """

    def __init__(self, folder: Path, *, heap: str = "192m", security: ServerSecurity = UNSECURED) -> None:
        self.folder = folder
        self.security = security
        self._heap = heap
        self._port = free_port()
        self._tls_port = free_port()
        self._process: JavaProcess | None = None

    @property
    def quorum(self) -> str:
        """The connect string, known before the start. A server with SASL has a principal or certificate for "localhost"."""
        return f"{'127.0.0.1' if self.security is UNSECURED else 'localhost'}:{self._port}"

    @property
    def tls_quorum(self) -> str:
        """The connect string of the port that uses TLS."""
        return f"localhost:{self._tls_port}"

    @property
    def process(self) -> JavaProcess | None:
        """The server's JVM, once it was started."""
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
            + self._security_lines()
        )
        self._process = start_java(
            "zookeeper",
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            [str(config)],
            folder=self.folder,
            heap=self._heap,
            options=[*SMALL_JVM, ZOOKEEPER_WITHOUT_FSYNC, *self._security_options()],
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

    def _security_lines(self) -> str:
        settings = dict(self.security.settings)
        if "ssl.keyStore.location" in settings:
            settings |= {"secureClientPort": str(self._tls_port), "secureClientPortAddress": "127.0.0.1"}
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _security_options(self) -> list[str]:
        options = list(self.security.options)
        if self.security.jaas:
            jaas = self.folder / "jaas.conf"
            jaas.touch(mode=0o600)
            jaas.write_text(self.security.jaas)
            options.append(f"-Djava.security.auth.login.config={jaas}")
        return options

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=2) as probe:
                probe.sendall(b"ruok")
                return probe.recv(4) == b"imok"
        except OSError:
            return False


def create_all(zk: KazooClient, znodes: Iterable[tuple[str, bytes]]) -> None:
    """Create many znodes, parents first."""
    pending: list[Any] = []
    for path, value in znodes:
        pending.append(zk.create_async(path, value))
        if len(pending) == PIPELINED:
            for made in pending:
                made.get()
            pending.clear()
    for made in pending:
        made.get()
