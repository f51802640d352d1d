"""The script by which a pod of kubernetes/spark-on-kubernetes.yaml begins an executor, run as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from embedded.spark_cluster import HOST, REPO, SparkCluster
from tests.unit.containers.test_kubernetes import EXECUTOR

# A driver whose cluster has no workers of its own. It says to the executor what Spark says to a pod.
DRIVER = """\
import json, os, subprocess, sys
from pyspark.sql import SparkSession

url, *command = sys.argv[1:]
builder = SparkSession.builder.master(url).config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
session = builder.getOrCreate()
conf = session.sparkContext.getConf()
told = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:" + conf.get("spark.driver.port"),
    "SPARK_APPLICATION_ID": session.sparkContext.applicationId,
    "SPARK_EXECUTOR_ID": "1", "SPARK_EXECUTOR_CORES": "1", "SPARK_EXECUTOR_MEMORY": "512m", "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1", "SPARK_EXECUTOR_POD_NAME": "executor-1", "SPARK_CONF_DIR": "/opt/spark/conf",
    **{f"SPARK_JAVA_OPT_{at}": text for at, text in enumerate([*conf.get("spark.executor.extraJavaOptions").split(), "-Dpod=1"])},
}
executor = subprocess.Popen([*command, "executor"], env={**os.environ, **told}, stdout=sys.stderr)

def words(_):
    with open(f"/proc/{os.getppid()}/stat") as stat, open(f"/proc/{stat.read().split()[3]}/cmdline") as line:
        return line.read().split("\\0")
try:
    (found,) = session.sparkContext.parallelize([0], 1).map(words).collect()
finally:
    session.stop()
print(json.dumps([found, executor.wait(60)]))
"""


def test_the_script_begins_an_executor_that_works_for_its_driver_and_ends_with_it(tmp_path: Path) -> None:
    (driver := tmp_path / "driver.py").write_text(DRIVER)
    script = REPO / "containers" / Path(EXECUTOR["command"][-1]).name
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
    with SparkCluster(tmp_path / "spark", workers=0) as spark:
        command = [sys.executable, str(driver), spark.master, str(script)]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    words, status = json.loads(done.stdout.splitlines()[-1])
    assert status == 0
    assert {"-Dpod=1", "-Xmx512m", "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"} <= set(words)
