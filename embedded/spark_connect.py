"""Runs a Spark Connect server on this machine, for demo, tests and benchmark.

It listens on the loopback interface only, and accepts only clients that know its token, because a job is code that it runs. The
token is in the environment of the server's process, never among its arguments.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from embedded.processes import ClusterError, free_port

if TYPE_CHECKING:
    from walferry.jobs.connect.server import Address

REPO = Path(__file__).resolve().parents[1]
HOST = "127.0.0.1"
START_TIMEOUT_SECONDS = 120
STOP_TIMEOUT_SECONDS = 30
LOG_TAIL_LINES = 40
READY = "Spark Connect server started at"
MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
SETTINGS = {
    "spark.connect.grpc.binding.address": HOST,
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.ui.enabled": "false",
    "spark.log.level": "INFO",  # the log shows when the server is ready
    "spark.python.daemon.module": "connect_daemon",
    # A session that is used again next night must still exist: a new session leaves another daemon behind.
    "spark.connect.session.manager.defaultSessionTimeout": "7d",
    # With this, a job whose client was killed ends soon.
    "spark.connect.execute.manager.detachedTimeout": "10s",
    "spark.connect.execute.manager.maintenanceInterval": "5s",
}


class ConnectServer:
    """A server with a port and a token of its own, and a number of tasks side by side. It ends with this process."""

    def __init__(
        self, folder: Path, *, tasks: int = 16, settings: Mapping[str, str] | None = None, python: str = sys.executable
    ) -> None:
        self.port = free_port()
        self._token = secrets.token_urlsafe(24)
        self._log = folder / "spark-connect.log"
        self._tasks = tasks
        self._settings = settings or {}
        self._python = python  # of the workers
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> Address:
        """The server's address for the library."""
        from walferry.jobs.connect.server import Address  # the demo runs without the library

        return Address(HOST, self.port, token=self._token)

    @property
    def connection(self) -> str:
        """Airflow's connection to the server, as a value of AIRFLOW_CONN_SPARK_CONNECT."""
        return json.dumps({"conn_type": "spark_connect", "host": HOST, "port": self.port, "password": self._token})

    @property
    def pid(self) -> int:
        """The parent of all of the server's processes."""
        assert self._process is not None
        return self._process.pid

    def launch(self) -> None:
        """Start the server without waiting for it."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(self.port), **self._settings}
        command = [
            *(sys.executable, "-m", "embedded.hold", str(Path(sys.executable).with_name("spark-submit"))),
            *("--master", f"local[{self._tasks}]", "--class", MAIN, "--name", "walferry"),
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
            "spark-internal",
        ]
        environment = {
            **os.environ,
            "SPARK_SUBMIT_OPTS": "",  # this JVM lives long, so it needs no options for short jobs
            "PYSPARK_PYTHON": self._python,
            "PYSPARK_DRIVER_PYTHON": sys.executable,  # finds Spark
            "PYTHONPATH": os.pathsep.join([str(REPO / "spark_jobs"), *([had] if (had := os.environ.get("PYTHONPATH")) else [])]),
            "SPARK_LOCAL_IP": HOST,
            TOKEN_VARIABLE: self._token,
        }
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, env=environment,
                cwd=REPO,
            )  # fmt: skip

    def start(self) -> None:
        """Start the server and wait until it accepts jobs. Raises ClusterError."""
        self.launch()
        self.await_ready()

    def await_ready(self) -> None:
        """Wait until the server accepts jobs. Raises ClusterError."""
        give_up = time.monotonic() + START_TIMEOUT_SECONDS
        while READY not in self.log_text():
            if self._process is None or self._process.poll() is not None or time.monotonic() > give_up:
                tail = "\n".join(self.log_text().splitlines()[-LOG_TAIL_LINES:])
                raise ClusterError("the Spark Connect server did not start", f"the end of {self._log}:\n{tail}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End the server with all of its processes."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(STOP_TIMEOUT_SECONDS)

    def log_text(self) -> str:
        """Return the server's log."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""
