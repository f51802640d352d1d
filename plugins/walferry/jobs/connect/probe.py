"""A small job that says whether a Spark Connect server's workers can do the work of jobs, and what they are.

It is also what a server that was just started can begin with: its first job takes seconds, in which Spark loads its classes.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
import uuid
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Self

from walferry.base.jobs import Backend, JobOutcome, Tell
from walferry.base.records import Record
from walferry.jobs.connect.server import Address

OF_JOBS = ("walferry.shipping.ship_run", "walferry.verification.verify_run", "walferry.initial_snapshot.job")


@dataclass(frozen=True)
class Worker(Record):
    """A Python worker of the server."""

    host: str
    python: str
    processors: int
    problem: str = ""  # why it cannot do the work of jobs
    compiled_for: str = ""  # the level of processors for which it has compiled kernels; empty if it has to compile them


@dataclass(frozen=True)
class Probed:
    """A worker, and the seconds that the job took."""

    worker: Worker
    seconds: float


def probe(address: Address, archive: Path, memory: Path) -> Probed:
    """Run the job. `archive` is the library; the folder `memory` remembers sessions. Raises ConnectFailed."""
    from walferry.jobs.connect.connect_job import ConnectJob  # it imports gRPC, which workers need not have

    begun = time.monotonic()
    outcome = ConnectJob(address, archive, memory, _Probe(uuid.uuid4().hex)).run_job(lambda _: None)
    return Probed(Worker.from_json(outcome.result), time.monotonic() - begun)


def look(_: int) -> Worker:
    """Return what the process is that runs this."""
    found = socket.gethostname(), platform.python_version(), len(os.sched_getaffinity(0))
    try:
        for module in OF_JOBS:
            import_module(module)
    except ImportError as error:
        return Worker(*found, f"{error} ({sys.executable})")
    return Worker(*found, compiled_for=_compiled_for())


def _compiled_for() -> str:
    from walferry.base.kernels.compiled import levels, prebuilt_folder

    python = f"py{sys.version_info[0]}{sys.version_info[1]}"
    return next((level for level in levels() if any(prebuilt_folder(level).glob(f"*.{python}*.nbi"))), "")


@dataclass(frozen=True)
class _Probe(Record):
    """The job. No two have the same name, so that none ends another."""

    name: str
    kind: ClassVar[str] = "probe"
    nothing_done: ClassVar[str] = "nothing was looked at"
    title: ClassVar[str] = "walferry check"

    @property
    def identity(self) -> tuple[str, ...]:
        return self.kind, self.name

    def begun_later(self, seconds: float) -> Self:
        return self

    def run(self, on: Backend, say: Tell) -> JobOutcome:
        (worker,) = on.run(look, [0], Worker)
        return JobOutcome(result=worker.to_json())
