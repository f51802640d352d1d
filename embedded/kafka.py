"""Runs a real Kafka: one process that is broker and controller (KRaft)."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from embedded.jars import KAFKA
from embedded.processes import SMALL_JVM, JavaProcess, free_port, start_java, wait_until

HOST = "127.0.0.1"
START_TIMEOUT_SECONDS = 120
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # One broker has one copy of everything.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class Kafka:
    """A broker under `folder`; `servers` is known before the start. A context manager that starts and kills it."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        self.servers = f"{HOST}:{self.port}"
        self._folder = folder
        self._controller = free_port()
        self._settings = settings or {}
        self._process: JavaProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the broker, with the data that it had, and wait until it serves. Raises ClusterError."""
        config = self._write_config()
        if not (self._folder / "data" / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            form = self._launch("format", "kafka.tools.StorageTool", "format", "-t", cluster.replace("-", "x"), "-c", str(config))
            wait_until(lambda: not form.alive, "Kafka's folder is formatted", processes=[], timeout=START_TIMEOUT_SECONDS)
        process = self._process = self._launch("kafka", "kafka.Kafka", str(config))
        wait_until(
            lambda: "Kafka Server started" in process.log_text(),
            "Kafka serves",
            processes=[process],
            timeout=START_TIMEOUT_SECONDS,
        )

    def kill(self) -> None:
        """Kill (-9) the broker. Its data stay."""
        if self._process is not None:
            self._process.kill()

    def _launch(self, name: str, main: str, *args: str) -> JavaProcess:
        return start_java(name, main, args, folder=self._folder, heap="512m", options=SMALL_JVM, jars=KAFKA)

    def _write_config(self) -> Path:
        settings = {
            **SETTINGS,
            "controller.quorum.voters": f"1@{HOST}:{self._controller}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://{HOST}:{self._controller}",
            "log.dirs": str(self._folder / "data"),
            **self._settings,
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return config
