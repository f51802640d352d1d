"""The services of docker-compose.yaml as processes of this machine: their own commands, environments and health checks.

Files of a container are put into a folder instead (/opt/airflow, /run/secrets), and its ports become free ports. Nothing else
changes.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from embedded.java import find_java
from embedded.processes import free_port
from tests.compose_file import REPO, compose, put_in, variables, words

DOCKERFILE = re.sub(r"\\\n", " ", (REPO / "Dockerfile").read_text("utf-8"))
HOLD = REPO / "embedded" / "hold.py"
LOG_TAIL_LINES = 60
COMMAND_SECONDS = 300
POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


def stage(name: str) -> list[str]:
    """Return the lines of a stage of the Dockerfile."""
    return DOCKERFILE.partition(f" AS {name}\n")[2].partition("\nFROM ")[0].splitlines()


def build(folder: Path) -> Path:
    """Make the image's /opt/venv by the commands of its stage `build`. Returns the environment."""
    for line in stage("build"):
        if found := re.fullmatch(r"COPY (.*) /build(/\w+)?/?", line):
            _copy(found[1].split(), folder / "build" / (found[2] or "").strip("/"))
        elif line.startswith("RUN "):
            command = line[4:].replace("/opt/venv", str(folder / "venv")).replace("/build", str(folder / "build"))
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command], cwd=folder / "build", text=True, capture_output=True
            )
            assert done.returncode == 0, f"{command}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return folder / "venv"


class Containers:
    """Services that tests can start, look at and kill. They end with this process."""

    def __init__(self, folder: Path, venv: Path) -> None:
        self.home = folder / "home"
        self.api, self._health, self._database = free_port(), free_port(), free_port()
        self.master, self._master_page, self._worker_page, self.connect = (free_port() for _ in range(4))
        self._folder, self._venv = folder, venv
        self._services = compose()["services"]
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._data: Path | None = None
        self._values = {name: f"{name.lower()}0123456789" for name, default in variables().items() if default is None}
        self._values |= {"AIRFLOW_FERNET_KEY": "A" * 43 + "=", "AIRFLOW_CONN_HBASE_SOURCE": '{"conn_type": "generic"}'}
        _copy(["dags"], self.home / "dags")
        (folder / "secrets").mkdir()
        for name, secret in compose()["secrets"].items():
            (folder / "secrets" / name).write_text(self._values[secret["environment"]])

    @property
    def admin_password(self) -> str:
        return self._values["AIRFLOW_ADMIN_PASSWORD"]

    def start(self, name: str) -> None:
        """Start a service as its container would."""
        command = self._here(words(self._services[name]["command"]))
        if name == "spark-connect":
            command.insert(-1, f"--conf=spark.connect.grpc.binding.port={self.connect}")
        self._launch(name, [str(REPO / "containers" / "entrypoint.sh"), *command], self.environment(name))

    def run(self, name: str) -> str:
        """Run a service to its end. Returns its output."""
        command = [str(REPO / "containers" / "entrypoint.sh"), *self._here(words(self._services[name]["command"]))]
        return self._ran(command, self.environment(name))

    def run_in(self, name: str, command: Sequence[str], *, without: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run another command as a service, without some of the service's variables."""
        environment = {key: value for key, value in self.environment(name).items() if key not in without}
        return self._done([str(REPO / "containers" / "entrypoint.sh"), *command], environment)

    def is_healthy(self, name: str) -> bool:
        """Return whether the service's own health check passes."""
        check = self._here(words(self._services[name]["healthcheck"]["test"]))
        return self._done(check, self.environment(name)).returncode == 0

    def await_health(self, name: str, healthy: bool, seconds: float = 180) -> None:
        """Wait until the health check returns `healthy`."""
        _await(lambda: self.is_healthy(name) is healthy, seconds, lambda: f"{name} is not {healthy}; {self.tail(name)}")

    def main_process(self, name: str) -> psutil.Process:
        """The process whose end would end the container."""
        (main,) = psutil.Process(self._running[name].pid).children()
        return main

    def kill(self, name: str) -> None:
        """Kill -9 the main process. As in a container, no other process of the service survives."""
        self.main_process(name).kill()
        self._running.pop(name).wait(60)

    def stop(self) -> None:
        """End all services."""
        for process in self._running.values():
            assert process.stdin is not None
            process.stdin.close()
        for process in self._running.values():
            process.wait(60)
        self._running.clear()
        if self._data is not None:
            shutil.rmtree(self._data)

    def tail(self, name: str) -> str:
        """Return the end of a service's log."""
        log = self._folder / f"{name}.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join([f"the end of {log}:", *lines[-LOG_TAIL_LINES:]])

    def start_database(self) -> None:
        """Start Postgres, as its image makes it from the service's environment."""
        assert POSTGRES is not None
        settings = self._services["postgres"]["environment"]
        password = self._here([settings["POSTGRES_PASSWORD_FILE"]])[0]
        folder = self._data = Path(tempfile.mkdtemp(prefix="walferry-postgres-"))
        data, own = folder / "data", Path(shutil.copy(password, folder))
        before: list[str] = []
        if os.getuid() == 0:  # Postgres refuses to run as root
            before = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
            shutil.chown(folder, "postgres")
            shutil.chown(own, "postgres")
        init = [POSTGRES / "initdb", "--auth=scram-sha-256", "--username", settings["POSTGRES_USER"], f"--pwfile={own}", data]
        subprocess.run([*before, *init], check=True, capture_output=True, cwd=folder)
        serve = [POSTGRES / "postgres", "-D", data, "-p", self._database, "-c", "listen_addresses=127.0.0.1", "-k", folder]
        self._launch("postgres", [*before, *map(str, serve)], {"PATH": os.environ["PATH"]})
        self.await_health("postgres", True, 60)
        create = [
            str(POSTGRES / "createdb"),
            "--host=127.0.0.1",
            f"--username={settings['POSTGRES_USER']}",
            settings["POSTGRES_DB"],
        ]
        self._ran(create, {**self.environment("postgres"), "PGPASSWORD": Path(password).read_text()})

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of a service: the image's, its own, and free ports."""
        java = find_java().parent
        image = dict(re.findall(r"(\w+)=(\S+)", " ".join(line for line in stage("walferry") if line.startswith("ENV "))))
        own = self._services[name].get("environment", {})
        put = {key: self._here([str(value)])[0] for key, value in {**image, **own}.items()}
        return {
            **put,
            "PATH": f"{self._venv}/bin:{java}:{POSTGRES}:/usr/bin:/bin",
            "HOME": str(self.home),
            "HOSTNAME": socket.gethostname(),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self._database),
            "CONNECT_PORT": str(self.connect),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.api),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(self._health),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(self._health + 1),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(self._health + 2),
        }

    def _here(self, texts: Sequence[str]) -> list[str]:
        """Return texts of the compose file, adapted to this machine."""
        parts = {
            "/run/secrets/": f"{self._folder}/secrets/",
            "/opt/walferry/": f"{REPO}/containers/",
            "/opt/airflow": str(self.home),
            "/opt/venv": str(self._venv),
            "/tmp/spark-work": f"{self._folder}/spark-work",
            "@postgres:5432": f"@127.0.0.1:{self._database}",
            "airflow-apiserver:8080": f"127.0.0.1:{self.api}",
            "127.0.0.1:8080/api": f"127.0.0.1:{self.api}/api",
            "127.0.0.1:8974": f"127.0.0.1:{self._health}",
            "127.0.0.1:8080/json": f"127.0.0.1:{self._master_page}/json",
            "127.0.0.1:8081/json": f"127.0.0.1:{self._worker_page}/json",
            "spark-master:7077": f"127.0.0.1:{self.master}",
        }
        whole = {"7077": self.master, "8080": self._master_page, "8081": self._worker_page, "spark-master": "127.0.0.1"}
        whole["batch-host"] = "127.0.0.1"
        found = []
        for text in (put_in(text, self._values) for text in texts):
            for there, here in parts.items():
                text = text.replace(there, here)
            found.append(str(whole.get(text, text)))
        return found

    def _launch(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as out:
            self._running[name] = subprocess.Popen(
                [sys.executable, str(HOLD), *command], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT,
                env=environment, cwd=self.home,
            )  # fmt: skip

    def _ran(self, command: list[str], environment: dict[str, str]) -> str:
        done = self._done(command, environment)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout + done.stderr

    def _done(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment, cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=COMMAND_SECONDS, check=False, start_new_session=True,
        )  # fmt: skip


def _copy(sources: Sequence[str], target: Path) -> None:
    """Do as COPY does: copy files into a folder, or the contents of one folder."""
    target.mkdir(parents=True, exist_ok=True)
    for source in sources:
        if (REPO / source).is_dir():
            shutil.copytree(REPO / source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.nb[ci]"))
        else:
            shutil.copy(REPO / source, target)


def _await(done: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what()}")
        time.sleep(1)
