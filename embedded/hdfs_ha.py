"""Runs a real HDFS with two NameNodes of one name service, one of them active, and DataNodes.

    hdfs = HaHdfs(folder)           # hdfs.url is hdfs://<name service>: a client needs hdfs.write_client_conf(folder)
    hdfs.start()                    # nn1 is active
    hdfs.kill_namenode("nn1")
    hdfs.make_active("nn2")

The NameNodes share a folder for their edits, and nothing fails over by itself: a test chooses the active NameNode.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from embedded.hbase import write_site
from embedded.hdfs import START_TIMEOUT_SECONDS, Hdfs, HdfsSecurity
from embedded.processes import SMALL_JVM, ClusterError, JavaProcess, free_port, start_java, wait_until

NAME_SERVICE = "WalferryHA"  # with capitals, as in many clusters
NAMENODES = ("nn1", "nn2")


class HaHdfs(Hdfs):
    """A file system under `folder`; `url` names its name service. `processes` contains only the DataNodes."""

    def __init__(self, folder: Path, *, datanodes: int = 1, heap: str = "192m", security: HdfsSecurity | None = None) -> None:
        super().__init__(folder, datanodes=datanodes, heap=heap, security=security)
        self.url = f"hdfs://{NAME_SERVICE}"
        self.namenodes: dict[str, JavaProcess] = {}
        self.active: str | None = None
        self._ports = {name: (free_port(), free_port()) for name in NAMENODES}  # for RPC and for the web server

    def client_settings(self) -> dict[str, str]:
        addresses: dict[str, str] = {}
        for name, (rpc, web) in self._ports.items():
            addresses[f"dfs.namenode.rpc-address.{NAME_SERVICE}.{name}"] = f"localhost:{rpc}"
            addresses[f"dfs.namenode.http-address.{NAME_SERVICE}.{name}"] = f"localhost:{web}"
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        return {
            **super().client_settings(),
            **addresses,
            "dfs.nameservices": NAME_SERVICE,
            f"dfs.ha.namenodes.{NAME_SERVICE}": ", ".join(NAMENODES),
            f"dfs.client.failover.proxy.provider.{NAME_SERVICE}": provider,
        }

    def write_client_conf(self, folder: Path) -> Path:
        """Write a client's HADOOP_CONF_DIR and return it."""
        write_site(folder / "core-site.xml", {"fs.defaultFS": self.url})
        # With this, hdfs-native waits a third of a second between rounds, and gives up after some seconds instead of a minute.
        quick = {"dfs.client.failover.sleep.base.millis": "300", "dfs.client.failover.sleep.max.millis": "300"}
        write_site(folder / "hdfs-site.xml", {**self.client_settings(), **quick})
        return folder

    def start(self) -> None:
        """Format and start HDFS with nn1 active; wait until it accepts writes and all DataNodes have registered with both."""
        first, second = NAMENODES
        form = self._launch("format", "namenode.NameNode", ["-format", "-nonInteractive"], self._namenode_conf(first))
        wait_until(lambda: not form.alive, "the NameNodes are formatted", processes=[], timeout=START_TIMEOUT_SECONDS)
        shutil.copytree(self._folder / first, self._folder / second)
        for name in NAMENODES:
            self._launch_namenode(name)
        for i in range(self._datanodes):
            conf = self._write_conf(f"datanode{i}", {"dfs.datanode.data.dir": f"file://{self._folder}/data{i}"})
            self.processes.append(self._launch(f"datanode{i}", "datanode.DataNode", [], conf))
        self._await_namenodes()
        self.make_active(first)

    def start_namenode(self, name: str) -> None:
        """Start a NameNode that was killed, as a standby, and wait until it has every DataNode's blocks."""
        self._launch_namenode(name)
        self._await_namenodes()

    def kill_namenode(self, name: str) -> None:
        """Kill (-9) a NameNode."""
        self.namenodes[name].kill()
        if self.active == name:
            self.active = None

    def make_active(self, name: str) -> None:
        """Make a NameNode active, and the previously active one a standby."""
        if self.active == name:
            return
        if self.active:
            self.make_standby(self.active)
        self._admin("-transitionToActive", "--forceactive", name)  # the other NameNode may be dead
        self.active = name

    def make_standby(self, name: str) -> None:
        self._admin("-transitionToStandby", name)
        self.active = None

    def port(self, name: str) -> int:
        """Return the port at which a NameNode listens for RPCs."""
        return self._ports[name][0]

    def kill(self) -> None:
        for namenode in self.namenodes.values():
            namenode.kill()
        super().kill()

    def _launch_namenode(self, name: str) -> None:
        self.namenodes[name] = self._launch(name, "namenode.NameNode", [], self._namenode_conf(name))

    def _namenode_conf(self, name: str) -> Path:
        settings = {
            "dfs.ha.namenode.id": name,
            "dfs.namenode.name.dir": f"file://{self._folder}/{name}",
            "dfs.namenode.safemode.extension": "0",  # ms
            "dfs.namenode.shared.edits.dir": f"file://{self._folder}/shared",
        }
        return self._write_conf(name, {**self.client_settings(), **settings})

    def _await_namenodes(self) -> None:
        """Wait until each NameNode has a block report from each DataNode, and has left safe mode."""
        running = [each for each in self.namenodes.values() if each.alive]

        def ready(namenode: JavaProcess) -> bool:
            log = namenode.log_text()
            return log.count("processReport 0x") >= self._datanodes and "STATE* Leaving safe mode" in log

        wait_until(
            lambda: all(map(ready, running)),
            "the NameNodes serve",
            processes=[*running, *self.processes],
            timeout=START_TIMEOUT_SECONDS,
        )

    def _admin(self, *args: str) -> None:
        """Run `hdfs haadmin`. Raises ClusterError."""
        conf = self._write_conf("admin", self.client_settings())
        options, environment = list(SMALL_JVM), {}
        if self.security:
            who = self.security.principal
            options += self.security.kerberos.jvm_options
            # Hadoop's libraries log in with these settings.
            environment = {"KRB5PRINCIPAL": who, "KRB5KEYTAB": str(self.security.kerberos.keytab(who))}
        admin = start_java(
            "haadmin",
            "org.apache.hadoop.hdfs.tools.DFSHAAdmin",
            args,
            folder=self._folder,
            classpath=[conf],
            heap="128m",
            options=options,
            environment=environment,
        )
        wait_until(lambda: not admin.alive, f"haadmin {' '.join(args)}", processes=[], timeout=START_TIMEOUT_SECONDS)
        if admin.popen.returncode:
            raise ClusterError(f"haadmin {' '.join(args)} failed", admin.tail())
