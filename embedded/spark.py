"""The Spark job by spark-submit on this machine, without Airflow: for tests and the benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from embedded.cache import cache_home
from walferry.source.cluster import SourceCluster
from walferry.spark.archive import build_archive

JOB = Path(__file__).resolve().parents[1] / "spark_jobs" / "ship_wals.py"
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
    """Start ship_wals.py on `local[cores]`, its output to `out`; as a session of its own, so that all of it can be killed."""
    bin_folder = Path(sys.executable).parent
    command = [
        str(bin_folder / "spark-submit"),
        *("--master", f"local[{cores}]", "--py-files", str(build_archive(cache_home() / "archives"))),
        *(part for name, value in CONF.items() for part in ("--conf", f"{name}={value}")),
        *(str(JOB), "--source", source.to_json(), "--peer", peer_id, "--run-id", run_id, "--deadline", f"{deadline:g}", *args),
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
