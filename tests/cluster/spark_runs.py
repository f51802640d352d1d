"""Runs the Spark job in its own processes, to its end or until it is killed with everything it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded.spark import submit
from walferry.replication.source.cluster import SourceCluster

WAIT_SECONDS = 300

Start = Callable[..., subprocess.Popen[bytes]]


@dataclass(frozen=True)
class Finished:
    code: int
    output: str

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """What the job has printed last. Spark may still log behind it, as it ends."""
        printed = [line for line in self.output.splitlines() if line.startswith("[{")]
        assert printed, self.output
        return list(json.loads(printed[-1]))


class Job:
    """A submitted Spark job, whose output goes to a file below `folder`. A context manager that leaves no process behind."""

    def __init__(
        self, source: SourceCluster, peer_id: str, run_id: str, folder: Path, start: Start = submit, **options: object
    ) -> None:
        self._log = folder / f"{time.monotonic_ns()}.log"
        with self._log.open("wb") as out:
            self._process = start(source, peer_id, run_id, out=out, **options)  # type: ignore[arg-type]

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def finish(self, seconds: float = WAIT_SECONDS) -> Finished:
        return Finished(self._process.wait(seconds), self.output)

    def kill(self) -> None:
        """Kill -9 all processes of the job at once: spark-submit, JVM, driver, and the Python workers' own process groups."""
        while processes := _session(self._process.pid):
            for pid in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def run(source: SourceCluster, peer_id: str, run_id: str, folder: Path, **options: object) -> Finished:
    """Run the job from start to end."""
    with Job(source, peer_id, run_id, folder, **options) as job:
        return job.finish()


def _session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(stat.parent.name))
    return found
