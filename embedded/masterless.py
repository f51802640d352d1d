"""Runs RegionServers of HBase 1.7.2 without an HMaster, on local files or HDFS, so that another process can be their master.

An HMaster can start on the same files at any time: beforehand to make tables, later to take over, or together with the other
master as a waiting backup.

    with MasterlessCluster(folder) as cluster:
        cluster.launch_regionserver()
        ...                              # become its master
        cluster.start_master()
        assert cluster.hbck().inconsistencies == 0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from embedded.classic import classic_options
from embedded.distributed import DistributedCluster, FileSystem
from embedded.ephemerals import zookeeper
from embedded.jars import hbase_classpath, py4j_jar
from embedded.java import helper_classes
from embedded.processes import SMALL_JVM, ClusterError, start_java, wait_until

HBCK_TIMEOUT_SECONDS = CLIENT_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class LocalFiles:
    """A folder in place of HDFS."""

    folder: Path

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def client_settings(self) -> dict[str, str]:
        return {"fs.defaultFS": "file:///"}


@dataclass(frozen=True)
class HbckReport:
    """The report of `hbase hbck`."""

    inconsistencies: int
    text: str


class MasterlessCluster(DistributedCluster):
    """A ZooKeeper and RegionServers under `folder` (created; not removed at the end). `start` waits for ZooKeeper only.

    The files are local, unless `files` is a running Hdfs.
    """

    def __init__(
        self, folder: Path, conf: Mapping[str, str] | None = None, *, name: str = "masterless", files: FileSystem | None = None
    ) -> None:
        options = classic_options(conf, regionservers=0, multi=True)
        super().__init__(name, folder / name, files or LocalFiles(folder / "files"), options)
        self._hbcks = self._clients = 0

    def start(self) -> None:
        self.launch_zookeeper()
        with zookeeper(self.address):
            pass

    def hbck(self) -> HbckReport:
        """Run HBase's own check of hbase:meta, files and servers. An HMaster must be active."""
        self._hbcks += 1
        process = self._launch(f"hbck{self._hbcks}", "util.HBaseFsck", ["-details"], "256m", SMALL_JVM)
        wait_until(lambda: not process.alive, "hbck has ended", processes=[], timeout=HBCK_TIMEOUT_SECONDS)
        found = re.search(r"^(\d+) inconsistencies detected", process.log_text(), re.MULTILINE)
        if found is None:
            raise ClusterError("hbck did not get to its end", process.tail())
        return HbckReport(int(found[1]), process.log_text())

    def switch_table(self, verb: str, table: str) -> str:
        """Have a client of HBase 1 `enable` or `disable` a table, and wait for that. Returns its last line: done, or failed."""
        self._clients += 1
        process = start_java(
            f"client{self._clients}", "walferry.embedded.TableSwitch", [verb, table], folder=self._folder,
            classpath=[helper_classes([*hbase_classpath(), py4j_jar()]), self.address.hbase_site.parent], heap="256m",
            options=SMALL_JVM, jars=self.options.jars,
        )  # fmt: skip
        wait_until(lambda: not process.alive, "the client has ended", processes=[], timeout=CLIENT_TIMEOUT_SECONDS)
        found = re.findall(r"^(?:done|failed): .*$", process.log_text(), re.MULTILINE)
        if not found:
            raise ClusterError("the client did not get to its end", process.tail())
        return str(found[-1])

    def __enter__(self) -> MasterlessCluster:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
