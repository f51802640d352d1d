"""Runs a real YARN: a ResourceManager and NodeManagers in processes of their own, on an HDFS for the files of applications.

All of them listen on this machine only. A NodeManager's containers are processes below it, and end with it. Each NodeManager has
a folder that stands for its machine.
"""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from embedded.hbase import write_site
from embedded.hdfs import Hdfs
from embedded.jars import YARN
from embedded.java import find_java
from embedded.processes import SMALL_JVM, JavaProcess, free_port, start_java, wait_until

START_TIMEOUT_SECONDS = 300
CALL_SECONDS = 30
LEAST_MB = 256  # of memory in a container
HEAP = "256m"
SERVER = "org.apache.hadoop.yarn.server"
QUEUES = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
}


@dataclass(frozen=True)
class Container:
    """A running JVM of an application: its application master or an executor."""

    application: str
    id: str
    process: psutil.Process
    is_master: bool


class Yarn:
    """A ResourceManager, and `nodemanagers` with `memory_mb` for containers each. `hdfs` must be running when it starts.

    If HDFS demands Kerberos, YARN does too, and its daemons have HDFS's principal. Containers run as the user of this process.
    """

    def __init__(self, folder: Path, hdfs: Hdfs, *, nodemanagers: int = 2, memory_mb: int = 2048, cores: int = 4) -> None:
        self.folder = folder
        self.nodemanagers: list[JavaProcess] = []
        self.resourcemanager: JavaProcess | None = None
        self.hdfs = hdfs
        self._count = nodemanagers
        self._size = {"memory-mb": str(memory_mb), "cpu-vcores": str(cores)}
        self._web = free_port()
        names = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
        self._addresses = {f"yarn.resourcemanager.{name}": f"localhost:{free_port()}" for name in names}

    @property
    def conf(self) -> Path:
        """The folder for HADOOP_CONF_DIR of clients, NodeManagers and containers."""
        return self.folder / "conf" / "client"

    @property
    def web(self) -> str:
        """The address of the ResourceManager's web pages."""
        return f"http://localhost:{self._web}"

    def start(self) -> None:
        """Start all daemons and wait until the NodeManagers are registered. Raises ClusterError."""
        self._write_conf(self.conf, {})
        conf = self._write_conf(self.folder / "conf" / "resourcemanager", {})
        manager = self._launch("resourcemanager", "resourcemanager.ResourceManager", conf)
        self.resourcemanager = manager
        self.nodemanagers = [self._launch_nodemanager(number) for number in range(self._count)]
        wait_until(
            lambda: manager.log_text().count("registered with capability") >= self._count,
            "YARN's NodeManagers are registered",
            processes=[manager, *self.nodemanagers],
            timeout=START_TIMEOUT_SECONDS,
        )

    def kill(self) -> None:
        """End all daemons and containers."""
        for process in [*self.nodemanagers, self.resourcemanager]:
            if process is not None:
                process.stop()

    def __enter__(self) -> Yarn:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def applications(self) -> dict[str, dict[str, Any]]:
        """Return what the ResourceManager's REST API says about each application."""
        with urllib.request.urlopen(f"{self.web}/ws/v1/cluster/apps", timeout=CALL_SECONDS) as answer:
            found = json.load(answer)
        return {app["id"]: app for app in (found["apps"] or {}).get("app", ())}

    def containers(self, application: str) -> list[Container]:
        """Return the running containers of an application, its master first."""
        found = [each for each in self._containers() if each.application == application]
        return sorted(found, key=lambda each: not each.is_master)

    def container_logs(self, application: str) -> dict[str, str]:
        """Return what an application's containers have printed, by container and file."""
        logs = sorted(self.folder.glob(f"node*/logs/{application}/*/std*"))
        return {f"{log.parent.name}/{log.name}": log.read_text(errors="replace") for log in logs}

    def _containers(self) -> Iterator[Container]:
        for node in self.nodemanagers:
            with suppress(psutil.Error):
                for process in psutil.Process(node.pid).children(recursive=True):
                    with suppress(psutil.Error):  # the process has just ended
                        words, place = process.cmdline(), process.cwd()
                        named = re.search(r"/(application_\d+_\d+)/(container_\w+)$", place)
                        if named and words and Path(words[0]).name == "java":
                            yield Container(named[1], named[2], process, any("deploy.yarn" in word for word in words))

    def _launch_nodemanager(self, number: int) -> JavaProcess:
        node = self.folder / f"node{number}"
        conf = self._write_conf(
            self.folder / "conf" / node.name,
            {
                "yarn.nodemanager.local-dirs": str(node / "local"),
                "yarn.nodemanager.log-dirs": str(node / "logs"),
                "yarn.nodemanager.localizer.address": f"localhost:{free_port()}",
                "yarn.nodemanager.webapp.address": f"localhost:{free_port()}",
                "yarn.nodemanager.address": f"localhost:{free_port()}",
                **{f"yarn.nodemanager.resource.{name}": value for name, value in self._size.items()},
            },
        )
        return self._launch(node.name, "nodemanager.NodeManager", conf, holding=True)

    def _launch(self, name: str, main: str, conf: Path, *, holding: bool = False) -> JavaProcess:
        # Containers get these variables from their NodeManager, as env-whitelist says.
        environment = {
            "JAVA_HOME": str(find_java().resolve().parents[1]),
            "HADOOP_CONF_DIR": str(self.conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        kerberos = self.hdfs.security.kerberos.jvm_options if self.hdfs.security else ()
        return start_java(
            name, f"{SERVER}.{main}", folder=self.folder / name, classpath=[conf], heap=HEAP, options=(*SMALL_JVM, *kerberos),
            jars=YARN, environment=environment, holding=holding,
        )  # fmt: skip

    def _write_conf(self, folder: Path, settings: Mapping[str, str]) -> Path:
        # Tokens name the NameNode as URLs do, so that clients other than Hadoop's find them.
        files = {**self.hdfs.client_settings(), "hadoop.security.token.service.use_ip": "false"}
        write_site(folder / "core-site.xml", {"hadoop.tmp.dir": f"{self.folder}/tmp", **files})
        write_site(folder / "hdfs-site.xml", self.hdfs.client_settings())
        write_site(folder / "capacity-scheduler.xml", QUEUES)
        write_site(folder / "yarn-site.xml", {**self._settings(), **settings})
        return folder

    def _settings(self) -> dict[str, str]:
        return {
            **self._addresses,
            "yarn.resourcemanager.hostname": "localhost",
            "yarn.resourcemanager.webapp.address": f"localhost:{self._web}",
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
            "yarn.scheduler.minimum-allocation-mb": str(LEAST_MB),
            "yarn.nodemanager.hostname": "localhost",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,HADOOP_CONF_DIR,SPARK_LOCAL_IP,PATH,LANG",
            # Java reserves more address space than it uses, and a disk that is nearly full would stop the node.
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.log-aggregation-enable": "false",
            **self._kerberos_settings(),
        }

    def _kerberos_settings(self) -> dict[str, str]:
        if self.hdfs.security is None:
            return {}
        principal = self.hdfs.security.principal
        keytab = str(self.hdfs.security.kerberos.keytab(principal))
        daemons = [f"yarn.{daemon}" for daemon in ("resourcemanager", "nodemanager")]
        return {
            **{f"{daemon}.principal": principal for daemon in daemons},
            **{f"{daemon}.keytab": keytab for daemon in daemons},
            # The web pages stay without Kerberos.
            "yarn.resourcemanager.webapp.delegation-token-auth-filter.enabled": "false",
        }


def kill(container: Container) -> None:
    """Kill (-9) a container's JVM. Its other processes are ended by the NodeManager."""
    with suppress(ProcessLookupError):
        os.kill(container.process.pid, signal.SIGKILL)
