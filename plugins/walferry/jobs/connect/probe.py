"""A small job that says whether a Spark Connect server's workers can do the work of jobs, and what they are.

It is also what a server that was just started can begin with: its first job takes seconds, in which Spark loads its classes.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from walferry.base.jobs import Backend, JobOutcome, Tell
from walferry.base.records import Record

if TYPE_CHECKING:  # it imports gRPC, which workers need not have
    from walferry.jobs.connect.server import Address

MOST_SECONDS = 90.0  # a new server loads its classes; one whose tasks are all taken by batches may take any time
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
    """Run the job, and end it after MOST_SECONDS. `archive` is the library; the folder `memory` remembers sessions.

    Raises ConnectFailed.
    """
    from walferry.jobs.connect.connect_job import ConnectJob
    from walferry.jobs.connect.errors import ConnectFailed, Interrupted

    begun = time.monotonic()
    job = ConnectJob(address, archive, memory, _Probe(uuid.uuid4().hex))
    too_long = threading.Timer(MOST_SECONDS, job.interrupt)
    too_long.daemon = True
    too_long.start()
    try:
        outcome = job.run_job(lambda _: None)
    except Interrupted:
        raise ConnectFailed(
            f"Spark Connect server {address} has not run a job of one task within {MOST_SECONDS:.0f} s",
            "All of its tasks may be taken by batches: look again later, or give it more",
        ) from None
    finally:
        too_long.cancel()
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
    from walferry.base.kernels.compiled import has_prebuilt, levels
    from walferry.hbase.wal import scan

    return next((level for level in levels() if has_prebuilt(scan, level)), "")


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
