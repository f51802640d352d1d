"""Runs a standalone Spark cluster on this machine, for tests: a master, and workers that start an executor each.

All processes listen on the loopback interface only. Executors write below the cluster's folder. Each worker has a folder there
that stands for its machine: see `Host`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from embedded.processes import ClusterError, free_port

REPO = Path(__file__).resolve().parents[1]
HOST = "127.0.0.1"
START_TIMEOUT_SECONDS = 120
STOP_TIMEOUT_SECONDS = 30
LOG_TAIL_LINES = 40
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Executor:
    """An executor: a running one, known by its process, or a past one, known by its log."""

    number: int
    process: psutil.Process | None
    log: str


@dataclass(frozen=True)
class Host:
    """The properties of a worker's machine, which hold for its executors too."""

    environment: Mapping[str, str | None] = field(default_factory=dict)  # added to this process's; None removes a variable
    umask: int = -1  # -1: this process's


class SparkCluster:
    """A master and `workers`, each with `cores` and `memory`. They end with this process.

    With `hosts`, each host has a worker.
    """

    def __init__(
        self, folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "512m", hosts: Sequence[Host] = ()
    ) -> None:
        self.port = free_port()
        self.folder = folder
        self._hosts = hosts or [Host()] * workers
        self._size = ("--cores", str(cores), "--memory", memory)
        self._running = ExitStack()
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def master(self) -> str:
        """The master's URL for spark-submit."""
        return f"spark://{HOST}:{self.port}"

    @property
    def local_folder(self) -> Path:
        """The folder in which executors keep data on disk (`spark.local.dir`)."""
        return self.folder / "local"

    @property
    def pids(self) -> list[int]:
        """The parent processes of the master and of each worker."""
        return [process.pid for process in self._processes]

    @property
    def executors(self) -> list[Executor]:
        """The executors that the newest job has had so far, in the order of their numbers."""
        jobs, processes = list(self.folder.glob("host*/work/app-*")), self._executor_processes()
        newest = max((job.name for job in jobs), default="")
        logs = [log for job in jobs if job.name == newest for log in job.glob("*/stderr")]
        found = [Executor(int(log.parent.name), processes.get(log.parent), log.read_text(errors="replace")) for log in logs]
        return sorted(found, key=lambda executor: executor.number)

    def start(self) -> None:
        """Start the cluster and wait until the master knows all workers. Raises ClusterError."""
        self.local_folder.mkdir(parents=True)
        self._launch("master", Host(), ["master.Master", "--host", HOST, "--port", str(self.port), "--webui-port", "0"])
        self._await(lambda: "I have been elected leader" in self.log_text("master"), "the Spark master leads")
        for number, host in enumerate(self._hosts):
            here = ["--host", HOST, "--webui-port", "0", "--work-dir", str(self.host_folder(number) / "work")]
            self._launch(f"worker{number}", host, ["worker.Worker", self.master, *here, *self._size])
        known = len(self._hosts)
        self._await(lambda: self.log_text("master").count("Registering worker") == known, "Spark's workers are there")

    def host_folder(self, number: int) -> Path:
        """Return a worker's folder. The worker's executors run two folders below its subfolder `work`."""
        return self.folder / f"host{number}"

    def pages(self) -> list[str]:
        """Return the addresses of the web pages of the master and the workers."""
        names = ["master", *(f"worker{number}" for number in range(len(self._hosts)))]
        return [url for name in names for url in re.findall(r"and started at (http://\S+)", self.log_text(name))]

    def stop(self) -> None:
        """End the cluster with all of its processes."""
        self._running.close()

    def log_text(self, name: str) -> str:
        """Return the log of the `master`, `worker0`, …"""
        log = self.folder / f"{name}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _launch(self, name: str, host: Host, words: Sequence[str]) -> None:
        spark_class, (main, *arguments) = Path(sys.executable).with_name("spark-class"), words
        command = [sys.executable, "-m", "embedded.hold", str(spark_class), f"org.apache.spark.deploy.{main}", *arguments]
        given = {
            **os.environ, "SPARK_LOCAL_IP": HOST, "SPARK_LOCAL_DIRS": str(self.local_folder), "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": "",  # executors get the library with the job
            **host.environment,
        }  # fmt: skip
        environment = {name: value for name, value in given.items() if value is not None}
        with (self.folder / f"{name}.log").open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=REPO, umask=host.umask
            )
        self._processes.append(process)
        self._running.callback(_end, process)

    def _await(self, done: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + START_TIMEOUT_SECONDS
        while not done():
            if time.monotonic() > give_up or any(process.poll() is not None for process in self._processes):
                tails = "\n".join(f"the end of {log}:\n{_tail(log)}" for log in sorted(self.folder.glob("*.log")))
                raise ClusterError(f"not within {START_TIMEOUT_SECONDS} s: {what}", tails)
            time.sleep(0.1)

    def _executor_processes(self) -> dict[Path, psutil.Process]:
        """Return the executors' processes, by the folders in which they run."""
        found = {}
        for holder in self._processes:
            for process in psutil.Process(holder.pid).children(recursive=True):
                with suppress(psutil.Error):  # the process has just ended
                    if EXECUTOR in process.cmdline():
                        found[Path(process.cwd())] = process
        return found


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(STOP_TIMEOUT_SECONDS)
