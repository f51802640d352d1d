"""The services of docker-compose.yaml, run without containers by the same commands.

The tests need no container engine, but Postgres as Debian packages it. pip makes the environment as in the Dockerfile.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.airflow.container_processes import POSTGRES, Containers, build
from walferry.airflow.page.links import URL_ROUTE

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(POSTGRES is None, reason="Postgres is not installed"),
]
AIRFLOW = ("airflow-apiserver", "airflow-dag-processor", "airflow-triggerer", "airflow-scheduler")
RUN_SECONDS = 180
# With the providers of the image: the task runs where the scheduler runs.
DAG = """\
from airflow.sdk import dag, task

@dag(schedule=None)
def trivial():
    @task
    def answer():
        return 42
    answer()

trivial()
"""
JOB = """\
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
assert spark.sparkContext.parallelize(range(10), 2).map(lambda number: number * 2).sum() == 90
assert spark.conf.get("spark.authenticate") == "true"
"""


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("image"))


@pytest.fixture
def containers(venv: Path, tmp_path: Path) -> Iterator[Containers]:
    services = Containers(tmp_path, venv)
    yield services
    services.stop()


def test_airflow_runs_tasks_and_its_health_checks_see_what_is_dead(containers: Containers) -> None:
    (containers.home / "dags" / "trivial.py").write_text(DAG)
    containers.start_database()
    containers.run("airflow-init")
    assert "admin already exist" in containers.run("airflow-init")  # can be repeated
    for name in AIRFLOW:
        containers.start(name)
    for name in AIRFLOW:
        containers.await_health(name, True)
    assert _state_of_a_run(containers) == "success"
    with _client(containers) as client:
        assert client.get(f"/{URL_ROUTE}/replication").status_code == httpx.codes.OK
        del client.headers["Authorization"]
        assert client.get(f"/{URL_ROUTE}/replication").status_code == httpx.codes.UNAUTHORIZED

    # It hangs: the process is there, and the check fails all the same.
    containers.main_process("airflow-scheduler").send_signal(signal.SIGSTOP)
    containers.await_health("airflow-scheduler", False)
    containers.main_process("airflow-scheduler").send_signal(signal.SIGCONT)
    containers.await_health("airflow-scheduler", True)
    for name in reversed(AIRFLOW):
        containers.kill(name)
        containers.await_health(name, False)

    containers.start("airflow-apiserver")
    containers.start("airflow-scheduler")
    containers.await_health("airflow-apiserver", True)
    containers.await_health("airflow-scheduler", True)
    assert _state_of_a_run(containers) == "success"


def test_spark_runs_jobs_of_those_who_know_the_secret(containers: Containers, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    for name in ("spark-connect", "spark-master"):
        containers.start(name)
    containers.await_health("spark-master", True)
    containers.start("spark-worker")
    for name in ("spark-connect", "spark-worker"):
        containers.await_health(name, True)

    job = ["spark-submit", "--master", f"spark://127.0.0.1:{containers.master}", str(tmp_path / "job.py")]
    done = containers.run_in("airflow-scheduler", job)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    refused = containers.run_in("airflow-scheduler", job, without=["SPARK_SECRET_FILE"])
    assert refused.returncode != 0
    assert "secret key must be specified" in refused.stdout + refused.stderr

    for name in ("spark-worker", "spark-master", "spark-connect"):
        containers.kill(name)
        containers.await_health(name, False)


@contextmanager
def _client(containers: Containers) -> Iterator[httpx.Client]:
    """Yield Airflow's API, as the first user."""
    with httpx.Client(base_url=f"http://127.0.0.1:{containers.api}", timeout=30) as client:
        login = client.post("/auth/token", json={"username": "admin", "password": containers.admin_password})
        login.raise_for_status()
        client.headers["Authorization"] = f"Bearer {login.json()['access_token']}"
        yield client


def _state_of_a_run(containers: Containers) -> str:
    """Run the DAG through Airflow's API. Returns how it ended."""
    with _client(containers) as client:
        deadline = time.monotonic() + RUN_SECONDS
        while client.get("/api/v2/dags/trivial").status_code == httpx.codes.NOT_FOUND and time.monotonic() < deadline:
            time.sleep(1)
        client.patch("/api/v2/dags/trivial", json={"is_paused": False}).raise_for_status()
        triggered = client.post("/api/v2/dags/trivial/dagRuns", json={"logical_date": None, "conf": {}})
        triggered.raise_for_status()
        return _end(client, f"/api/v2/dags/trivial/dagRuns/{triggered.json()['dag_run_id']}", deadline)


def _end(client: httpx.Client, run: str, deadline: float) -> str:
    found: dict[str, Any] = {}
    while found.get("state") not in ("success", "failed") and time.monotonic() < deadline:
        time.sleep(1)
        found = client.get(run).json()
    return str(found["state"])
