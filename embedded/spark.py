"""Starts the Spark jobs by spark-submit on this machine, without Airflow, for tests and the benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from embedded.cache import cache_home
from walferry.base.jobs import Job, arguments_of
from walferry.initial_snapshot.job import CopyRun
from walferry.jobs.archive import build_archive
from walferry.jobs.quick_start import quick_start
from walferry.replay.replay_run import ReplayRun
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.ship_run import ShipRun

RUN_JOB = Path(__file__).resolve().parents[1] / "spark_jobs" / "run_job.py"
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
}


def submit(
    source: SourceCluster, peer_id: str, run_id: str, *, out: IO[bytes], deadline: float = 600, cores: int = 2,
    master: str | None = None, conf: Mapping[str, str] | None = None, **what: Any,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start a job that ships. `what` contains more fields of ShipRun; see `submit_job`."""
    job = ShipRun(source=source, peer_id=peer_id, run_id=run_id, deadline=deadline, **what)
    return submit_job(job, out=out, cores=cores, master=master, conf=conf)


def submit_copy(
    source: SourceCluster, peer_id: str, run_id: str, *, out: IO[bytes], cores: int = 2, tables: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start an initial snapshot; see `submit_job`."""
    return submit_job(CopyRun(source=source, peer_id=peer_id, run_id=run_id, tables=tables), out=out, cores=cores)


def submit_replay(
    source: SourceCluster, peer_id: str, run_id: str, *, out: IO[bytes], interval: tuple[int, int], deadline: float = 600,
    cores: int = 2,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start a replay of an interval of write times, in ms; see `submit_job`."""
    start, end = interval
    job = ReplayRun(source=source, peer_id=peer_id, run_id=run_id, deadline=deadline, start=start, end=end)
    return submit_job(job, out=out, cores=cores)


def submit_job(
    job: Job, *, out: IO[bytes], cores: int = 2, master: str | None = None, conf: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a job; see `submit_script`."""
    return submit_script(RUN_JOB, arguments_of(job), out=out, cores=cores, master=master, conf=conf)


def submit_script(
    script: Path, args: Sequence[str], *, out: IO[bytes], cores: int = 2, master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start a script on `local[cores]` or on a `master`, with its output in `out`. `conf` adds to Spark's settings.

    The script gets a session of its own, so that all its processes can be killed, except the executors of a master.
    """
    bin_folder = Path(sys.executable).parent
    command = [
        str(bin_folder / "spark-submit"),
        *("--master", master or f"local[{cores}]", "--py-files", str(build_archive(cache_home() / "archives"))),
        *(part for name, value in {**CONF, **(conf or {})}.items() for part in ("--conf", f"{name}={value}")),
        *(str(script), *args),
    ]
    environment = {
        **os.environ,
        **quick_start(cache_home(), os.environ),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
    )
