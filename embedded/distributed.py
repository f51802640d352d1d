"""Runs clusters on this machine as in production: one HDFS, and for each cluster ZooKeeper, a master and RegionServers, all in
processes of their own that a test can stop, kill and add.

    with DistributedClusters(folder, {"source": ClusterOptions(), "peer": ClusterOptions(regionserver_heap="3g")}) as clusters:
        clusters["source"].kill_regionserver(0)
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

import psutil

from embedded.delay import DelayingProxy
from embedded.ephemerals import forget_master, forget_regionserver
from embedded.hbase import LOCAL_ONLY, SMALL, ZNODE_PARENT, ClusterAddress, write_log4j, write_site, zookeeper_settings
from embedded.hdfs import Hdfs
from embedded.jars import HBASE_2, JarSet
from embedded.processes import SMALL_JVM, ZOOKEEPER_WITHOUT_FSYNC, ClusterError, JavaProcess, free_port, start_java, wait_until

START_TIMEOUT_SECONDS = 480
STOP_TIMEOUT_SECONDS = 90
FAR_HOST = "127.0.0.2"  # the address that RegionServers of a far cluster publish


@dataclass(frozen=True)
class ClusterOptions:
    """A cluster's options. `conf` adds to hbase-site.xml, heaps are -Xmx values, `jars` choose the release (embedded.classic).

    With `round_trip` (seconds) the RegionServers are far from all clients but the cluster's own servers; ZooKeeper stays near.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    regionservers: int = 2
    regionserver_heap: str = "768m"
    master_heap: str = "512m"
    # Full compilation takes half of the processor time of a server that lives for minutes; a benchmark needs it.
    regionserver_jvm: tuple[str, ...] = SMALL_JVM
    jvm: tuple[str, ...] = ()  # of all the cluster's processes
    jars: JarSet = HBASE_2
    classpath: Sequence[Path] = ()  # of the cluster's servers, after HBase's own jars
    round_trip: float = 0.0


@dataclass(frozen=True)
class RegionServer:
    """One running RegionServer, and the proxy before it if it is far away."""

    process: JavaProcess
    proxy: DelayingProxy | None = None

    @property
    def is_serving(self) -> bool:
        return _serving_as(self.process) is not None

    @property
    def server_name(self) -> str:
        """`host,port,startcode`, as in ZooKeeper."""
        name = _serving_as(self.process)
        if name is None:
            raise ClusterError(f"{self.process.name} has not reported to its master yet", self.process.tail())
        return name


class FileSystem(Protocol):
    """The file system of a cluster."""

    @property
    def url(self) -> str:
        """The URL of the folder that contains a folder for each cluster."""

    def client_settings(self) -> dict[str, str]:
        """Return the settings of a client of this file system."""


class DistributedCluster:
    """ZooKeeper, a master and RegionServers on `files`. DistributedClusters makes it."""

    def __init__(self, name: str, folder: Path, files: FileSystem, options: ClusterOptions) -> None:
        self.name = name
        self.regionservers: list[RegionServer] = []
        self.options = options
        self._folder = folder
        self._files = files
        self._port = free_port()
        self._started = 0
        self._masters = 0
        self.zookeeper: JavaProcess | None = None
        self.master: JavaProcess | None = None

    @property
    def address(self) -> ClusterAddress:
        """The cluster's address, known before the start."""
        return ClusterAddress(
            quorum=f"localhost:{self._port}",
            znode_parent=ZNODE_PARENT,
            wal_root=f"{self._files.url}/{self.name}",
            hbase_site=self._folder / "conf" / "hbase-site.xml",
        )

    @property
    def _is_zookeeper_alive(self) -> bool:
        return self.zookeeper is not None and self.zookeeper.alive

    def launch_zookeeper(self) -> None:
        write_site(self.address.hbase_site, self._settings())
        if self.options.jars is not HBASE_2:
            write_log4j(self.address.hbase_site)
        self.zookeeper = self._launch("zookeeper", "zookeeper.HQuorumPeer", [], "256m", (*SMALL_JVM, ZOOKEEPER_WITHOUT_FSYNC))

    def launch_servers(self) -> None:
        """Start the master and the RegionServers. HDFS and ZooKeeper must be running."""
        self.launch_master()
        for _ in range(self.options.regionservers):
            self.launch_regionserver()

    def launch_master(self) -> None:
        """Start a master and do not wait for it. If another master is active, it becomes a backup."""
        self._masters += 1
        name = "master" if self._masters == 1 else f"master{self._masters}"  # gives it a log of its own
        self.master = self._launch(name, "master.HMaster", ["start"], self.options.master_heap, SMALL_JVM)

    def launch_regionserver(self) -> RegionServer:
        """Add a RegionServer and do not wait for it."""
        self._started += 1
        proxy, settings = self._far_away() if self.options.round_trip else (None, [])
        process = self._launch(
            f"regionserver{self._started}",
            "regionserver.HRegionServer",
            [*settings, "start"],
            self.options.regionserver_heap,
            self.options.regionserver_jvm,
        )
        server = RegionServer(process, proxy)
        self.regionservers.append(server)
        return server

    def await_ready(self) -> None:
        """Wait until the master has assigned the system tables and all RegionServers have reported to it."""
        master = self.master
        if master is None:
            raise ClusterError(f"cluster {self.name} has not been started")
        wait_until(
            lambda: "Master has completed initialization" in master.log_text() and all(s.is_serving for s in self.regionservers),
            f"cluster {self.name} serves",
            processes=[master, *(server.process for server in self.regionservers)],
            timeout=START_TIMEOUT_SECONDS,
        )

    def start_master(self) -> None:
        """Start another master after the previous one was killed, and wait until it serves."""
        self.launch_master()
        self.await_ready()

    def start_regionserver(self) -> RegionServer:
        """Add a RegionServer (each time a new one with its own port), and wait until it serves."""
        server = self.launch_regionserver()
        self._await_serving([server])
        return server

    def kill_regionserver(self, index: int = 0) -> RegionServer:
        """Kill (-9) one of `regionservers`, remove it from the list and return it. The cluster notices its death at once."""
        server = self.regionservers.pop(index)
        server.process.kill()
        _close(server.proxy)
        if server.is_serving and self._is_zookeeper_alive:
            forget_regionserver(self.address, server.server_name)
        return server

    def kill_master(self) -> None:
        """Kill (-9) the master, so that the next one becomes active at once."""
        if self.master is None:
            raise ClusterError(f"cluster {self.name} has not been started")
        self.master.kill()
        if self._is_zookeeper_alive:
            forget_master(self.address)

    def stop_regionserver(self, index: int = 0) -> RegionServer:
        """Shut a RegionServer down in order: it closes its regions, and its WALs get their trailer."""
        server = self.regionservers.pop(index)
        server.process.stop(STOP_TIMEOUT_SECONDS)
        _close(server.proxy)
        return server

    def kill_all_regionservers(self) -> None:
        """Take the cluster down for its clients at once. ZooKeeper and master stay."""
        while self.regionservers:
            self.kill_regionserver()

    def start_all_regionservers(self) -> None:
        """Start as many RegionServers as the cluster should have, after they were killed or stopped."""
        servers = [self.launch_regionserver() for _ in range(self.options.regionservers - len(self.regionservers))]
        self._await_serving(servers)

    def kill(self) -> None:
        for process in [*(server.process for server in self.regionservers), self.master, self.zookeeper]:
            if process is not None:
                process.kill()
        for server in self.regionservers:
            _close(server.proxy)

    def _far_away(self) -> tuple[DelayingProxy, list[str]]:
        """Return a listening proxy for a new RegionServer, and the settings that put that server behind it."""
        port = free_port()
        proxy = DelayingProxy((FAR_HOST, port), ("127.0.0.1", port), self.options.round_trip / 2, is_near=self._has_port)
        proxy.start()
        return proxy, [f"-Dhbase.regionserver.port={port}", f"-Dhbase.unsafe.regionserver.hostname={FAR_HOST}"]

    def _has_port(self, port: int) -> bool:
        """Return whether one of the cluster's own servers has a connection from this port."""
        for process in [*(server.process for server in self.regionservers), self.master]:
            with contextlib.suppress(psutil.Error):
                if process and any(c.laddr.port == port for c in psutil.Process(process.pid).net_connections("tcp")):
                    return True
        return False

    def _await_serving(self, servers: list[RegionServer]) -> None:
        wait_until(
            lambda: all(server.is_serving for server in servers),
            f"RegionServers of {self.name} report to their master",
            processes=[server.process for server in servers],
            timeout=START_TIMEOUT_SECONDS,
        )

    def _launch(self, name: str, main: str, args: list[str], heap: str, options: tuple[str, ...]) -> JavaProcess:
        return start_java(
            name,
            f"org.apache.hadoop.hbase.{main}",
            args,
            folder=self._folder,
            classpath=[self.address.hbase_site.parent, *self.options.classpath],
            heap=heap,
            options=(*options, *self.options.jvm),
            jars=self.options.jars,
        )

    def _settings(self) -> dict[str, str]:
        return {
            **LOCAL_ONLY,
            **SMALL,
            **self._files.client_settings(),
            **zookeeper_settings(self._port),
            "hbase.cluster.distributed": "true",
            "hbase.rootdir": self.address.wal_root,
            "hbase.tmp.dir": str(self._folder / "tmp"),
            "hbase.zookeeper.property.dataDir": str(self._folder / "zookeeper"),
            **self.options.conf,
        }


class DistributedClusters:
    """Clusters by name on one HDFS, all under `folder` (created; not removed at the end)."""

    def __init__(self, folder: Path, clusters: Mapping[str, ClusterOptions], *, datanodes: int = 1) -> None:
        self.hdfs = Hdfs(folder / "hdfs", datanodes=datanodes)
        self._clusters = {name: DistributedCluster(name, folder / name, self.hdfs, options) for name, options in clusters.items()}

    def __getitem__(self, name: str) -> DistributedCluster:
        return self._clusters[name]

    def start(self) -> None:
        for cluster in self._clusters.values():
            cluster.launch_zookeeper()
        self.hdfs.start()
        for cluster in self._clusters.values():
            cluster.launch_servers()
        for cluster in self._clusters.values():
            cluster.await_ready()

    def kill(self) -> None:
        for cluster in self._clusters.values():
            cluster.kill()
        self.hdfs.kill()

    def __enter__(self) -> DistributedClusters:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()


def _close(proxy: DelayingProxy | None) -> None:
    if proxy is not None:
        proxy.close()


def _serving_as(process: JavaProcess) -> str | None:
    found = re.search(r"Serving as ([^,\s]+,\d+,\d+)", process.log_text())
    return found.group(1) if found else None
