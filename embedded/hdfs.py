"""Runs a real HDFS: a NameNode and DataNodes in processes of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from embedded.hbase import write_site
from embedded.kerberos import Kerberos
from embedded.processes import SMALL_JVM, JavaProcess, free_port, start_java, wait_until

START_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class HdfsSecurity:
    """Kerberos for NameNode and DataNodes, which all have the principal `principal` of localhost. `kerberos` must contain it.

    `protection` (authentication, integrity, privacy) holds for RPCs and for DataNodes' data. The short name of `principal` is the
    superuser.
    """

    kerberos: Kerberos
    principal: str  # "hdfs/localhost@EXAMPLE.COM"
    protection: str = "privacy"

    def client_settings(self) -> dict[str, str]:
        """Return the settings of a client, which the servers need too."""
        return {
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.authorization": "true",
            "hadoop.rpc.protection": self.protection,
            "dfs.namenode.kerberos.principal": self.principal,
            "dfs.data.transfer.protection": self.protection,
        }

    def server_settings(self) -> dict[str, str]:
        keytab = str(self.kerberos.keytab(self.principal))
        return {
            **self.client_settings(),
            "dfs.namenode.keytab.file": keytab,
            "dfs.datanode.kerberos.principal": self.principal,
            "dfs.datanode.keytab.file": keytab,
            "dfs.block.access.token.enable": "true",
            # Otherwise DataNodes require ports below 1024, or TLS for their web pages.
            "ignore.secure.ports.for.testing": "true",
        }


class Hdfs:
    """A file system under `folder`; `url` is known before the start. With `security`, its KDC must be running."""

    def __init__(self, folder: Path, *, datanodes: int = 1, heap: str = "384m", security: HdfsSecurity | None = None) -> None:
        self.url = f"hdfs://localhost:{free_port()}"
        self.processes: list[JavaProcess] = []
        self.security = security
        self._folder = folder
        self._datanodes = datanodes
        self._heap = heap

    def client_settings(self) -> dict[str, str]:
        """Return the settings of a client of this file system."""
        secured = self.security.client_settings() if self.security else {}
        return {"fs.defaultFS": self.url, "dfs.replication": str(min(self._datanodes, 2)), **secured}

    def start(self) -> None:
        """Format and start HDFS; wait until the NameNode accepts writes and all DataNodes have registered."""
        conf = self._write_conf("namenode", {"dfs.namenode.name.dir": f"file://{self._folder}/name"})
        form = self._launch("format", "namenode.NameNode", ["-format", "-nonInteractive"], conf)
        wait_until(lambda: not form.alive, "the NameNode is formatted", processes=[], timeout=START_TIMEOUT_SECONDS)
        namenode = self._launch("namenode", "namenode.NameNode", [], conf)
        self.processes = [namenode]
        for i in range(self._datanodes):
            conf = self._write_conf(f"datanode{i}", {"dfs.datanode.data.dir": f"file://{self._folder}/data{i}"})
            self.processes.append(self._launch(f"datanode{i}", "datanode.DataNode", [], conf))
        wait_until(
            lambda: "Leaving safe mode" in namenode.log_text() and all(map(_has_registered, self.processes[1:])),
            "HDFS serves",
            processes=self.processes,
            timeout=START_TIMEOUT_SECONDS,
        )

    def kill(self) -> None:
        for process in self.processes:
            process.kill()

    def _launch(self, name: str, main: str, args: list[str], conf: Path) -> JavaProcess:
        return start_java(
            name,
            f"org.apache.hadoop.hdfs.server.{main}",
            args,
            folder=self._folder,
            classpath=[conf],
            heap=self._heap,
            options=(*SMALL_JVM, *(self.security.kerberos.jvm_options if self.security else ())),
        )

    def _write_conf(self, name: str, settings: dict[str, str]) -> Path:
        conf = self._folder / "conf" / name
        # The daemons look for their web pages on the class path, and do not start without them.
        for page in ("hdfs", "datanode"):
            web = conf / "webapps" / page / "WEB-INF" / "web.xml"
            web.parent.mkdir(parents=True, exist_ok=True)
            web.write_text("<web-app/>\n")
        write_site(conf / "core-site.xml", {"hadoop.tmp.dir": f"{self._folder}/tmp", **self.client_settings()})
        local_only = {
            "dfs.namenode.http-address": "127.0.0.1:0",
            "dfs.datanode.hostname": "localhost",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            # A disk that is nearly full would make the NameNode read-only.
            "dfs.namenode.resource.du.reserved": "0",
        }
        secured = self.security.server_settings() if self.security else {}
        write_site(conf / "hdfs-site.xml", {**local_only, **secured, **settings})
        return conf


def _has_registered(datanode: JavaProcess) -> bool:
    return "successfully registered with NN" in datanode.log_text()
