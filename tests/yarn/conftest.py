"""A real YARN beside two clusters on its HDFS, and jobs that Airflow's operator submits to it."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
import pytest

from embedded.cache import cache_home
from embedded.client import GLOBAL, JavaClient, even_splits
from embedded.hbase import ClusterAddress
from embedded.hdfs import Hdfs
from embedded.processes import SMALL_JVM
from embedded.standalone import StandaloneCluster
from embedded.yarn import Container, Yarn
from tests.airflow import conftest as airflow_home  # sets Airflow's environment
from tests.cluster.walferry_runs import plan, roll, source_of
from tests.conftest import StandalonePair, side_by_side
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.operators.spark_job import SparkJobOperator
from walferry.base.jobs import Job
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.ship_run import ShipRun

assert airflow_home.HOME.is_dir()
WAIT_SECONDS = 240.0
TEST_SECONDS = 900  # on a machine that does other things too
EXECUTORS = 2
WALS, ROWS = 3, 400
# As spark-defaults.conf would have them. Spark's own files are on all machines, and so is the Python.
CONF = {
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent / 'jars'}/*",
    "spark.pyspark.python": sys.executable,
    "spark.executorEnv.WALFERRY_CACHE": str(cache_home()),
    "spark.yarn.appMasterEnv.WALFERRY_CACHE": str(cache_home()),
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.instances": str(EXECUTORS),
    "spark.yarn.am.memory": "256m",
    "spark.executor.extraJavaOptions": " ".join(SMALL_JVM),
    "spark.driver.extraJavaOptions": " ".join(SMALL_JVM),
    "spark.yarn.am.extraJavaOptions": " ".join(SMALL_JVM),
}
MODES = pytest.mark.parametrize("mode", ["client", "cluster"])
CLUSTER = pytest.mark.parametrize("mode", ["cluster"])


@pytest.fixture(scope="session")
def yarn(cluster_folder: Path) -> Iterator[Yarn]:
    """YARN with two NodeManagers, and its HDFS."""
    hdfs = Hdfs(cluster_folder / "on-yarn" / "hdfs")
    try:
        hdfs.start()
        with Yarn(cluster_folder / "on-yarn" / "yarn", hdfs) as yarn:
            yield yarn
    finally:
        hdfs.kill()


@pytest.fixture(scope="session")
def pair_on_hdfs(cluster_folder: Path, yarn: Yarn) -> Iterator[StandalonePair]:
    """Two clusters of one JVM each on YARN's HDFS."""

    def side(name: str) -> StandaloneCluster:
        conf = {**yarn.hdfs.client_settings(), "hbase.rootdir": f"{yarn.hdfs.url}/{name}"}
        return StandaloneCluster(cluster_folder / "on-yarn" / name, conf, name=name)

    pair = StandalonePair(side("source"), side("peer_cluster"))
    with side_by_side(pair):
        yield pair


@dataclass
class OnYarn:
    """Runs jobs on YARN through Airflow's operator. `lines` are spark-submit's."""

    yarn: Yarn
    lines: list[str] = field(default_factory=list)

    def operator(self, **conf: str) -> SparkJobOperator:
        return SparkJobOperator(task_id="job", conf={**CONF, **conf})

    def run(self, job: Job, **conf: str) -> SparkJobOperator:
        """Submit a job and wait for it. Raises AirflowException if the job fails."""
        operator = self.operator(**conf)
        operator.submit({}, job)  # type: ignore[arg-type, typeddict-item]
        return operator

    def start(self, operator: SparkJobOperator, job: Job) -> Running:
        """Submit a job, and return once YARN knows it."""
        before = self.yarn.applications().keys()
        running = Running(self, operator, job)
        running.thread.start()
        await_that(lambda: running.ended or self.yarn.applications().keys() - before, running.told)
        (running.application,) = self.yarn.applications().keys() - before
        return running

    def printed(self, application: str) -> list[str]:
        """What the processes of an application have printed."""
        logs = self.yarn.container_logs(application).items()
        return [line for name, text in logs if name.endswith("/stdout") for line in text.splitlines()]

    def told(self) -> str:
        """Everything that a failed test should show."""
        newest = max(self.yarn.applications(), default="")
        logs = [f"{name}:\n{text[-6000:]}" for name, text in self.yarn.container_logs(newest).items()]
        return "\n".join([*self.lines, json.dumps(self.yarn.applications().get(newest)), *logs])


class Running:
    """A job under way."""

    def __init__(self, where: OnYarn, operator: SparkJobOperator, job: Job) -> None:
        self.application = ""
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, args=[operator, job], daemon=True)
        self.told = where.told
        self._yarn = where.yarn

    @property
    def ended(self) -> bool:
        return not self.thread.is_alive()

    @property
    def state(self) -> dict[str, Any]:
        """What the ResourceManager says about the application."""
        return self._yarn.applications()[self.application]

    def container(self, *, master: bool) -> Container:
        """Return the application master, or an executor, while a task runs: of that executor, or of any."""
        found: list[Container] = []

        def there() -> bool:
            assert not self.ended, self.told()
            logs = self._yarn.container_logs(self.application)
            busy = {
                name.partition("/")[0] for name, log in logs.items() if log.count("Running task") > log.count("Finished task")
            }
            containers = [each for each in self._yarn.containers(self.application) if each.is_master is master]
            found[:] = [each for each in containers if (master and busy) or each.id in busy]
            return bool(found)

        await_that(there, self.told)
        return found[0]

    def finish(self) -> None:
        """Wait for the job's end. Raises the task's error."""
        self.thread.join(WAIT_SECONDS)
        assert self.ended, self.told()
        if self.error is not None:
            raise self.error

    def _run(self, operator: SparkJobOperator, job: Job) -> None:
        try:
            operator.submit({}, job)  # type: ignore[arg-type, typeddict-item]
        except Exception as error:
            self.error = error


@pytest.fixture
def on_yarn(yarn: Yarn, mode: str, monkeypatch: pytest.MonkeyPatch) -> OnYarn:
    """Airflow's environment for jobs on YARN."""
    found = OnYarn(yarn)
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": mode}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", " ".join(SMALL_JVM))
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYTHONPATH", "SPARK_LAUNCHER_OPTS"):
        monkeypatch.delenv(name, raising=False)
    process = WalferrySubmitHook._process_spark_submit_log

    def noted(lines: Iterator[Any]) -> Iterator[Any]:
        for line in lines:
            found.lines.append(line.rstrip())
            yield line

    monkeypatch.setattr(WalferrySubmitHook, "_process_spark_submit_log", lambda hook, lines: process(hook, noted(lines)))
    return found


@dataclass(frozen=True)
class Backlog:
    """Closed WALs of a managed peer that wait for a job."""

    at: SourceCluster
    address: ClusterAddress  # of the source
    peer: str
    table: str
    source: JavaClient
    peer_cluster: JavaClient

    def check_shipped(self) -> None:
        """Check that the peer cluster has all edits, and that the positions say so."""
        assert not plan(self.at, self.peer).to_ship
        compared = self.source.compare(self.table, self.peer_cluster, raw=True)
        assert compared.same, compared.examples
        assert compared.left >= WALS * ROWS


def ship(backlog: Backlog, **fields: object) -> ShipRun:
    """Return a job that ships a backlog."""
    job: dict[str, Any] = {"run_id": "run", "deadline": WAIT_SECONDS, **fields}
    return ShipRun(source=backlog.at, peer_id=backlog.peer, **job)


@pytest.fixture
def backlog(
    pair_on_hdfs: StandalonePair, java_client: Callable[..., JavaClient], managed_peer: Callable[..., str],
    unique: Callable[[str], str],
) -> Backlog:  # fmt: skip
    source, peer_cluster = (java_client(cluster.address) for cluster in pair_on_hdfs)
    peer, table = managed_peer(pair_on_hdfs.source.address, pair_on_hdfs.peer_cluster.address), unique("t")
    at = source_of(pair_on_hdfs.source.address)
    for client in (source, peer_cluster):
        client.create_table(table, {"f": GLOBAL}, even_splits(4))
    for wal in range(WALS):
        source.put_many(table, ROWS, ["f:a"], first=wal * ROWS)
        roll(at, peer)
    return Backlog(at, pair_on_hdfs.source.address, peer, table, source, peer_cluster)


def await_that(done: Callable[[], object], told: Callable[[], str]) -> None:
    """Wait until `done()`. Fails with what `told` says."""
    give_up = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < give_up, told()
        time.sleep(0.1)
