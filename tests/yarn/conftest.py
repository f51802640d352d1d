"""A real YARN beside two clusters on its HDFS, and jobs that Airflow's operator submits to it."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
import pytest

from embedded.cache import cache_home
from embedded.client import GLOBAL, JavaClient, even_splits
from embedded.hdfs import Hdfs
from embedded.standalone import StandaloneCluster
from embedded.yarn import Yarn
from tests.airflow import conftest as airflow_conftest
from tests.conftest import StandalonePair, side_by_side
from tests.cluster.walferry_runs import plan, roll, source_of
from walferry.base.jobs import Job
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.cluster import SourceCluster

JOB_SECONDS = 240.0
EXECUTORS = 2
# As spark-defaults.conf would have them. Spark's own files are on all machines, and so is the Python.
CONF = {
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent / 'jars'}/*",
    "spark.pyspark.python": sys.executable,
    "spark.executorEnv.WALFERRY_CACHE": str(cache_home()),
    "spark.yarn.appMasterEnv.WALFERRY_CACHE": str(cache_home()),
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.instances": str(EXECUTORS),
    "spark.yarn.am.memory": "256m",
}
MODES = pytest.mark.parametrize("mode", ["client", "cluster"])


@pytest.fixture(scope="session")
def yarn(cluster_folder: Path) -> Iterator[Yarn]:
    """YARN with two NodeManagers, and its HDFS."""
    hdfs = Hdfs(cluster_folder / "hdfs")
    try:
        hdfs.start()
        with Yarn(cluster_folder / "yarn", hdfs) as yarn:
            yield yarn
    finally:
        hdfs.kill()


@pytest.fixture(scope="session")
def pair_on_hdfs(cluster_folder: Path, yarn: Yarn) -> Iterator[StandalonePair]:
    """Two clusters of one JVM each on YARN's HDFS."""
    sides = [
        StandaloneCluster(cluster_folder / name, {**yarn.hdfs.client_settings(), "hbase.rootdir": f"{yarn.hdfs.url}/{name}"}, name=name)
        for name in ("source", "peer_cluster")
    ]
    with side_by_side(sides):
        yield StandalonePair(*sides)


@dataclass
class OnYarn:
    """Runs jobs on YARN by the operator's own way. `lines` is what the task has logged."""

    yarn: Yarn
    mode: str
    lines: list[str] = field(default_factory=list)

    def run(self, job: Job, **conf: str) -> Any:
        """Submit a job and wait for it. Returns the operator. Raises AirflowException if the job fails."""
        from walferry.airflow.operators.spark_job import SparkJobOperator

        operator = SparkJobOperator(task_id="job", conf={**CONF, **conf})
        operator.submit({}, job)
        return operator
