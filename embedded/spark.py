"""The Spark jobs by spark-submit on this machine, without Airflow: for tests and the benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from embedded.cache import cache_home
from walferry.jobs.archive import build_archive
from walferry.jobs.quick_start import quick_start
from walferry.replication.source.cluster import SourceCluster

JOBS = Path(__file__).resolve().parents[1] / "spark_jobs"
SHIP, VERIFY, COPY = JOBS / "ship_wals.py", JOBS / "verify_peer.py", JOBS / "copy_tables.py"
REPLAY = JOBS / "replay_interval.py"
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
}


def submit(
    source: SourceCluster, peer_id: str, run_id: str, *, out: IO[bytes], deadline: float = 600, cores: int = 2,
    args: tuple[str, ...] = (), master: str | None = None, conf: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start ship_wals.py; see `submit_job`."""
    given = ("--source", source.to_json(), "--peer", peer_id, "--run-id", run_id, "--deadline", f"{deadline:g}", *args)
    return submit_job(SHIP, given, out=out, cores=cores, master=master, conf=conf)


def submit_copy(
    source: SourceCluster, peer_id: str, run_id: str, *, out: IO[bytes], cores: int = 2, args: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start copy_tables.py; see `submit_job`."""
    given = ("--source", source.to_json(), "--peer", peer_id, "--run-id", run_id, *args)
    return submit_job(COPY, given, out=out, cores=cores)


def submit_replay(
    source: SourceCluster, peer_id: str, run_id: str, *, out: IO[bytes], interval: tuple[int, int], deadline: float = 600,
    cores: int = 2,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start replay_interval.py for an interval of write times, in ms; see `submit_job`."""
    given = ("--source", source.to_json(), "--peer", peer_id, "--run-id", run_id, "--deadline", f"{deadline:g}")
    return submit_job(REPLAY, (*given, "--from", str(interval[0]), "--to", str(interval[1])), out=out, cores=cores)


def submit_job(
    job: Path, args: tuple[str, ...], *, out: IO[bytes], cores: int = 2, master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start a job on `local[cores]` or on a `master`, its output to `out`; `conf` adds to Spark's settings.

    It is a session of its own, so that all of it can be killed; but for executors of a master's.
    """
    bin_folder = Path(sys.executable).parent
    command = [
        str(bin_folder / "spark-submit"),
        *("--master", master or f"local[{cores}]", "--py-files", str(build_archive(cache_home() / "archives"))),
        *(part for name, value in {**CONF, **(conf or {})}.items() for part in ("--conf", f"{name}={value}")),
        *(str(job), *args),
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
