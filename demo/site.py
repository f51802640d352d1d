"""The demo's clusters: a source whose RegionServers are processes of their own, and a peer cluster in one JVM, both on local
files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from embedded.distributed import ClusterOptions, DistributedCluster, FileSystem
from embedded.ephemerals import zookeeper
from embedded.masterless import LocalFiles
from embedded.standalone import StandaloneCluster

REGIONSERVERS = 2
SOURCE_CONF = {
    # oldWALs gets smaller a minute after the last queue has let a WAL go. HBase's own TTL is 10 minutes.
    "hbase.master.logcleaner.ttl": "60000",
    "hbase.master.cleaner.interval": "5000",
    # A dead server's queue stays under it for a minute or two, so that there is time to look at it. HBase's own default is 30 s.
    "replication.sleep.before.failover": "60000",
}


class Site:
    """Two clusters of two RegionServers each, with all their files under `folder`."""

    peer_conn_id: str | None = None  # the connection of the peer cluster, if it has one
    begins_with = "ZooKeeper"  # what `launch` waits for

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = DistributedCluster("source", folder / "source", self._files(), self._source_options())
        self.peer_cluster = self._peer_cluster()

    @property
    def jvm_options(self) -> list[str]:
        """What a JVM needs to talk to the clusters."""
        return []

    @property
    def environment(self) -> dict[str, str]:
        """What processes need in their environment to talk to the clusters, besides `connection`."""
        return {}

    @property
    def protection(self) -> list[str]:
        """What protects the clusters, in words."""
        return []

    @property
    def quarantine(self) -> Path:
        """Where broken WALs are put aside."""
        return self.folder / "quarantine"

    @property
    def connection(self) -> str:
        """Airflow's connection `hbase_source`, as AIRFLOW_CONN_HBASE_SOURCE takes it."""
        address = self.source.address
        host, port = address.quorum.split(":")
        return json.dumps({"conn_type": "generic", "host": host, "port": int(port), "extra": self._extra()})

    def launch(self) -> None:
        """Start both clusters without waiting for them."""
        self.source.launch_zookeeper()
        self.peer_cluster.launch()
        with zookeeper(self.source.address):
            pass
        self.source.launch_servers()

    def await_ready(self) -> None:
        """Wait until both serve. Raises ClusterError."""
        for cluster in (self.source, self.peer_cluster):
            cluster.await_ready()

    def processes(self) -> dict[str, int]:
        """The processes that run now, by their names."""
        its = {process.name: process.pid for process in (self.source.zookeeper, self.source.master) if process is not None}
        its |= {server.process.name: server.process.pid for server in self.source.regionservers}
        return its | {"peer_cluster": self.peer_cluster.process.pid}

    def kill(self) -> None:
        """End both clusters at once."""
        self.source.kill()
        self.peer_cluster.kill()

    def _files(self) -> FileSystem:
        return LocalFiles(self.folder / "files")

    def _source_options(self) -> ClusterOptions:
        return ClusterOptions(SOURCE_CONF, REGIONSERVERS, regionserver_heap="384m", master_heap="384m")

    def _peer_cluster(self) -> StandaloneCluster:
        return StandaloneCluster(
            self.folder / "peer_cluster", {"hbase.regionservers": str(REGIONSERVERS)}, heap="640m", name="peer_cluster"
        )

    def _extra(self) -> dict[str, Any]:
        address = self.source.address
        return {"znode_parent": address.znode_parent, "wal_root": address.wal_root, "quarantine": f"file://{self.quarantine}"}
