"""The Spark job by spark-submit on this machine, without Airflow: for tests and the benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from embedded.cache import cache_home
from walferry.source.cluster import SourceCluster
from walferry.spark.archive import build_archive

JOBS = Path(__file__).resolve().parents[1] / "spark_jobs"
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
}


def submit(
    source: SourceCluster, peer_id: str, run_id: str, *, out: IO[bytes], deadline: float = 600, cores: int = 2,
    args: tuple[str, ...] = (),
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start ship_wals.py, its output to `out`. See `submit_job`."""
    words = ["--source", source.to_json(), "--peer", peer_id, "--run-id", run_id, "--deadline", f"{deadline:g}", *args]
    return submit_job("ship_wals.py", words, out=out, cores=cores)


def submit_copy(
    source: SourceCluster, peer_id: str, run_id: str, *, out: IO[bytes], cores: int = 2, args: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start copy_tables.py, its output to `out`. See `submit_job`."""
    words = ["--source", source.to_json(), "--peer", peer_id, "--run-id", run_id, *args]
    return submit_job("copy_tables.py", words, out=out, cores=cores)


def submit_job(script: str, words: Sequence[str], *, out: IO[bytes], cores: int) -> subprocess.Popen[bytes]:
    """Start a script on `local[cores]`, its output to `out`; as a session of its own, so that all of it can be killed."""
    bin_folder = Path(sys.executable).parent
    command = [
        str(bin_folder / "spark-submit"),
        *("--master", f"local[{cores}]", "--py-files", str(build_archive(cache_home() / "archives"))),
        *(part for name, value in CONF.items() for part in ("--conf", f"{name}={value}")),
        *(str(JOBS / script), *words),
    ]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
    )
