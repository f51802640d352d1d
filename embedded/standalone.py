"""Runs HBase and ZooKeeper in one JVM on local files, for the demo and for tests that need no HDFS."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from embedded.ephemerals import forget_servers
from embedded.hbase import LOCAL_ONLY, SMALL, ZNODE_PARENT, ClusterAddress, write_log4j, write_site, zookeeper_settings
from embedded.jars import HBASE_2, JarSet
from embedded.processes import SMALL_JVM, ZOOKEEPER_WITHOUT_FSYNC, ClusterError, JavaProcess, free_port, start_java, wait_until

START_TIMEOUT_SECONDS = 300


class StandaloneCluster:
    """One cluster under `folder` (created; not removed at the end). `conf` adds to or overrides hbase-site.xml, `classpath`
    follows HBase's `jars`, `jvm` contains more options of the JVM, and `environment` more variables of its environment.

    `start()` waits until the cluster serves. To start two at once: `launch()` both, then `await_ready()` both.
    """

    def __init__(
        self,
        folder: Path,
        conf: Mapping[str, str] | None = None,
        *,
        heap: str = "512m",
        name: str = "hbase",
        classpath: Sequence[Path] = (),
        jvm: Sequence[str] = (),
        jars: JarSet = HBASE_2,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.name = name
        self._conf = dict(conf or {})
        self._heap = heap
        self._classpath = classpath
        self._jvm = tuple(jvm)
        self._jars = jars
        self._environment = environment
        self._port = free_port()
        self._process: JavaProcess | None = None
        self._launched_at = 0.0
        self._has_former_life = False

    @property
    def _root(self) -> str:
        return self._conf.get("hbase.rootdir", f"file://{self.folder}/root")

    @property
    def _zookeeper_data(self) -> Path:
        return self.folder / "zookeeper"

    @property
    def address(self) -> ClusterAddress:
        """The cluster's address, known before the start."""
        return ClusterAddress(
            quorum=f"localhost:{self._port}",
            znode_parent=ZNODE_PARENT,
            wal_root=self._conf.get("hbase.wal.dir", self._root),
            hbase_site=self.folder / "conf" / "hbase-site.xml",
        )

    @property
    def process(self) -> JavaProcess:
        if self._process is None:
            raise ClusterError(f"cluster {self.name} has not been started")
        return self._process

    def launch(self) -> None:
        """Start the JVM without waiting for it; after a `stop()` the cluster comes back with its data."""
        if self._process is not None and self._process.alive:
            raise ClusterError(f"cluster {self.name} is running already")
        write_site(self.address.hbase_site, self._settings())
        if self._jars is not HBASE_2:
            write_log4j(self.address.hbase_site)
        self._has_former_life = self._zookeeper_data.exists()
        self._launched_at = time.time()
        self._process = start_java(
            self.name,
            "org.apache.hadoop.hbase.master.HMaster",
            ["start"],
            folder=self.folder,
            classpath=[self.address.hbase_site.parent, *self._classpath],
            heap=self._heap,
            options=(*SMALL_JVM, ZOOKEEPER_WITHOUT_FSYNC, *self._jvm),
            jars=self._jars,
            environment=self._environment,
        )

    def await_ready(self) -> None:
        """Wait until the master has assigned the system tables. Raises ClusterError with the end of the log."""
        if self._has_former_life:
            # Else the master would wait until the sessions of killed servers have ended.
            forget_servers(self.address, created_before=self._launched_at)
        wait_until(
            lambda: "Master has completed initialization" in self.process.log_text(),
            f"cluster {self.name} serves",
            processes=[self.process],
            timeout=START_TIMEOUT_SECONDS,
        )

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def stop(self) -> None:
        """Shut the cluster down in order, so that WALs get their trailer."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """Kill (-9) server and ZooKeeper at once. The files contain everything that was acknowledged to clients."""
        if self._process is not None:
            self._process.kill()

    def __enter__(self) -> StandaloneCluster:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def _settings(self) -> dict[str, str]:
        return {
            **LOCAL_ONLY,
            **SMALL,
            **zookeeper_settings(self._port),
            "hbase.cluster.distributed": "false",
            "hbase.rootdir": self._root,
            "hbase.tmp.dir": str(self.folder / "tmp"),
            "hbase.zookeeper.property.dataDir": str(self._zookeeper_data),
            **self._conf,
        }
