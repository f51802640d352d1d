"""Runs Airflow standalone on this repo's dags and plugins, with a home of its own, and makes the API calls of demo and tests."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from embedded.processes import ClusterError, free_port

REPO = Path(__file__).resolve().parents[1]
START_TIMEOUT_SECONDS = 300
RUN_TIMEOUT_SECONDS = 600
CALL_TIMEOUT_SECONDS = 30
CALLS_TIMEOUT_SECONDS = 120  # for a call with all its tries
LOG_TAIL_LINES = 60
REPORT_EVERY_SECONDS = 10
ENDED = ("success", "failed")
SLOW_MACHINE_SECONDS = "120"
LOCAL_SETTINGS = "import walferry.airflow.preload\n"  # tasks are forked from a process that has imported the library


class AirflowError(ClusterError):
    """Airflow did not start, or a run did not end."""


class Airflow:
    """Airflow under `home`. It ends with this process. `connections` are environment variables AIRFLOW_CONN_…

    On a machine that is `slowness` times as slow as it should be, it gets as much more time for all that it does.
    """

    def __init__(self, home: Path, connections: Mapping[str, str]) -> None:
        self.url = f"http://localhost:{free_port()}"
        self._home = home
        self._log = home / "airflow.log"
        self.slowness = 1.0
        self.environment = {**_settings(home, self.url), **connections}  # what its processes have besides ours
        self._environment = {**os.environ, **self.environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx.Client(base_url=self.url)

    def launch(self) -> None:
        """Start Airflow without waiting for it."""
        (self._home / "config").mkdir(parents=True, exist_ok=True)
        (self._home / "config" / "airflow_local_settings.py").write_text(LOCAL_SETTINGS)
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "embedded.hold", str(Path(sys.executable).with_name("airflow")), "standalone"],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=REPO,
                env=self._environment,
            )

    def await_dag(self, dag_id: str) -> None:
        """Wait until scheduler, DAG processor and API are up and know the DAG."""
        seconds = START_TIMEOUT_SECONDS * self.slowness
        deadline = time.monotonic() + seconds
        while not (self._is_healthy() and self._logged_in() and self._get(f"/api/v2/dags/{dag_id}") is not None):
            if self._process is None or self._process.poll() is not None:
                raise AirflowError("Airflow ended while starting", self.log_tail())
            if time.monotonic() > deadline:
                raise AirflowError(f"Airflow does not know DAG {dag_id} after {seconds:.0f} s", self.log_tail())
            time.sleep(0.5)

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler run the DAG: triggered runs, and scheduled ones."""
        self._call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def details(self, dag_id: str) -> dict[str, Any]:
        """What Airflow knows of the DAG, such as its parameters."""
        return self._get(f"/api/v2/dags/{dag_id}/details") or {}

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> str:
        """Have the scheduler run the DAG. Returns the run's id, which is ours, so that a second try begins no second run."""
        run_id = f"manual__{datetime.now(UTC).isoformat()}"
        self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)})
        return run_id

    def command(self, *words: str) -> str:
        """Run the command `airflow` beside the running servers; returns what it printed."""
        command = [str(Path(sys.executable).with_name("airflow")), *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=REPO, env=self._environment, check=False)
        if done.returncode:
            raise AirflowError(f"airflow {' '.join(words)}: exit code {done.returncode}", done.stderr[-2000:])
        return done.stdout

    def await_runs(
        self, dag_id: str, waiting: Callable[[list[dict[str, Any]]], None] | None = None, *, least: int = 0
    ) -> list[dict[str, Any]]:
        """Wait until there are `least` runs, and none is queued or running. Returns all, which then are `success` or `failed`.

        `waiting` gets all runs now and then, while some have not ended.
        """
        reported = time.monotonic()
        seconds = RUN_TIMEOUT_SECONDS * self.slowness
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            runs = self.runs(dag_id)
            if len(runs) >= least and all(run["state"] in ENDED for run in runs):
                return runs
            if waiting is not None and time.monotonic() - reported >= REPORT_EVERY_SECONDS:
                waiting(runs)
                reported = time.monotonic()
            time.sleep(0.5)
        raise AirflowError(f"runs of {dag_id} did not end within {seconds:.0f} s", self.log_tail())

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """All runs, the oldest first, with the scheduled ones."""
        answer = self._get(f"/api/v2/dags/{dag_id}/dagRuns?order_by=run_after&limit=100") or {"dag_runs": []}
        return list(answer["dag_runs"])

    def await_run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Wait until this run has ended."""
        seconds = RUN_TIMEOUT_SECONDS * self.slowness
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            run = self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")
            if run is not None and run["state"] in ENDED:
                return run
            time.sleep(0.5)
        raise AirflowError(f"run {run_id} of {dag_id} did not end within {seconds:.0f} s", self.log_tail())

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """A run's task instances."""
        answer = self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100") or {"task_instances": []}
        return list(answer["task_instances"])

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Have the run repeat this task and all tasks after it."""
        body = {
            "dag_run_id": run_id, "task_ids": [task_id], "include_downstream": True, "only_failed": False, "dry_run": False,
            "reset_dag_runs": True,
        }  # fmt: skip
        self._call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body, again=False)  # it would end the task that goes on

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> None:
        """Choose an option that a task asks for."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"
        self._call("PATCH", path, {"chosen_options": [option]})

    def task_log(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1, try_number: int = 1) -> str:
        """A task's log, a line for each message."""
        place = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        answer = self._get(f"{place}?map_index={map_index}&full_content=true") or {"content": []}
        return "\n".join(str(line.get("event", line)) if isinstance(line, dict) else str(line) for line in answer["content"])

    def returned(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Any:
        """What a task returned, or None."""
        place = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        answer = self._get(f"{place}?map_index={map_index}&deserialize=true")
        return None if answer is None else answer["value"]

    @property
    def password(self) -> str:
        """The password of user `admin`, which Airflow makes at its first start."""
        text: str = json.loads((self._home / "passwords.json").read_text())["admin"]
        return text

    @property
    def pid(self) -> int:
        """The process from which all processes of Airflow descend."""
        if self._process is None:
            raise AirflowError("Airflow was not launched")
        return self._process.pid

    def stop(self) -> None:
        """End all processes of Airflow."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(60)

    def log_tail(self) -> str:
        """The end of the log, for an error message."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join([f"the end of {self._log}:", *lines[-LOG_TAIL_LINES:]])

    def _is_healthy(self) -> bool:
        try:
            health = self._client.get("/api/v2/monitor/health", timeout=CALL_TIMEOUT_SECONDS).json()
        except (httpx.HTTPError, ValueError):
            return False
        return all(health.get(part, {}).get("status") == "healthy" for part in ("scheduler", "dag_processor"))

    def _logged_in(self) -> bool:
        if "Authorization" not in self._client.headers:
            token = self._call("POST", "/auth/token", {"username": "admin", "password": self.password})["access_token"]
            self._client.headers["Authorization"] = f"Bearer {token}"
        return True

    def _get(self, path: str) -> dict[str, Any] | None:
        """Return the answer, or None if it does not exist."""
        answer, _ = self._answer("GET", path)
        return None if answer.status_code == httpx.codes.NOT_FOUND else self._content(answer)

    def _call(self, method: str, path: str, body: Mapping[str, Any], *, again: bool = True) -> dict[str, Any]:
        """Return the answer to a call; `again`: it does no harm when it is made twice."""
        answer, tries = self._answer(method, path, body, again=again)
        if answer.status_code == httpx.codes.CONFLICT and tries > 1:
            return {}  # an earlier try has done it, and its answer was lost
        return self._content(answer)

    def _content(self, answer: httpx.Response) -> dict[str, Any]:
        if answer.is_error:
            raise AirflowError(
                f"{answer.request.method} {answer.request.url.path}: Airflow answered {answer.status_code} {answer.text[:500]}",
                self.log_tail(),
            )
        value: dict[str, Any] = answer.json()
        return value

    def _answer(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, again: bool = True
    ) -> tuple[httpx.Response, int]:
        """Ask until there is an answer, as a busy machine may lose calls. Returns it and the tries. Raises AirflowError."""
        seconds = CALLS_TIMEOUT_SECONDS * self.slowness
        deadline = time.monotonic() + seconds
        for tries in itertools.count(1):
            try:
                answer = self._client.request(method, path, json=body, timeout=CALL_TIMEOUT_SECONDS * self.slowness)
                if not answer.is_server_error:
                    return answer, tries
                problem = f"it answered {answer.status_code} {answer.text[:500]}"
            except httpx.HTTPError as error:
                problem = str(error) or type(error).__name__
            if self._process is not None and self._process.poll() is not None:
                raise AirflowError(f"Airflow has ended before it answered {method} {path}", self.log_tail())
            if not again or time.monotonic() > deadline:
                raise AirflowError(f"Airflow did not do {method} {path} within {seconds:.0f} s: {problem}", self.log_tail())
            time.sleep(1)
        raise AssertionError("unreachable")


def _settings(home: Path, url: str) -> dict[str, str]:
    port = url.rsplit(":", 1)[1]
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPO / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPO / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": port,
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        # Tasks whose call of the API takes longer fail, and DAG files whose import does are not there.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": SLOW_MACHINE_SECONDS,
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": SLOW_MACHINE_SECONDS,
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": SLOW_MACHINE_SECONDS,
        "AIRFLOW__DAG_PROCESSOR__HEALTH_CHECK_THRESHOLD": SLOW_MACHINE_SECONDS,
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": SLOW_MACHINE_SECONDS,
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        # `airflow standalone` looks on PATH for the commands that it starts.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
